"""One agent, one tool, two plays: it is stuck on a part that cannot be found, or it is not.

An example of a framework is an ordinary agent in a process of its own. Whether it goes in circles
is the model's doing: the same file is played before a provider that always asks for the same, and
before one that does what it should.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.serving import running_gateway
from tests.docs.serving import clean_environment

from looptrap.config import load
from looptrap.policy.action import Action
from looptrap.testing import FakeProvider, Received, Reply

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
ANSWER = "All parts are in stock."
PARTS = (1, 2, 3)

PASSED = 5
"""Calls of a stuck agent that reach the provider: the result of each was the same, and the next is
refused."""

Script = Callable[[Received], Reply | None]


def stuck(received: Received) -> Reply | None:
    """Ask for part 5, whatever happens."""
    return Reply.tool_call("find_part", {"number": 5}) if received.call.generates else None


def circling(received: Received) -> Reply | None:
    """Ask for part 5 and for part 6 by turns, whatever happens."""
    if not received.call.generates:
        return None
    return Reply.tool_call("find_part", {"number": 5 + _turns(received) % 2})


def honest(finish: Reply | None = None) -> Script:
    """Ask for each part once, then finish: by saying so, unless told otherwise."""

    def script(received: Received) -> Reply | None:
        if not received.call.generates:
            return None
        asked = _turns(received)
        if asked < len(PARTS):
            return Reply.tool_call("find_part", {"number": PARTS[asked]})
        return finish or Reply.text(ANSWER)

    return script


@dataclass(frozen=True)
class Played:
    """What an example printed, what reached the provider, and what the gateway did."""

    lines: list[str]
    errors: str
    """What it wrote to stderr."""
    status: int
    calls: int
    """Model calls that reached the provider."""
    refused: int
    """Requests that the gateway answered itself."""
    warned: int
    """Requests that passed with a warning or more."""

    @property
    def last(self) -> str:
        """Return the last line, or what went wrong where there is none."""
        return self.lines[-1] if self.lines else self.errors


def play(
    example: str | Path | Sequence[str | Path],
    script: Script,
    folder: Path,
    *,
    toml: str = "",
    interpreter: str | Path = sys.executable,
    env: Mapping[str, str] | None = None,
    patience: float = 120,
) -> Played:
    """Run an example (its file's name, or a whole command) before a gateway and a provider."""
    command = [interpreter, EXAMPLES / example] if isinstance(example, str) else [*_words(example)]
    file = folder / "looptrap.toml"
    file.write_text(toml)
    with FakeProvider.running(script) as provider:
        flags = {"listen": "127.0.0.1:0", "upstream": provider.url, "state": str(folder / "state")}
        with running_gateway(load(file, env={}, flags=flags)) as gateway:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=patience,
                check=False,
                cwd=folder,
                env={**clean_environment(), **environment(gateway.url), **(env or {})},
            )
            verdicts = gateway.app.tally.verdicts
    refused = verdicts[Action.BLOCK] + verdicts[Action.STOP]
    return Played(
        lines=done.stdout.splitlines(),
        errors=done.stderr,
        status=done.returncode,
        calls=provider.calls,
        refused=refused,
        warned=verdicts.total() - refused - verdicts[Action.ALLOW],
    )


def environment(url: str) -> dict[str, str]:
    """Return how examples find the gateway: by the variables that their vendors know."""
    return {
        "LOOPTRAP_URL": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "sk-test",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-test",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "test",
        "NO_COLOR": "1",
    }


def _turns(received: Received) -> int:
    """Return how often the model has spoken: results are not told apart by all frameworks."""
    return sum(message.role == "assistant" for message in received.call.messages)


def _words(command: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    return [command] if isinstance(command, str | Path) else command
