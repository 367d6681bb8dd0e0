"""The output of the demo: lines in a pipe, a live frame in a terminal."""

from __future__ import annotations

import asyncio
from textwrap import fill, indent

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from looptrap.cli.demo.agent import (
    ARGUMENTS,
    CONTEXT_MESSAGES,
    FAILURE,
    MODEL_PRICE,
    TOOL,
    AgentStep,
    DemoRun,
    run_agent,
)

INTRODUCTION = f"""\
An agent is stuck: its tool keeps failing, and its context window holds only
the last {CONTEXT_MESSAGES} messages, so it cannot see how often it has tried this already."""

WIDTH = 72
"""Of longer texts; leaves room for a frame in a terminal of 80 columns."""

_ARGUMENTS = ", ".join(f"{name}={value}" for name, value in ARGUMENTS.items())
_USED = f"{TOOL}({_ARGUMENTS}) failed: {FAILURE}"


def title(run: DemoRun) -> str:
    """Return the title of a run."""
    return "With Looptrap" if run.is_guarded else "Without Looptrap"


def row(run: DemoRun, step: AgentStep) -> str:
    """Return one call and the cost so far."""
    happened = f"HTTP {step.status} {step.code}" if step.is_refused else _USED
    verdict = f"{step.verdict:<7}" if run.is_guarded else ""
    return f"call {step.number:>4}  {verdict}{happened:<51}${run.cost:.2f}"


def ending(run: DemoRun) -> str:
    """Return how a run ended."""
    if run.refusal is not None:
        return fill(run.refusal.message, WIDTH)
    return f"Nothing has stopped it. The demo does, after {run.limit} calls."


def conclusion(without: DemoRun, guarded: DemoRun) -> str:
    """Return what was caught, when, and what that saves."""
    return f"{_caught_text(without, guarded)}\n\n{_price_text(without)}"


def _caught_text(without: DemoRun, guarded: DemoRun) -> str:
    refusal = guarded.refusal
    if refusal is None:
        return f"{guarded.limit} calls are not a loop yet: try --calls 60."
    saved = without.cost - guarded.cost
    return (
        f"Caught on call {refusal.number}: {guarded.answered} calls reached the provider,"
        f" not {without.answered}.\nSpent ${guarded.cost:.2f} instead of ${without.cost:.2f}:"
        f" ${saved:.2f} saved ({saved / without.cost:.0%})."
    )


def _price_text(run: DemoRun) -> str:
    tokens = sum(step.input_tokens + step.output_tokens for step in run.steps)
    return (
        f"{fill(f'{MODEL_PRICE}; {tokens // run.answered:,} tokens a call, none cached.', WIDTH)}\n"
        "Tokens are what the fake provider reported. Nothing has left this machine."
    )


LIVE_SECONDS = 3.0
"""Duration of the unguarded run on a live screen, for any number of calls."""
LIVE_PAUSE = 0.35
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
        """Run an act to its end and show its calls."""
        self.say(title(run))
        every = max(10, run.limit // 6)
        async for step in run_agent(run):
            if run.is_guarded or step.number <= 3 or step.number % every == 0:
                self.say(f"  {row(run, step)}")
        self.say(f"{indent(ending(run), '  ')}\n")


class LiveScreen(Screen):
    """The latest calls in a frame, slowly enough to follow."""

    async def watch(self, run: DemoRun) -> None:
        """Run an act to its end and show its calls."""
        pause = LIVE_PAUSE if run.is_guarded else LIVE_SECONDS / run.limit
        rows: list[Text] = []
        with Live(console=self._console, auto_refresh=False) as live:
            async for step in run_agent(run):
                style = _STYLES.get(step.verdict, "")
                rows = [*rows, Text(row(run, step), style)][-LIVE_ROWS:]
                live.update(_frame(run, rows), refresh=True)
                await asyncio.sleep(pause)
            live.update(_frame(run, [*rows, Text(f"\n{ending(run)}")]), refresh=True)


def choose_screen(plain: bool) -> Screen:
    """Return a live screen in a terminal, else a plain one."""
    console = Console(highlight=False)
    if plain or not console.is_terminal or console.is_dumb_terminal:
        return Screen(Console(highlight=False, color_system=None, soft_wrap=True))
    return LiveScreen(console)


async def play(calls: int, screen: Screen) -> None:
    """Run the agent without Looptrap, then with it, and say what the difference is."""
    screen.say(f"{INTRODUCTION}\n")
    without, guarded = DemoRun(False, calls), DemoRun(True, calls)
    await screen.watch(without)
    await screen.watch(guarded)
    screen.say(conclusion(without, guarded))


def _frame(run: DemoRun, rows: list[Text]) -> Panel:
    return Panel(
        Group(*rows),
        title=title(run),
        subtitle=f"${run.cost:.2f} spent",
        border_style="green" if run.is_guarded else "red",
        width=LIVE_WIDTH,
    )
