"""`looptrap demo`: a stuck agent, once without and once with Looptrap, on this machine alone."""

from __future__ import annotations

import asyncio

import click

MAX_CALLS = 1000
"""More would take too long for a demo."""


@click.command(short_help="Watch a stuck agent being caught.")
@click.option(
    "--calls",
    metavar="N",
    type=click.IntRange(1, MAX_CALLS),
    default=60,
    show_default=True,
    help="End a loop that nothing stops after N calls.",
)
@click.option("--plain", is_flag=True, help="Plain lines, as in a pipe: no colour, no waiting.")
@click.option("--dashboard", is_flag=True, help="Play it into a dashboard, open until Ctrl-C.")
def demo(calls: int, plain: bool, dashboard: bool) -> None:
    """Watch a stuck agent being caught, and what that saves.

    Starts a fake provider and a gateway on free local ports; nothing leaves this machine.
    """
    import uvloop

    from looptrap.cli.demo_run import choose_screen, play, play_into_dashboard

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        run = play_into_dashboard if dashboard else play
        runner.run(run(calls, choose_screen(plain)))
