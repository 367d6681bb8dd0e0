"""`looptrap keys`: make, list, rotate and revoke the gateway's own keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from looptrap.cli.config import config_option
from looptrap.cli.output import DASH, json_option, print_table, print_warnings

if TYPE_CHECKING:
    from looptrap.cli.key_store import Place
    from looptrap.gateway.state_file import GatewayKey

MAX_GRACE_S = 30 * 86_400

HEADINGS = ("NAME", "ID", "PROJECT", "CREATED (UTC)", "STATUS")


def key_store_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags that say where the keys are; the command gets a `place`."""

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
        from looptrap.cli.key_store import find_place

        command(place=find_place(file, state, store), **options)

    return with_key_store


@click.group()
def keys() -> None:
    """Make, list, rotate and revoke gateway keys.

    Once there is a key, the gateway requires one from every caller. A running gateway follows
    within seconds. Give the --config of the gateway: keys are in its state file, or in its store.
    """


@keys.command()
@click.argument("name")
@click.option("--project", metavar="NAME", default="", help="The project its callers belong to.")
@key_store_options
@json_option
def add(place: Place, name: str, project: str, as_json: bool) -> None:
    """Make a key called NAME and print it once: only its digest is stored."""
    _print_new(*place.run(lambda key_store: key_store.add(name, project)), place, as_json)


@keys.command()
@click.argument("name")
@click.option("--grace", metavar="SECONDS", type=click.FloatRange(0, MAX_GRACE_S), default=0.0,
              help="How long the earlier key stays valid.  [0]")  # fmt: skip
@key_store_options
@json_option
def rotate(place: Place, name: str, grace: float, as_json: bool) -> None:
    """Replace the key called NAME by another one and print that once.

    The caller stays the same, with its counts and budgets.
    """
    _print_new(*place.run(lambda key_store: key_store.rotate(name, grace)), place, as_json)
    if grace and not as_json:
        click.echo(f"The earlier key stays valid for {grace:g} seconds.", err=True)


def _print_new(key: GatewayKey, text: str, place: Place, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"key": text, **_fields(key)}))
        return
    # The key alone on standard output, for scripts; the words beside it.
    click.echo(f"The digest of key {key.name} is in {place}. Copy the key now:", err=True)
    click.echo(text)


@keys.command("list")
@key_store_options
@json_option
def list_(place: Place, as_json: bool) -> None:
    """List the keys, the revoked ones too."""
    found, warning = place.run(lambda key_store: key_store.list_keys()), place.warning()
    print_warnings([warning] if warning else [])
    if as_json:
        click.echo(json.dumps([_fields(key) for key in found], indent=2))
    elif found:
        print_table(HEADINGS, [_row(key) for key in found])
    else:
        click.echo(f"No keys in {place}: make one with `looptrap keys add NAME`.", err=True)


@keys.command()
@click.argument("name")
@key_store_options
@json_option
def revoke(place: Place, name: str, as_json: bool) -> None:
    """Refuse the key called NAME from now on."""
    key = place.run(lambda key_store: key_store.revoke(name))
    if as_json:
        click.echo(json.dumps(_fields(key)))
    else:
        click.echo(f"Key {name} ({key.id}) is revoked.")


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
    if key.revoked is None:
        status = "active"
    else:
        is_over = key.revoked <= datetime.now(UTC)
        status = f"{'revoked' if is_over else 'valid until'} {key.revoked:%Y-%m-%d %H:%M}"
    return key.name, key.id, key.project or DASH, f"{key.created:%Y-%m-%d %H:%M}", status
