"""`looptrap keys`: make, list and revoke the gateway's own keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from looptrap.cli.failure import fail
from looptrap.errors import ConfigError

if TYPE_CHECKING:
    from looptrap.gateway.state import Key, StateFile

HEADINGS = ("NAME", "ID", "PROJECT", "CREATED (UTC)", "STATUS")

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _state(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--state",
        metavar="FILE",
        type=click.Path(),
        help="The state file of the gateway.  [default: looptrap.state]",
    )(command)


@click.group()
def keys() -> None:
    """Make, list and revoke gateway keys.

    As soon as there is one key, the gateway asks everybody for one. A running gateway follows
    within seconds.
    """


@keys.command()
@click.argument("name")
@click.option("--project", metavar="NAME", default="", help="The project its callers belong to.")
@_state
@_as_json
def add(name: str, project: str, state: str | None, as_json: bool) -> None:
    """Make a key called NAME and print it: it is shown this once, only its digest is kept."""
    from looptrap.gateway import keys as gateway_keys

    file = _file(state)
    try:
        key, text = gateway_keys.add(file, name, project=project, now=datetime.now(UTC))
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps({"key": text, **_plain(key)}))
        return
    # The key alone on standard output, for scripts; the words beside it.
    click.echo(f"Key {name} is kept in {file.path} as a digest. Copy it now:", err=True)
    click.echo(text)


@keys.command("list")
@_state
@_as_json
def list_(state: str | None, as_json: bool) -> None:
    """List the keys, the revoked ones too."""
    file = _file(state)
    try:
        found = file.read()
    except ConfigError as error:
        fail(error)
    if (warning := file.exposure()) is not None:
        click.echo(f"warning: {warning}", err=True)
    kept = found.keys if found is not None else ()
    if as_json:
        click.echo(json.dumps([_plain(key) for key in kept], indent=2))
    elif kept:
        _print_table([HEADINGS, *map(_row, kept)])
    else:
        click.echo(f"No keys in {file.path}: make one with `looptrap keys add NAME`.", err=True)


@keys.command()
@click.argument("name")
@_state
@_as_json
def revoke(name: str, state: str | None, as_json: bool) -> None:
    """Refuse the key called NAME from now on."""
    from looptrap.gateway import keys as gateway_keys

    try:
        key = gateway_keys.revoke(_file(state), name, now=datetime.now(UTC))
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(_plain(key)))
    else:
        click.echo(f"Key {name} ({key.id}) is revoked.")


def _file(path: str | None) -> StateFile:
    from looptrap.config.gateway import GatewaySettings
    from looptrap.gateway.state import StateFile

    return StateFile(path or GatewaySettings().state)


def _plain(key: Key) -> dict[str, Any]:
    """Return what may be shown of a key."""
    return {
        "name": key.name,
        "id": key.id,
        "project": key.project,
        "created": key.created.isoformat(),
        "revoked": key.revoked.isoformat() if key.revoked is not None else None,
    }


def _row(key: Key) -> tuple[str, ...]:
    status = f"revoked {key.revoked:%Y-%m-%d %H:%M}" if key.revoked is not None else "active"
    return key.name, key.id, key.project or "–", f"{key.created:%Y-%m-%d %H:%M}", status


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for i, row in enumerate(rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(click.style(line.rstrip(), bold=i == 0))
