"""How commands fail: every mistake on a line of its own, exit status 2, no traceback."""

from __future__ import annotations

from typing import NoReturn

import click

from looptrap.errors import ConfigError, Problem


def fail(error: ConfigError, *, place: str = "") -> NoReturn:
    """Print every mistake and end the command; `place` is where they are when they do not say."""
    for problem in error.problems:
        click.echo(str(Problem(problem.place or place, problem.message)), err=True)
    raise click.exceptions.Exit(2)
