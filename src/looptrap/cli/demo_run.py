"""The demo: a stuck agent at a fake provider, its runs without and with Looptrap, their output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGINT, SIGTERM
from tempfile import TemporaryDirectory
from textwrap import fill, indent

from aiohttp import ClientSession, ClientTimeout
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from looptrap.admin.server import AdminServer
from looptrap.config import load
from looptrap.config.kind import Address
from looptrap.gateway.app import App
from looptrap.testing import FakeProvider
from looptrap.testing.stuck_agent import (
    ARGUMENTS,
    CONTEXT_MESSAGES,
    FAILURE,
    MODEL_PRICE,
    TOOL,
    StuckAgent,
    stuck_reply,
)

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


@dataclass(slots=True)
class DemoRun:
    """What happened so far in one run of the agent."""

    is_guarded: bool
    limit: int
    """Calls after which the demo ends the run, if nothing else does."""
    max_refusals: int = 1
    """Refusals after which the agent gives up."""
    steps: list[AgentStep] = field(default_factory=list)
    answered: int = 0
    """Calls that the provider has seen."""
    cost: float = 0.0
    """Dollars, for the tokens that the provider reported."""

    @property
    def refusal(self) -> AgentStep | None:
        """The call at which the agent was stopped, if it was."""
        return next((step for step in self.steps if step.is_refused), None)

    @property
    def refusals(self) -> int:
        """How many of its calls were refused."""
        return sum(step.is_refused for step in self.steps)

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


@dataclass(frozen=True, slots=True)
class DemoTarget:
    """Where the agent sends its calls: a fake provider, perhaps behind a gateway."""

    provider: FakeProvider
    url: str
    dashboard: str = ""
    """The URL of the gateway's dashboard, if it has one."""


@asynccontextmanager
async def open_target(
    *, is_guarded: bool, has_dashboard: bool = False
) -> AsyncIterator[DemoTarget]:
    """Start a fake provider, and in front of it a gateway if the run is guarded."""
    async with FakeProvider(lambda _received: stuck_reply()) as provider:
        if not is_guarded:
            yield DemoTarget(provider, provider.url)
            return
        with TemporaryDirectory(prefix="looptrap-demo-") as folder:
            app = App(load(env={}, flags=_flags(provider.url, Path(folder))), {})
            [(host, port)] = await app.start()
            admin = AdminServer(app, Address("127.0.0.1", 0))
            try:
                at = Address(*await admin.start()) if has_dashboard else None
                dashboard = f"http://{at}/" if at is not None else ""
                yield DemoTarget(provider, f"http://{host}:{port}", dashboard)
            finally:
                if has_dashboard:
                    await admin.stop()
                await app.stop()


def _flags(upstream: str, folder: Path) -> dict[str, str]:
    """Return settings that are independent of the machine: no file, variable, key or proxy."""
    return {
        "listen": "127.0.0.1:0",
        "upstream": upstream,
        "state": str(folder / "state"),
        "history": str(folder / "history"),
        "decision_log": "off",
        # The texts of the demo are no secret: the dashboard shows what repeats.
        "capture": "content",
        "capture_dir": str(folder / "calls"),
    }


async def run_agent(run: DemoRun, target: DemoTarget) -> AsyncIterator[AgentStep]:
    """Run the agent until it is refused or the limit is reached; yield every call."""
    agent = StuckAgent()
    async with ClientSession(target.url, timeout=REQUEST_TIMEOUT) as http:
        while len(run.steps) < run.limit and run.refusals < run.max_refusals:
            step = await _make_call(http, agent, len(run.steps) + 1)
            run.steps.append(step)
            run.answered = target.provider.calls
            run.cost += MODEL_PRICE.of(step.input_tokens, step.output_tokens)
            yield step


async def _make_call(http: ClientSession, agent: StuckAgent, number: int) -> AgentStep:
    """Make one call, and let the agent act on its answer."""
    async with http.post("/v1/chat/completions", json=agent.request()) as response:
        answer = await response.json()
        verdict = response.headers.get("X-Looptrap-Verdict", "")
        step = AgentStep(number, response.status, verdict)
        if step.is_refused:
            step.code, step.message = answer["error"]["code"], answer["error"]["message"]
            return step
        response.raise_for_status()
    usage = answer["usage"]
    step.input_tokens, step.output_tokens = usage["prompt_tokens"], usage["completion_tokens"]
    agent.take(answer)
    return step


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
DASHBOARD_REFUSALS = 5
"""Refusals before the agent gives up, where the dashboard shows what they save."""
LIVE_WIDTH = 80

_STYLES = {"allow": "green", "block": "bold red"}


class Screen:
    """One line a call, as soon as it is made; of a long run, not every call."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Print a paragraph."""
        self._console.print(text)

    async def watch(self, run: DemoRun, target: DemoTarget) -> None:
        """Run the agent to its end and show its calls."""
        self.say(run.title)
        every = max(10, run.limit // 6)
        async for step in run_agent(run, target):
            if run.is_guarded or step.number <= 3 or step.number % every == 0:
                self.say(f"  {run.row(step)}")
        self.say(f"{indent(run.ending, '  ')}\n")


class LiveScreen(Screen):
    """The latest calls in a frame, slowly enough to follow."""

    async def watch(self, run: DemoRun, target: DemoTarget) -> None:
        """Run the agent to its end and show its calls."""
        pause = LIVE_PAUSE_S if run.is_guarded else LIVE_DURATION_S / run.limit
        rows: list[Text] = []
        with Live(console=self._console, auto_refresh=False) as live:
            async for step in run_agent(run, target):
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
    for run in (without, guarded):
        async with open_target(is_guarded=run.is_guarded) as target:
            await screen.watch(run, target)
    tokens = sum(step.input_tokens + step.output_tokens for step in without.steps)
    price = f"{MODEL_PRICE}; {tokens // without.answered:,} tokens a call, none cached."
    screen.say(
        f"{_describe_savings(without, guarded)}\n\n{fill(price, TEXT_WIDTH)}\n"
        "Tokens are what the fake provider reported. Nothing has left this machine."
    )


async def play_into_dashboard(calls: int, screen: Screen) -> None:
    """Run the agent through a gateway with a dashboard, and keep both open until Ctrl-C."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for signal in (SIGINT, SIGTERM):
        loop.add_signal_handler(signal, ended.set)
    async with open_target(is_guarded=True, has_dashboard=True) as target:
        screen.say(f"{INTRODUCTION}\n\nIts dashboard: {target.dashboard}\n")
        await screen.watch(DemoRun(True, calls, max_refusals=DASHBOARD_REFUSALS), target)
        screen.say(
            f"Open {target.dashboard} to see the loop; more can be played there.\n"
            "Nothing leaves this machine, and nothing is kept. Press Ctrl-C to end."
        )
        await ended.wait()


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
