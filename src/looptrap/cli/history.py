"""`looptrap backup` and `looptrap history`: copy the history, or move it into PostgreSQL."""

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


@click.command(short_help="Copy the history, also while the gateway runs.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--config", metavar="FILE", type=click.Path(), help="The gateway's TOML; it names the history."
)
@click.option("--history", metavar="FILE", help="The history to copy.  [looptrap.db]")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def backup(file: Path, config: str | None, history: str | None, force: bool) -> None:
    """Copy incidents, alerts, spending, logged calls and the audit to FILE, and check the copy.

    The gateway may run and write meanwhile: the copy has everything that was committed when it
    began, in one file that only its owner can read. A plain copy of looptrap.db would not: what
    was written last is in looptrap.db-wal.

    FILE replaces looptrap.db while no gateway runs. The gateway keys and the digest secret are in
    the state file, and not in the history: keep a copy of it too.

    \b
    Example: looptrap backup /backup/looptrap-$(date +%F).db --config looptrap.toml
    """
    from looptrap.config import load
    from looptrap.database.place import is_postgres, shown_place
    from looptrap.incident.history.backup import back_up

    found = load(config, env=os.environ, flags={"history": history})
    if not found.history:
        raise ConfigError('history: is "", so there is no file to copy')
    if is_postgres(found.history):
        place = shown_place(found.history)
        raise ConfigError(f"history: {place} is a PostgreSQL: back it up with pg_dump")
    copy = back_up(Path(found.history), file, replace=force)
    click.echo(
        f"{escaped(str(file))}: {copy.incidents:,} incidents and {copy.alerts:,} alerts,"
        f" {copy.size:,} bytes, checked"
    )
