"""The demo: a stuck agent at a fake provider, its runs without and with Looptrap, their output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill, indent
from typing import Any

from aiohttp import ClientSession, ClientTimeout
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from looptrap.config import load
from looptrap.gateway.app import App
from looptrap.testing import FakeProvider, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPrice:
    """A model's list price at a date: dollars a million tokens, without any discount."""

    model: str
    input: float
    output: float
    listed: str

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return dollars."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000

    def __str__(self) -> str:
        return (
            f"List price of {self.model}, {self.listed}: ${self.input:.2f} a million input tokens,"
            f" ${self.output:.2f} output"
        )


MODEL_PRICE = ListPrice(model="gpt-5.4", input=2.50, output=15.00, listed="October 2026")
"""The model that the demo's agent calls."""

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

REQUEST_TIMEOUT = ClientTimeout(total=10)


@dataclass(slots=True)
class AgentStep:
    """One call to the model and what came back."""

    number: int
    status: int
    verdict: str
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
        self._calls = 0

    async def step(self) -> AgentStep:
        """Make one call, and act on its answer."""
        self._calls += 1
        body = {"model": MODEL_PRICE.model, "messages": [*_OPENING, *self._recent], "tools": _TOOLS}
        async with self._http.post(self._url, json=body) as response:
            answer = await response.json()
            verdict = response.headers.get("X-Looptrap-Verdict", "")
            step = AgentStep(self._calls, response.status, verdict)
            if step.is_refused:
                step.code, step.message = answer["error"]["code"], answer["error"]["message"]
                return step
            response.raise_for_status()
        usage = answer["usage"]
        step.input_tokens, step.output_tokens = usage["prompt_tokens"], usage["completion_tokens"]
        self._use_tools(answer["choices"][0]["message"])
        return step

    def _use_tools(self, message: dict[str, Any]) -> None:
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"error: {FAILURE}"}
            for call in message["tool_calls"]
        ]
        self._recent = [*self._recent, message, *results][-CONTEXT_MESSAGES:]


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

    @property
    def title(self) -> str:
        return "With Looptrap" if self.is_guarded else "Without Looptrap"

    @property
    def ending(self) -> str:
        """How it ended."""
        if self.refusal is not None:
            return fill(self.refusal.message, TEXT_WIDTH)
        return f"Nothing has stopped it. The demo does, after {self.limit} calls."

    def row(self, step: AgentStep) -> str:
        """Return one call and the cost so far."""
        result = f"HTTP {step.status} {step.code}" if step.is_refused else _TOOL_FAILURE
        verdict = f"{step.verdict:<7}" if self.is_guarded else ""
        return f"call {step.number:>4}  {verdict}{result:<51}${self.cost:.2f}"


async def run_agent(run: DemoRun) -> AsyncIterator[AgentStep]:
    """Run the agent until it is refused or the limit is reached; yield every call."""
    async with (
        # Like a model that sees a failed tool and calls it again.
        FakeProvider(lambda _received: Reply.tool_call(TOOL, ARGUMENTS)) as provider,
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


INTRODUCTION = f"""\
An agent is stuck: its tool keeps failing, and its context window holds only
the last {CONTEXT_MESSAGES} messages, so it cannot see how often it has tried this already."""

_ARGUMENTS = ", ".join(f"{name}={value}" for name, value in ARGUMENTS.items())
_TOOL_FAILURE = f"{TOOL}({_ARGUMENTS}) failed: {FAILURE}"

TEXT_WIDTH = 72
"""Leaves room for a frame in a terminal of 80 columns."""

LIVE_DURATION_S = 3.0
"""Duration of the unguarded run on a live screen, for any number of calls."""
LIVE_PAUSE_S = 0.35
"""Seconds between two calls of the guarded run, so that each can be seen."""
LIVE_ROWS = 8
LIVE_WIDTH = 80

_STYLES = {"allow": "green", "block": "bold red"}


class Screen:
    """One line a call, as soon as it is made; of a long run, not every call."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Print a paragraph."""
        self._console.print(text)

    async def watch(self, run: DemoRun) -> None:
        """Run the agent to its end and show its calls."""
        self.say(run.title)
        every = max(10, run.limit // 6)
        async for step in run_agent(run):
            if run.is_guarded or step.number <= 3 or step.number % every == 0:
                self.say(f"  {run.row(step)}")
        self.say(f"{indent(run.ending, '  ')}\n")


class LiveScreen(Screen):
    """The latest calls in a frame, slowly enough to follow."""

    async def watch(self, run: DemoRun) -> None:
        """Run the agent to its end and show its calls."""
        pause = LIVE_PAUSE_S if run.is_guarded else LIVE_DURATION_S / run.limit
        rows: list[Text] = []
        with Live(console=self._console, auto_refresh=False) as live:
            async for step in run_agent(run):
                style = _STYLES.get(step.verdict, "")
                rows = [*rows, Text(run.row(step), style)][-LIVE_ROWS:]
                live.update(_frame(run, rows), refresh=True)
                await asyncio.sleep(pause)
            live.update(_frame(run, [*rows, Text(f"\n{run.ending}")]), refresh=True)


def _frame(run: DemoRun, rows: list[Text]) -> Panel:
    return Panel(
        Group(*rows),
        title=run.title,
        subtitle=f"${run.cost:.2f} spent",
        border_style="green" if run.is_guarded else "red",
        width=LIVE_WIDTH,
    )


def choose_screen(plain: bool) -> Screen:
    """Return a live screen in a terminal, else a plain one."""
    console = Console(highlight=False)
    if plain or not console.is_terminal or console.is_dumb_terminal:
        return Screen(Console(highlight=False, color_system=None, soft_wrap=True))
    return LiveScreen(console)


async def play(calls: int, screen: Screen) -> None:
    """Run the agent without Looptrap, then with it, and print the difference."""
    screen.say(f"{INTRODUCTION}\n")
    without, guarded = DemoRun(False, calls), DemoRun(True, calls)
    await screen.watch(without)
    await screen.watch(guarded)
    tokens = sum(step.input_tokens + step.output_tokens for step in without.steps)
    price = f"{MODEL_PRICE}; {tokens // without.answered:,} tokens a call, none cached."
    screen.say(
        f"{_describe_savings(without, guarded)}\n\n{fill(price, TEXT_WIDTH)}\n"
        "Tokens are what the fake provider reported. Nothing has left this machine."
    )


def _describe_savings(without: DemoRun, guarded: DemoRun) -> str:
    refusal = guarded.refusal
    if refusal is None:
        return f"{guarded.limit} calls are not a loop yet: try --calls 60."
    saved = without.cost - guarded.cost
    return (
        f"Caught on call {refusal.number}: {guarded.answered} calls reached the provider,"
        f" not {without.answered}.\nSpent ${guarded.cost:.2f} instead of ${without.cost:.2f}:"
        f" ${saved:.2f} saved ({saved / without.cost:.0%})."
    )
