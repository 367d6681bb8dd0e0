"""`looptrap keys`: make, list and revoke the gateway's own keys."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from looptrap.cli.config import config_option
from looptrap.cli.output import DASH, default_place, json_option, print_table, print_warnings
from looptrap.errors import ConfigError

if TYPE_CHECKING:
    from looptrap.cli.key_store import FileKeyStore, SharedKeyStore
    from looptrap.gateway.state_file import GatewayKey

HEADINGS = ("NAME", "ID", "PROJECT", "CREATED (UTC)", "STATUS")


def key_store_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags that say where the keys are; the command gets a `key_store`."""

    @config_option
    @click.option(
        "--state",
        metavar="FILE",
        type=click.Path(),
        help="The state file of the gateway.  [looptrap.state]",
    )
    @click.option(
        "--store",
        metavar="URL",
        help="The store that gateways share; keys are there, and not in a file.",
    )
    @wraps(command)
    def with_key_store(
        *, file: str | None, state: str | None, store: str | None, **options: Any
    ) -> None:
        command(key_store=_find_key_store(file, state, store), **options)

    return with_key_store


@click.group()
def keys() -> None:
    """Make, list and revoke gateway keys.

    Once there is a key, the gateway requires one from every caller. A running gateway follows
    within seconds. Give the --config of the gateway: keys are in its state file, or in its store.
    """


@keys.command()
@click.argument("name")
@click.option("--project", metavar="NAME", default="", help="The project its callers belong to.")
@key_store_options
@json_option
def add(key_store: FileKeyStore | SharedKeyStore, name: str, project: str, as_json: bool) -> None:
    """Make a key called NAME and print it once: only its digest is stored."""
    key, text = key_store.add(name, project)
    if as_json:
        click.echo(json.dumps({"key": text, **_fields(key)}))
        return
    # The key alone on standard output, for scripts; the words beside it.
    click.echo(f"The digest of key {name} is in {key_store}. Copy the key now:", err=True)
    click.echo(text)


@keys.command("list")
@key_store_options
@json_option
def list_(key_store: FileKeyStore | SharedKeyStore, as_json: bool) -> None:
    """List the keys, the revoked ones too."""
    found, warning = key_store.list_keys(), key_store.warning()
    print_warnings([warning] if warning else [])
    if as_json:
        click.echo(json.dumps([_fields(key) for key in found], indent=2))
    elif found:
        print_table(HEADINGS, [_row(key) for key in found])
    else:
        click.echo(f"No keys in {key_store}: make one with `looptrap keys add NAME`.", err=True)


@keys.command()
@click.argument("name")
@key_store_options
@json_option
def revoke(key_store: FileKeyStore | SharedKeyStore, name: str, as_json: bool) -> None:
    """Refuse the key called NAME from now on."""
    key = key_store.revoke(name)
    if as_json:
        click.echo(json.dumps(_fields(key)))
    else:
        click.echo(f"Key {name} ({key.id}) is revoked.")


def _find_key_store(
    file: str | None, state: str | None, store: str | None
) -> FileKeyStore | SharedKeyStore:
    """Return where a gateway with this configuration looks for keys; --state is a file for sure."""
    from looptrap.cli.key_store import FileKeyStore, SharedKeyStore
    from looptrap.config import load
    from looptrap.config.kind import MEMORY

    if state is not None and store is not None:
        raise ConfigError("--state and --store: give one or the other")
    with default_place(file):
        config = load(file, env=os.environ, flags={"state": state, "store": store})
    if state is None and config.store != MEMORY:
        return SharedKeyStore(config.store)
    return FileKeyStore(config.gateway.state)


def _fields(key: GatewayKey) -> dict[str, Any]:
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
    return key.name, key.id, key.project or DASH, f"{key.created:%Y-%m-%d %H:%M}", status
