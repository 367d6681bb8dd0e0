"""`looptrap alerts`: through which channels people hear, whether they work, what got stuck."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

import click

from looptrap.cli.gateway_client import ask_gateway, gateway_options
from looptrap.cli.output import ListingGroup, fail, print_table
from looptrap.errors import ConfigError, Problem

PATH = "/api/v1/alerts"

NO_CHANNELS = "No channels are set: see `[[channels]]` in the configuration."

CHANNELS = ("NAME", "KIND", "TO", "EVENTS", "#WAITING", "#DELIVERED", "#DEAD", "#ATTEMPTS")
LETTERS = ("EVENT", "NAME", "CHANNEL", "CREATED", "#ATTEMPTS", "ERROR")

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_channel = click.option("--channel", metavar="NAME", help="Only this channel.")


@click.group(cls=ListingGroup, short_help="List and test channels; see and resend dead letters.")
def alerts() -> None:
    """List the channels through which people hear of events, test them, resend what got stuck.

    Without a command, the channels are listed.
    """


@alerts.command("list")
@_as_json
@gateway_options
def list_(as_json: bool, admin: str, token_env: str | None) -> None:
    """List the channels and how they are doing.

    Beside each stands how many of its latest 1,000 alerts in each state wait, were delivered and
    were given up, and how many attempts they took.

    \b
    Example: looptrap alerts list
    """
    try:
        answer = ask_gateway(admin, token_env, "GET", PATH)
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    if not answer["channels"]:
        click.echo(NO_CHANNELS, err=True)
    else:
        print_table(CHANNELS, [_channel_row(one) for one in answer["channels"]])
    if dead := answer["letters"]["dead"]:
        click.echo(f"{dead:,} given up: see `looptrap alerts dead`.", err=True)


@alerts.command()
@_channel
@click.option(
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(),
    help="Test the channels of this file, from here, without a gateway.",
)
@_as_json
@gateway_options
def test(
    channel: str | None, file: str | None, as_json: bool, admin: str, token_env: str | None
) -> None:
    """Send a test event through every channel.

    The running gateway sends it, and says what became of it.
    Where a channel fails the exit status is 1.

    \b
    Examples: looptrap alerts test
              looptrap alerts test --channel slack
              looptrap alerts test --config looptrap.toml
    """
    try:
        if file is None:
            sent = {"channel": channel}
            results = ask_gateway(admin, token_env, "POST", f"{PATH}/test", sent)["channels"]
        else:
            results = _try_locally(file, channel)
    except ConfigError as error:
        fail(error, place=file or "")
    if as_json:
        click.echo(json.dumps(results, indent=2))
    elif not results:
        click.echo(NO_CHANNELS, err=True)
    else:
        for one in results:
            click.echo(f"{one['channel']}: {'delivered' if one['ok'] else one['error']}")
    if not results or not all(one["ok"] for one in results):
        raise click.exceptions.Exit(1)


@alerts.command()
@click.option("--limit", metavar="N", type=int, default=50, help="Up to 500.  [50]")
@_as_json
@gateway_options
def dead(limit: int, as_json: bool, admin: str, token_env: str | None) -> None:
    """List alerts that were given up, the latest first, and why.

    \b
    Example: looptrap alerts dead --json
    """
    try:
        answer = ask_gateway(admin, token_env, "GET", f"{PATH}/letters?state=dead&limit={limit}")
    except ConfigError as error:
        fail(error)
    letters = answer["letters"]
    if as_json:
        click.echo(json.dumps(letters, indent=2))
    elif not letters:
        click.echo("No alert was given up.", err=True)
    else:
        now = datetime.now(UTC)
        print_table(LETTERS, [_delivery_row(one, now) for one in letters])
        click.echo("To send them again: looptrap alerts resend --dead, or EVENT.", err=True)
    if answer["next"] is not None:
        click.echo(f"There are more than these {limit}: see --limit.", err=True)


@alerts.command()
@click.argument("event", required=False)
@click.option("--dead", "is_all", is_flag=True, help="All that were given up.")
@_channel
@_as_json
@gateway_options
def resend(
    event: str | None,
    is_all: bool,
    channel: str | None,
    as_json: bool,
    admin: str,
    token_env: str | None,
) -> None:
    """Send again what was given up.

    That is the alerts of EVENT, or with --dead all of them.
    Receivers know them by their `webhook-id`, which stays. Where there were none the exit status
    is 1.

    \b
    Examples: looptrap alerts resend evt_5f0c2a9be4d17786…
              looptrap alerts resend --dead --channel slack
    """
    try:
        if (event is None) is not is_all:
            raise ConfigError("give an EVENT, or --dead for all")
        sent = {"channel": channel, **({"state": "dead"} if is_all else {"event": event})}
        answer = ask_gateway(admin, token_env, "POST", f"{PATH}/resend", sent)
    except ConfigError as error:
        fail(error)
    number = answer["resent"]
    if as_json:
        click.echo(json.dumps(answer))
    elif number:
        click.echo(f"{number:,} {'alert is' if number == 1 else 'alerts are'} on the way again.")
    else:
        click.echo("No such alert was given up.", err=True)
    if not number:
        raise click.exceptions.Exit(1)


def _try_locally(file: str, name: str | None) -> list[dict[str, Any]]:
    """Make the channels of a configuration ready, and try them."""
    import asyncio

    from looptrap.admin.alert import try_channels
    from looptrap.config import load
    from looptrap.incident.alert.channel import make_channels

    config = load(file, env=os.environ, flags={})
    channels = make_channels(config.channels, os.environ)
    if name is not None:
        channels = [one for one in channels if one.name == name]
        if not channels:
            raise ConfigError([Problem("--channel", f"no channel of {file} is called {name}")])
    return asyncio.run(try_channels(channels))


def _channel_row(one: dict[str, Any]) -> tuple[str, ...]:
    counts = (f"{one[name]:,}" for name in ("pending", "delivered", "dead", "attempts"))
    return one["name"], one["kind"], one["to"], ", ".join(one["events"]), *counts


def _delivery_row(one: dict[str, Any], now: datetime) -> tuple[str, ...]:
    from looptrap.cli.output import format_age

    created = format_age(one["created"], now)
    attempts = f"{one['attempts']:,}"
    return one["event"], one["name"], one["channel"], created, attempts, one["error"] or "–"
