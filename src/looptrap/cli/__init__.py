"""The command line: one module a command.

Commands import what they need when they run, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import click

from looptrap import __version__
from looptrap.cli.alerts import alerts
from looptrap.cli.backup import backup
from looptrap.cli.check import check
from looptrap.cli.cost import cost
from looptrap.cli.demo import demo
from looptrap.cli.incidents import incidents
from looptrap.cli.keys import keys
from looptrap.cli.kill import kill, unkill
from looptrap.cli.presets import presets
from looptrap.cli.release import release
from looptrap.cli.replay import replay
from looptrap.cli.serve import serve
from looptrap.cli.spending import spending


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="looptrap")
def main() -> None:
    """Stop runaway LLM agents before the bill does."""


for _command in (
    *(alerts, backup, check, cost, demo, incidents, keys, kill, presets, release, replay, serve),
    *(spending, unkill),
):
    main.add_command(_command)
