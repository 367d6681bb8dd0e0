"""The command line.

Commands import what they need when they run, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

from typing import Any

import click

from looptrap import __version__
from looptrap.build import build_kind
from looptrap.cli.alerts import alerts
from looptrap.cli.calls import calls
from looptrap.cli.config import check, presets
from looptrap.cli.cost import cost
from looptrap.cli.demo import demo
from looptrap.cli.doctor import doctor
from looptrap.cli.history import backup, history
from looptrap.cli.incidents import incidents
from looptrap.cli.init import init
from looptrap.cli.keys import keys
from looptrap.cli.kill import kill, release, unkill
from looptrap.cli.replay import replay
from looptrap.cli.run import run
from looptrap.cli.serve import serve
from looptrap.cli.setup import setup
from looptrap.cli.spending import spending
from looptrap.errors import ConfigError


class CommandLine(click.Group):
    """All commands; each ends with status 2 for a ConfigError, after its mistakes are printed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            click.echo(str(error), err=True)
            raise click.exceptions.Exit(2) from None


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    __version__, prog_name="looptrap", message=f"%(prog)s, version %(version)s ({build_kind()})"
)
def main() -> None:
    """Stop runaway LLM agents before the bill does."""


for _command in (
    alerts, backup, calls, check, cost, demo, doctor, history, incidents, init, keys, kill,
    presets, release, replay, run, serve, setup, spending, unkill,
):  # fmt: skip
    main.add_command(_command)
