"""`looptrap presets`: list the presets, or print one."""

from __future__ import annotations

import click

from looptrap.cli.output import fail
from looptrap.errors import ConfigError


@click.command(short_help="List the presets, or print one.")
@click.argument("name", required=False)
def presets(name: str | None) -> None:
    """List the presets; with NAME, print its TOML, to be used or changed in a file."""
    from looptrap.policy import preset

    if name is not None:
        try:
            click.echo(preset.text(name), nl=False)
        except ConfigError as error:
            fail(error, place="NAME")
        return
    width = max(map(len, preset.names()))
    for each in preset.names():
        click.echo(f"{click.style(each.ljust(width), bold=True)}  {preset.summary(each)}")
