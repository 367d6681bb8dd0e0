"""`looptrap keys`: make, list and revoke the gateway's own keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from looptrap.cli.output import fail, print_table
from looptrap.errors import ConfigError

if TYPE_CHECKING:
    from looptrap.cli.key_store import KeyStore
    from looptrap.gateway.state_file import GatewayKey

_FLAG = click.core.ParameterSource.COMMANDLINE

KEY_HEADINGS = ("NAME", "ID", "PROJECT", "CREATED (UTC)", "STATUS")

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _location_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags that say where the keys are."""
    command = click.option(
        "--store",
        metavar="URL",
        envvar="LOOPTRAP_STORE",
        help="The store that gateways share; keys are there, and not in a file.",
    )(command)
    return click.option(
        "--state",
        metavar="FILE",
        type=click.Path(),
        help="The state file of the gateway.  [default: looptrap.state]",
    )(command)


@click.group()
def keys() -> None:
    """Make, list and revoke gateway keys.

    Once there is a key, the gateway requires one from every caller. A running gateway follows
    within seconds.
    """


@keys.command()
@click.argument("name")
@click.option("--project", metavar="NAME", default="", help="The project its callers belong to.")
@_location_options
@_as_json
def add(name: str, project: str, state: str | None, store: str | None, as_json: bool) -> None:
    """Make a key called NAME and print it once: only its digest is stored."""
    try:
        place = _key_store(state, store)
        key, text = place.add(name, project, datetime.now(UTC))
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps({"key": text, **_plain(key)}))
        return
    # The key alone on standard output, for scripts; the words beside it.
    click.echo(f"The digest of key {name} is in {place}. Copy the key now:", err=True)
    click.echo(text)


@keys.command("list")
@_location_options
@_as_json
def list_(state: str | None, store: str | None, as_json: bool) -> None:
    """List the keys, the revoked ones too."""
    try:
        place = _key_store(state, store)
        found = place.list_keys()
    except ConfigError as error:
        fail(error)
    if (warning := place.warning()) is not None:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        click.echo(json.dumps([_plain(key) for key in found], indent=2))
    elif found:
        print_table(KEY_HEADINGS, list(map(_row, found)))
    else:
        click.echo(f"No keys in {place}: make one with `looptrap keys add NAME`.", err=True)


@keys.command()
@click.argument("name")
@_location_options
@_as_json
def revoke(name: str, state: str | None, store: str | None, as_json: bool) -> None:
    """Refuse the key called NAME from now on."""
    try:
        key = _key_store(state, store).revoke(name, datetime.now(UTC))
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(_plain(key)))
    else:
        click.echo(f"Key {name} ({key.id}) is revoked.")


def _key_store(state: str | None, store: str | None) -> KeyStore:
    """Return where the keys are: --state has precedence over the variable of the store."""
    from looptrap.cli.key_store import file_key_store, shared_key_store
    from looptrap.config.kind import MEMORY

    if state is not None or store in (None, MEMORY):
        if click.get_current_context().get_parameter_source("store") is _FLAG and state is not None:
            raise ConfigError("--state and --store: give one or the other")
        return file_key_store(state)
    return shared_key_store(store or "")


def _plain(key: GatewayKey) -> dict[str, Any]:
    """Return a key without its digest."""
    return {
        "name": key.name,
        "id": key.id,
        "project": key.project,
        "created": key.created.isoformat(),
        "revoked": key.revoked.isoformat() if key.revoked is not None else None,
    }


def _row(key: GatewayKey) -> tuple[str, ...]:
    status = f"revoked {key.revoked:%Y-%m-%d %H:%M}" if key.revoked is not None else "active"
    return key.name, key.id, key.project or "–", f"{key.created:%Y-%m-%d %H:%M}", status
