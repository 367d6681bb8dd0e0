"""Who plays: every framework with an example, and what it is documented to do."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.frameworks.scene import EXAMPLES, PASSED

from looptrap.testing import Reply

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".frameworks"
"""Where `make test-frameworks` installs what does not go with the rest."""

HERE = "here"
CHOSEN = os.environ.get("LOOPTRAP_FRAMEWORKS", HERE).split(",")
"""The environments whose frameworks are tested in this run."""


@dataclass(frozen=True)
class Framework:
    """A framework, its example, and what becomes of an agent of it that is stuck."""

    title: str
    example: str
    """The example's file; its stem names the page."""
    env: str = HERE
    """Where it is installed: here, or a folder of its own."""
    refused: Mapping[str, int] = field(default_factory=lambda: {"429": 1, "400": 1, "stop": 1})
    """How many requests of a stuck agent are refused until it ends: with a `block_status` of 429,
    with one of 400, and with the action `stop`."""
    catches: str = ""
    """What the example catches to end cleanly; empty where the framework ends by itself."""
    passed: int = PASSED
    """Calls of a stuck agent that reach the provider."""
    finish: Reply | None = None
    """How a model says in it that it is done, where that is not just text."""
    variables: Mapping[str, str] = field(default_factory=dict)
    patience: float = 120

    @property
    def page(self) -> Path:
        """Return the page about it."""
        return ROOT / "docs" / "frameworks" / f"{Path(self.example).stem}.md"

    @property
    def command(self) -> Sequence[str | Path]:
        """Return what runs its example."""
        if self.example.endswith(".mjs"):
            return [shutil.which("node") or "node", EXAMPLES / self.example]
        python = sys.executable if self.env == HERE else ENVIRONMENTS / self.env / "bin" / "python"
        return [python, EXAMPLES / self.example]


FRAMEWORKS = [
    Framework("OpenAI SDK", "openai_sdk.py", catches="APIStatusError"),
]

PLAYING = [one for one in FRAMEWORKS if one.env in CHOSEN]
