"""A stuck agent, and one run of it at a fake provider, with the gateway between or without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiohttp import ClientSession, ClientTimeout

from looptrap.config import load
from looptrap.gateway.app import App
from looptrap.testing import FakeProvider, Received, Reply

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPrice:
    """A model's list price at a date: dollars a million tokens, without any discount."""

    model: str
    input: float
    output: float
    listed: str

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return dollars."""
        return (input_tokens * self.input + output_tokens * self.output) / MILLION

    def __str__(self) -> str:
        return (
            f"List price of {self.model}, {self.listed}: ${self.input:.2f} a million input tokens,"
            f" ${self.output:.2f} output"
        )


MODEL_PRICE = ListPrice(model="gpt-5.4", input=2.50, output=15.00, listed="October 2026")
"""The model that the demo's agent asks for."""


TOOL = "read_log"
ARGUMENTS = {"pump": 5}
FAILURE = "the log server timed out"

CONTEXT_MESSAGES = 4
"""Messages in its context window after the task: two rounds, so it never sees a third."""

# About as long as a real agent's prompt: every call of a loop pays for it again.
_HANDBOOK = "\n".join(
    f"Pump {number}: check bearing, seal and coupling in this order; above 7.1 mm/s vibration shut"
    " it down, note the hour, read its log and report to the shift engineer."
    for number in range(1, 241)
)
_OPENING = [
    {"role": "system", "content": f"You keep a waterworks running.\n{_HANDBOOK}"},
    {"role": "user", "content": "Pump 5 vibrates. Find out why."},
]
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": TOOL,
            "description": "Read the latest lines of a pump's log.",
            "parameters": {"type": "object", "properties": {"pump": {"type": "integer"}}},
        },
    }
]


def fake_answer(_received: Received) -> Reply:
    """Answer like a model that sees a failed tool and calls it again."""
    return Reply.tool_call(TOOL, ARGUMENTS)


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One call to the model and what came back."""

    number: int
    status: int
    verdict: str = ""
    """What the gateway decided; empty where there is none."""
    input_tokens: int = 0
    output_tokens: int = 0
    code: str = ""
    message: str = ""
    """Why the call was refused, and in which words."""

    @property
    def is_refused(self) -> bool:
        """Whether the gateway refused the call."""
        return self.verdict == "block"


class StuckAgent:
    """Calls the model, runs its tool call, and trims its context."""

    def __init__(self, http: ClientSession, base_url: str) -> None:
        self._http = http
        self._url = f"{base_url}/v1/chat/completions"
        self._recent: list[dict[str, Any]] = []
        self._number = 0

    async def step(self) -> AgentStep:
        """Make one call, and act on its answer."""
        self._number += 1
        body = {"model": MODEL_PRICE.model, "messages": [*_OPENING, *self._recent], "tools": _TOOLS}
        async with self._http.post(self._url, json=body) as response:
            answer = await response.json()
            verdict = response.headers.get("X-Looptrap-Verdict", "")
            step = AgentStep(self._number, response.status, verdict)
            if step.is_refused:
                error = answer["error"]
                return replace(step, code=error["code"], message=error["message"])
            response.raise_for_status()
        self._use_tools(answer["choices"][0]["message"])
        used = answer["usage"]
        return replace(
            step, input_tokens=used["prompt_tokens"], output_tokens=used["completion_tokens"]
        )

    def _use_tools(self, message: dict[str, Any]) -> None:
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"error: {FAILURE}"}
            for call in message["tool_calls"]
        ]
        self._recent = [*self._recent, message, *results][-CONTEXT_MESSAGES:]


REQUEST_TIMEOUT = ClientTimeout(total=10)


@dataclass(slots=True)
class DemoRun:
    """What happened so far in one run of the agent."""

    is_guarded: bool
    limit: int
    """Calls after which the demo ends the run, if nothing else does."""
    steps: list[AgentStep] = field(default_factory=list)
    answered: int = 0
    """Calls that the provider has seen."""
    cost: float = 0.0
    """Dollars, for the tokens that the provider reported."""

    @property
    def refusal(self) -> AgentStep | None:
        """The call at which the agent was stopped, if it was."""
        return self.steps[-1] if self.steps and self.steps[-1].is_refused else None


async def run_agent(run: DemoRun) -> AsyncIterator[AgentStep]:
    """Run the agent until it is refused or the limit is reached; yield every call."""
    async with (
        FakeProvider(fake_answer) as provider,
        _reachable(provider, run.is_guarded) as url,
        ClientSession(timeout=REQUEST_TIMEOUT) as http,
    ):
        agent = StuckAgent(http, url)
        while len(run.steps) < run.limit and run.refusal is None:
            step = await agent.step()
            run.steps.append(step)
            run.answered = provider.calls
            run.cost += MODEL_PRICE.of(step.input_tokens, step.output_tokens)
            yield step


@asynccontextmanager
async def _reachable(provider: FakeProvider, is_guarded: bool) -> AsyncIterator[str]:
    """Give the URL by which the agent reaches the provider: straight, or through a gateway."""
    if not is_guarded:
        yield provider.url
        return
    with TemporaryDirectory(prefix="looptrap-demo-") as folder:
        # Independent of the machine's configuration: no file, variable, key or proxy.
        flags = {
            "listen": "127.0.0.1:0",
            "upstream": provider.url,
            "state": str(Path(folder, "state")),
            "history": str(Path(folder, "history")),
            "decision_log": "off",
        }
        app = App(load(env={}, flags=flags), {})
        [(host, port)] = await app.start()
        try:
            yield f"http://{host}:{port}"
        finally:
            await app.stop()
