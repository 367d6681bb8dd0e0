"""Who plays: every framework with an example, and what it is documented to do."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.frameworks.scene import ANSWER, EXAMPLES, PASSED, Script, circling, stuck

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
    stuck: Script = stuck
    """What its model does when it is stuck."""
    passed: int = PASSED
    """Calls of a stuck agent that reach the provider."""
    told: str = "find_part"
    """What the last line of a stuck agent has in it."""
    finish: Reply | None = None
    """How a model says in it that it is done, where that is not just text."""
    variables: Mapping[str, str] = field(default_factory=dict)
    patience: float = 120
    has_own_play: bool = False
    """Whether it takes more than a provider to play it; a test of its own does."""

    @property
    def page(self) -> Path:
        """Return the page about it."""
        return ROOT / "docs" / "frameworks" / f"{Path(self.example).stem}.md"

    def command(self, folder: Path) -> Sequence[str | Path]:
        """Return what runs its example; where that takes files beside it, they are put there."""
        if self.example.endswith(".mjs"):
            return ["node", staged(EXAMPLES / self.example, folder)]
        python = sys.executable if self.env == HERE else ENVIRONMENTS / self.env / "bin" / "python"
        return [python, EXAMPLES / self.example]


def staged(module: Path, folder: Path) -> Path:
    """Return a copy of an ES module beside its packages: Node looks for them nowhere else."""
    link_packages(folder)
    return Path(shutil.copy(module, folder))


def link_packages(folder: Path) -> None:
    """Let ES modules in a folder find the packages that were installed for Node."""
    packages = folder / "node_modules"
    if not packages.is_symlink():
        packages.symlink_to(ENVIRONMENTS / "node" / "node_modules")


NO_TRACES = {"LANGSMITH_TRACING": "false"}
"""Whatever the environment of the tests asks for."""

FRAMEWORKS = [
    Framework("OpenAI SDK", "openai_sdk.py", catches="APIStatusError"),
    Framework("Anthropic SDK", "anthropic_sdk.py", catches="APIStatusError"),
    Framework("OpenAI Agents SDK", "openai_agents.py", catches="APIStatusError"),
    Framework("LangChain", "langchain_agent.py", catches="LooptrapMiddleware", variables=NO_TRACES),
    Framework("LangGraph", "langgraph_graph.py", catches="ending", variables=NO_TRACES),
    Framework("Pydantic AI", "pydantic_ai_agent.py", catches="ModelHTTPError"),
    Framework("Google GenAI", "google_genai.py", catches="ClientError"),
    Framework("MCP", "mcp_client.py", catches="MCPError", has_own_play=True),
    Framework(
        "LiteLLM",
        "litellm_client.py",
        "b",
        catches="APIStatusError",
        variables={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        patience=300,
    ),
    Framework("LlamaIndex", "llama_index_agent.py", "b", catches="APIStatusError", patience=300),
    Framework(
        "smolagents",
        "smolagents_agent.py",
        "b",
        catches="AgentGenerationError",
        told="the same arguments and result",
        finish=Reply.tool_call("final_answer", {"answer": ANSWER}),
        patience=300,
    ),
    Framework(
        "CrewAI",
        "crewai_agent.py",
        "c",
        refused={"429": 3, "400": 1, "stop": 1},
        catches="APIStatusError",
        stuck=circling,
        passed=6,
        variables={"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"},
        patience=300,
    ),
    Framework("OpenAI SDK for Node", "openai_node.mjs", "node", catches="APIError"),
    Framework("Anthropic SDK for Node", "anthropic_node.mjs", "node", catches="APIError"),
    Framework("Vercel AI SDK", "vercel_ai.mjs", "node", catches="APICallError"),
    Framework("Vercel AI SDK, streaming", "vercel_ai_stream.mjs", "node", catches="APICallError"),
]

PLAYING = [one for one in FRAMEWORKS if one.env in CHOSEN and not one.has_own_play]
