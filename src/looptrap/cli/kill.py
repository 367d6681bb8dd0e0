"""`looptrap kill` and `unkill`: refuse calls at once, on all instances, and let them pass again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from looptrap.cli.gateway_client import ask_gateway, gateway_options
from looptrap.cli.output import fail
from looptrap.errors import ConfigError, Problem

PATH = "/api/v1/kill-switches"

SERVER_FIELDS = ("origin", "id", "created")
"""Fields of a kill switch that are not settings."""

PENDING_MESSAGE = "The shared store is unavailable: other instances follow when it is back."

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command(short_help="Refuse calls at once, on all instances.")
@click.argument("match", nargs=-1, metavar="[DESCRIPTOR=VALUE]...")
@click.option("--reason", metavar="TEXT", help="The reason in the refusal.")
@click.option("--for", "seconds", metavar="SECONDS", type=click.FloatRange(0, min_open=True),
              help="End by itself after so long.")  # fmt: skip
@click.option("--expires", metavar="TIME", help="End by itself then: 2026-12-01T00:00:00Z.")
@click.option("--path", "path_exact", metavar="PATH", help="Only on this path.")
@click.option("--path-prefix", metavar="PATH", help="Only on paths that begin so.")
@_as_json
@gateway_options
def kill(
    match: tuple[str, ...],
    seconds: float | None,
    as_json: bool,
    admin: str,
    token_env: str | None,
    **settings: str | None,
) -> None:
    """Refuse every call that has all these values: caller=key:ci, session=…, model=…,
    header:x-team=red. Without any, list the kill switches in force.

    It ends with `looptrap unkill ID`, or by itself with --for or --expires.
    """
    try:
        if not match:
            _list(ask_gateway(admin, token_env, "GET", PATH)["kill_switches"], as_json)
            return
        sent: dict[str, Any] = {name: text for name, text in settings.items() if text is not None}
        sent["match"] = _parse_match(match)
        if seconds is not None:
            sent["expires"] = _end(seconds, sent)
        made = ask_gateway(admin, token_env, "POST", PATH, sent)
    except ConfigError as error:
        fail(error)
    for warning in made.get("warnings", ()):
        click.echo(f"warning: {warning}", err=True)
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
@_as_json
@gateway_options
def unkill(switch_id: str, as_json: bool, admin: str, token_env: str | None) -> None:
    """End the kill switch ID, which `looptrap kill` printed and lists."""
    from urllib.parse import quote

    try:
        ended = ask_gateway(admin, token_env, "DELETE", f"{PATH}/{quote(switch_id, safe='')}")
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(ended))
        return
    click.echo(f"Kill switch {switch_id} is ended.")
    if ended["pending"]:
        click.echo(PENDING_MESSAGE, err=True)


def _parse_match(pairs: tuple[str, ...]) -> dict[str, str]:
    matched: dict[str, str] = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or name in matched:
            message = "must be DESCRIPTOR=VALUE, each descriptor once, such as caller=key:ci"
            raise ConfigError([Problem("MATCH", message)])
        matched[name] = value
    return matched


def _end(seconds: float, sent: dict[str, Any]) -> str:
    if "expires" in sent:
        raise ConfigError("--for and --expires: give one or the other")
    try:
        return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
    except OverflowError:
        raise ConfigError([Problem("--for", "is too long")]) from None


def _list(switches: list[dict[str, Any]], as_json: bool) -> None:
    from looptrap.config import description
    from looptrap.gateway.shared_settings.kill_switch import read_kill_switch

    if as_json:
        click.echo(json.dumps(switches, indent=2))
        return
    if not switches:
        click.echo("No kill switch is in force.", err=True)
    for switch in switches:
        which = switch["id"] or switch["origin"]
        settings = {name: value for name, value in switch.items() if name not in SERVER_FIELDS}
        click.echo(f"{which:8}  {description.of_kill_switch(read_kill_switch(settings))}")
