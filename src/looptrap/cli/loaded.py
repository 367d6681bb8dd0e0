"""The configuration that a command is to look at, with its warnings told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from looptrap.cli.failure import fail
from looptrap.errors import ConfigError

if TYPE_CHECKING:
    from looptrap.config import Config


def loaded(config: str | None, preset: str | None) -> Config:
    """Return the configuration in effect; end the command where it has mistakes."""
    from looptrap.config import load

    try:
        found = load(config, env=os.environ, flags={"preset": preset})
    except ConfigError as error:
        fail(error, place=config or "")
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    return found
