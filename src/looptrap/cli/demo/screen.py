"""What a person sees of the demo: lines in a pipe, a live picture in a terminal."""

from __future__ import annotations

import asyncio
from textwrap import indent

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from looptrap.cli.demo import wording
from looptrap.cli.demo.act import Act, perform

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

    async def watch(self, act: Act) -> None:
        """Run an act to its end and show its calls."""
        self.say(wording.title(act))
        every = max(10, act.most // 6)
        async for step in perform(act):
            if act.is_guarded or step.number <= 3 or step.number % every == 0:
                self.say(f"  {wording.row(act, step)}")
        self.say(f"{indent(wording.ending(act), '  ')}\n")


class LiveScreen(Screen):
    """The latest calls in a frame, slowly enough to follow."""

    async def watch(self, act: Act) -> None:
        """Run an act to its end and show its calls."""
        pause = LIVE_PAUSE if act.is_guarded else LIVE_SECONDS / act.most
        rows: list[Text] = []
        with Live(console=self._console, auto_refresh=False) as live:
            async for step in perform(act):
                style = _STYLES.get(step.verdict, "")
                rows = [*rows, Text(wording.row(act, step), style)][-LIVE_ROWS:]
                live.update(_frame(act, rows), refresh=True)
                await asyncio.sleep(pause)
            live.update(_frame(act, [*rows, Text(f"\n{wording.ending(act)}")]), refresh=True)


def choose_screen(plain: bool) -> Screen:
    """Return a live screen where there is a terminal for it."""
    console = Console(highlight=False)
    if plain or not console.is_terminal or console.is_dumb_terminal:
        return Screen(Console(highlight=False, color_system=None, soft_wrap=True))
    return LiveScreen(console)


async def play(calls: int, screen: Screen) -> None:
    """Run the agent without Looptrap, then with it, and say what the difference is."""
    screen.say(f"{wording.INTRODUCTION}\n")
    without, guarded = Act(False, calls), Act(True, calls)
    await screen.watch(without)
    await screen.watch(guarded)
    screen.say(wording.conclusion(without, guarded))


def _frame(act: Act, rows: list[Text]) -> Panel:
    return Panel(
        Group(*rows),
        title=wording.title(act),
        subtitle=f"${act.cost:.2f} spent",
        border_style="green" if act.is_guarded else "red",
        width=LIVE_WIDTH,
    )
