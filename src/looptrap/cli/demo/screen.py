"""What a person sees of the demo: lines in a pipe, a live picture in a terminal."""

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


def title(act: DemoRun) -> str:
    """Return what an act is called."""
    return "With Looptrap" if act.is_guarded else "Without Looptrap"


def row(act: DemoRun, step: AgentStep) -> str:
    """Return one call and what has been spent by then."""
    happened = f"HTTP {step.status} {step.code}" if step.is_refused else _USED
    verdict = f"{step.verdict:<7}" if act.is_guarded else ""
    return f"call {step.number:>4}  {verdict}{happened:<51}${act.cost:.2f}"


def ending(act: DemoRun) -> str:
    """Return how an act came to its end."""
    if act.refusal is not None:
        return fill(act.refusal.message, WIDTH)
    return f"Nothing has stopped it. The demo does, after {act.most} calls."


def conclusion(without: DemoRun, guarded: DemoRun) -> str:
    """Return what was caught, when, and what that saves."""
    return f"{_caught_text(without, guarded)}\n\n{_price_text(without)}"


def _caught_text(without: DemoRun, guarded: DemoRun) -> str:
    refusal = guarded.refusal
    if refusal is None:
        return f"{guarded.most} calls are not a loop yet: try --calls 60."
    saved = without.cost - guarded.cost
    return (
        f"Caught on call {refusal.number}: {guarded.answered} calls reached the provider,"
        f" not {without.answered}.\nSpent ${guarded.cost:.2f} instead of ${without.cost:.2f}:"
        f" ${saved:.2f} saved ({saved / without.cost:.0%})."
    )


def _price_text(act: DemoRun) -> str:
    tokens = sum(step.input_tokens + step.output_tokens for step in act.steps)
    return (
        f"{fill(f'{MODEL_PRICE}; {tokens // act.answered:,} tokens a call, none cached.', WIDTH)}\n"
        "Tokens are what the fake provider reported. Nothing has left this machine."
    )


LIVE_SECONDS = 3.0
"""How long the run that nothing stops takes on a live screen, however many calls it makes."""
LIVE_PAUSE = 0.35
"""Seconds between two calls of the run that is stopped: there each one is worth a look."""
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

    async def watch(self, act: DemoRun) -> None:
        """Run an act to its end and show its calls."""
        self.say(title(act))
        every = max(10, act.most // 6)
        async for step in run_agent(act):
            if act.is_guarded or step.number <= 3 or step.number % every == 0:
                self.say(f"  {row(act, step)}")
        self.say(f"{indent(ending(act), '  ')}\n")


class LiveScreen(Screen):
    """The latest calls in a frame, slowly enough to follow."""

    async def watch(self, act: DemoRun) -> None:
        """Run an act to its end and show its calls."""
        pause = LIVE_PAUSE if act.is_guarded else LIVE_SECONDS / act.most
        rows: list[Text] = []
        with Live(console=self._console, auto_refresh=False) as live:
            async for step in run_agent(act):
                style = _STYLES.get(step.verdict, "")
                rows = [*rows, Text(row(act, step), style)][-LIVE_ROWS:]
                live.update(_frame(act, rows), refresh=True)
                await asyncio.sleep(pause)
            live.update(_frame(act, [*rows, Text(f"\n{ending(act)}")]), refresh=True)


def choose_screen(plain: bool) -> Screen:
    """Return a live screen where there is a terminal for it."""
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


def _frame(act: DemoRun, rows: list[Text]) -> Panel:
    return Panel(
        Group(*rows),
        title=title(act),
        subtitle=f"${act.cost:.2f} spent",
        border_style="green" if act.is_guarded else "red",
        width=LIVE_WIDTH,
    )
