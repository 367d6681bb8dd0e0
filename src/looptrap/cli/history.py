"""`looptrap history`: move a history from a file into PostgreSQL."""

from __future__ import annotations

import os
from pathlib import Path

import click

from looptrap.errors import ConfigError
from looptrap.schema.wording import escaped


@click.group(short_help="Move the history into PostgreSQL.")
def history() -> None:
    """Move the history into PostgreSQL."""


@history.command(short_help="Copy a SQLite history into PostgreSQL, and check the copy.")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("url", required=False)
@click.option(
    "--config", metavar="FILE", type=click.Path(), help="The TOML that names the PostgreSQL."
)
def move(file: Path, url: str | None, config: str | None) -> None:
    """Copy everything in FILE into the PostgreSQL at URL, and check counts and sums.

    Without URL, into the history of the settings: LOOPTRAP_HISTORY, or the one in --config. Stop
    the gateway that writes FILE first. Gateways that use the PostgreSQL may run. A move that was
    interrupted goes on where it was; FILE stays as it is.

    \b
    Example: looptrap history move looptrap.db postgresql://looptrap@db/looptrap
    """
    from looptrap.config import load
    from looptrap.database.place import is_postgres, shown_place
    from looptrap.incident.history.move import TableSums, move_history
    from looptrap.money.price import format_usd, usd

    target = load(config, env=os.environ, flags={"history": url}).history
    if not is_postgres(target):
        raise ConfigError(
            f"URL: {target!r} is no PostgreSQL: write postgresql://USER@HOST/DATABASE"
        )

    def report(table: str, sums: TableSums) -> None:
        amount = f", {format_usd(usd(sums.cost))}" if sums.cost else ""
        click.echo(f"{table}: {sums.rows:,} rows{amount}, checked")

    move_history(file, target, report)
    click.echo(f"{escaped(str(file))} is in {escaped(shown_place(target))}.")
