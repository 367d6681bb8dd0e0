"""`looptrap kill`, `unkill` and `release`: refuse calls at once, and let calls pass again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import click

from looptrap.cli.gateway_client import GatewayClient, gateway_options
from looptrap.cli.output import json_option, print_warnings
from looptrap.errors import ConfigError, Problem
from looptrap.schema.wording import escaped

KILL_SWITCHES_PATH = "/api/v1/kill-switches"

SERVER_FIELDS = ("origin", "id", "created", "toml")
"""Fields of a kill switch that are not settings."""

PENDING_MESSAGE = "The shared store is unavailable: other instances follow when it is back."


@click.command(short_help="Refuse calls at once, on all instances.")
@click.argument("match", nargs=-1, metavar="[DESCRIPTOR=VALUE]...")
@click.option("--reason", metavar="TEXT", help="The reason in the refusal.")
@click.option("--for", "seconds", metavar="SECONDS", type=click.FloatRange(0, min_open=True),
              help="End automatically after this time.")  # fmt: skip
@click.option("--expires", metavar="TIME", help="End automatically then: 2026-12-01T00:00:00Z.")
@click.option("--path", "path_exact", metavar="PATH", help="Only on this path.")
@click.option("--path-prefix", metavar="PATH", help="Only on paths that begin with this.")
@json_option
@gateway_options
def kill(
    gateway: GatewayClient,
    match: tuple[str, ...],
    seconds: float | None,
    as_json: bool,
    **settings: str | None,
) -> None:
    """Refuse every call that has all these values: caller=key:ci, session=…, model=…,
    header:x-team=red. Without any, list the kill switches in force.

    It ends with `looptrap unkill ID`, or automatically with --for or --expires.
    """
    if not match:
        _print_switches(gateway.get(KILL_SWITCHES_PATH)["kill_switches"], as_json)
        return
    switch: dict[str, Any] = {name: text for name, text in settings.items() if text is not None}
    switch["match"] = _parse_match(match)
    if seconds is not None:
        if "expires" in switch:
            raise ConfigError("--for and --expires: give one or the other")
        switch["expires"] = _time_in(seconds)
    made = gateway.ask("POST", KILL_SWITCHES_PATH, switch)
    print_warnings(made.get("warnings", ()))
    if as_json:
        click.echo(json.dumps(made))
        return
    # The id alone on standard output, for scripts; the words beside it.
    until = f" until {made['expires']}" if "expires" in made else ""
    click.echo(f"Such calls are refused from now on{until}. To end it: looptrap unkill", err=True)
    click.echo(made["id"])
    if made["pending"]:
        click.echo(PENDING_MESSAGE, err=True)


@click.command(short_help="End a kill switch.")
@click.argument("switch_id", metavar="ID")
@json_option
@gateway_options
def unkill(gateway: GatewayClient, switch_id: str, as_json: bool) -> None:
    """End the kill switch ID, which `looptrap kill` printed and lists."""
    ended = gateway.ask("DELETE", f"{KILL_SWITCHES_PATH}/{quote(switch_id, safe='')}")
    if as_json:
        click.echo(json.dumps(ended))
        return
    click.echo(f"Kill switch {switch_id} is ended.")
    if ended["pending"]:
        click.echo(PENDING_MESSAGE, err=True)


@click.command(short_help="Let calls pass again that are refused as a loop.")
@click.argument("fingerprint", required=False)
@click.option("--caller", metavar="CALLER", help="All fingerprints of its open incidents.")
@click.option("--incident", metavar="ID", help="All recent fingerprints of this incident.")
@json_option
@gateway_options
def release(gateway: GatewayClient, as_json: bool, **which: str | None) -> None:
    """Let the next call of FINGERPRINT pass.

    A refusal contains its fingerprint; `looptrap incidents show` lists those of an incident.

    Counting starts again: a loop that continues is refused again. If nothing was refused the exit
    status is 1.

    \b
    Examples: looptrap release 1-5f0c2a9be4d17786…
              looptrap release --caller key:ci
              looptrap release --incident inc_4be01c7d
    """
    content = {name: value for name, value in which.items() if value is not None}
    if not content or ("fingerprint" in content and len(content) > 1):
        raise ConfigError("give a FINGERPRINT, or --caller, or --incident, or these two")
    answer = gateway.ask("POST", "/api/v1/release", content)
    if as_json:
        click.echo(json.dumps(answer))
    elif answer["released"]:
        for fingerprint in answer.get("fingerprints", [which["fingerprint"]]):
            click.echo(f"The next call of {escaped(fingerprint)} passes.")
    else:
        click.echo("Nothing was refused there, so nothing was released.", err=True)
    if not answer["released"]:
        raise click.exceptions.Exit(1)


def _parse_match(pairs: tuple[str, ...]) -> dict[str, str]:
    match: dict[str, str] = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or name in match:
            message = "must be DESCRIPTOR=VALUE, each descriptor once, such as caller=key:ci"
            raise ConfigError([Problem("MATCH", message)])
        match[name] = value
    return match


def _time_in(seconds: float) -> str:
    try:
        return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
    except OverflowError:
        raise ConfigError([Problem("--for", "is too long")]) from None


def _print_switches(switches: list[dict[str, Any]], as_json: bool) -> None:
    from looptrap.config import description
    from looptrap.gateway.shared_settings.runtime_override import read_kill_switch

    if as_json:
        click.echo(json.dumps(switches, indent=2))
        return
    if not switches:
        click.echo("No kill switch is in force.", err=True)
    for switch in switches:
        which = switch["id"] or switch["origin"]
        settings = {name: value for name, value in switch.items() if name not in SERVER_FIELDS}
        click.echo(f"{which:8}  {description.of_kill_switch(read_kill_switch(settings))}")
