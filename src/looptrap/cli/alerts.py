"""`looptrap alerts`: list and test channels, list and resend undelivered alerts."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import Any

import click

from looptrap.cli.gateway_client import GatewayClient, gateway_options
from looptrap.cli.output import (
    DASH,
    ListingGroup,
    default_place,
    format_age,
    json_option,
    print_table,
)
from looptrap.errors import ConfigError, Problem

ALERTS_PATH = "/api/v1/alerts"

NO_CHANNELS = "No channels are set: see `[[channels]]` in the configuration."

CHANNEL_HEADINGS = (
    "NAME", "KIND", "TO", "EVENTS", "#WAITING", "#DELIVERED", "#DEAD", "#ATTEMPTS",
)  # fmt: skip
LETTER_HEADINGS = ("EVENT", "NAME", "CHANNEL", "CREATED", "#ATTEMPTS", "ERROR")

channel_option = click.option("--channel", metavar="NAME", help="Only this channel.")


@click.group(cls=ListingGroup, short_help="List and test channels; see and resend dead letters.")
def alerts() -> None:
    """List the channels of alerts, test them, and resend undelivered alerts.

    Without a command, the channels are listed.
    """


@alerts.command("list")
@json_option
@gateway_options
def list_(gateway: GatewayClient, as_json: bool) -> None:
    """List the channels and their deliveries.

    Each row counts, of its latest 1,000 alerts in each state, those that wait, were delivered and
    were given up, and their attempts.

    \b
    Example: looptrap alerts list
    """
    answer = gateway.get(ALERTS_PATH)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    if not answer["channels"]:
        click.echo(NO_CHANNELS, err=True)
    else:
        print_table(CHANNEL_HEADINGS, [_channel_row(channel) for channel in answer["channels"]])
    if dead := answer["letters"]["dead"]:
        click.echo(f"{dead:,} given up: see `looptrap alerts dead`.", err=True)


@alerts.command()
@channel_option
@click.option(
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(),
    help="Test the channels of this file, from here, without a gateway.",
)
@json_option
@gateway_options
def test(gateway: GatewayClient, channel: str | None, file: str | None, as_json: bool) -> None:
    """Send a test event through every channel.

    The running gateway sends it and reports the result. If a channel fails the exit status is 1.

    \b
    Examples: looptrap alerts test
              looptrap alerts test --channel slack
              looptrap alerts test --config looptrap.toml
    """
    if file is None:
        answer = gateway.ask("POST", f"{ALERTS_PATH}/test", {"channel": channel})
        results = answer["channels"]
    else:
        with default_place(file):
            results = _test_locally(file, channel)
    if as_json:
        click.echo(json.dumps(results, indent=2))
    elif not results:
        click.echo(NO_CHANNELS, err=True)
    else:
        for result in results:
            click.echo(f"{result['channel']}: {'delivered' if result['ok'] else result['error']}")
    if not results or not all(result["ok"] for result in results):
        raise click.exceptions.Exit(1)


@alerts.command()
@click.option("--limit", metavar="N", type=int, default=50, help="Up to 500.  [50]")
@json_option
@gateway_options
def dead(gateway: GatewayClient, limit: int, as_json: bool) -> None:
    """List alerts that were given up, the latest first, and why.

    \b
    Example: looptrap alerts dead --json
    """
    answer = gateway.get(f"{ALERTS_PATH}/letters", state="dead", limit=limit)
    letters = answer["letters"]
    if as_json:
        click.echo(json.dumps(letters, indent=2))
    elif not letters:
        click.echo("No alert was given up.", err=True)
    else:
        now = datetime.now(UTC)
        print_table(LETTER_HEADINGS, [_letter_row(letter, now) for letter in letters])
        click.echo("To send them again: looptrap alerts resend --dead, or EVENT.", err=True)
    if answer["next"] is not None:
        click.echo(f"There are more than these {limit}: see --limit.", err=True)


@alerts.command()
@click.argument("event", required=False)
@click.option("--dead", "is_all", is_flag=True, help="All that were given up.")
@channel_option
@json_option
@gateway_options
def resend(
    gateway: GatewayClient, event: str | None, is_all: bool, channel: str | None, as_json: bool
) -> None:
    """Send again the alerts of EVENT that were given up, or with --dead all of them.

    Their `webhook-id` stays the same, so receivers recognise them. If there are none the exit
    status is 1.

    \b
    Examples: looptrap alerts resend evt_5f0c2a9be4d17786…
              looptrap alerts resend --dead --channel slack
    """
    if (event is None) is not is_all:
        raise ConfigError("give an EVENT, or --dead for all")
    which = {"state": "dead"} if is_all else {"event": event}
    answer = gateway.ask("POST", f"{ALERTS_PATH}/resend", {"channel": channel, **which})
    number = answer["resent"]
    if as_json:
        click.echo(json.dumps(answer))
    elif number:
        click.echo(f"{number:,} {'alert is' if number == 1 else 'alerts are'} on the way again.")
    else:
        click.echo("No such alert was given up.", err=True)
    if not number:
        raise click.exceptions.Exit(1)


def _test_locally(file: str, name: str | None) -> list[dict[str, Any]]:
    """Test the channels of a configuration from this process."""
    from looptrap.admin.alert import try_channels
    from looptrap.config import load
    from looptrap.incident.alert.channel import make_channels

    config = load(file, env=os.environ)
    channels = make_channels(config.channels, os.environ)
    if name is not None:
        channels = [channel for channel in channels if channel.name == name]
        if not channels:
            raise ConfigError([Problem("--channel", f"no channel of {file} is called {name}")])
    return asyncio.run(try_channels(channels))


def _channel_row(channel: dict[str, Any]) -> tuple[str, ...]:
    counts = (f"{channel[name]:,}" for name in ("pending", "delivered", "dead", "attempts"))
    return channel["name"], channel["kind"], channel["to"], ", ".join(channel["events"]), *counts


def _letter_row(letter: dict[str, Any], now: datetime) -> tuple[str, ...]:
    names = (letter["event"], letter["name"], letter["channel"])
    created, attempts = format_age(letter["created"], now), f"{letter['attempts']:,}"
    return *names, created, attempts, letter["error"] or DASH
