"""`looptrap incidents`: list, show, label and follow incidents."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from looptrap.cli.gateway_client import ask_gateway, gateway_options
from looptrap.cli.output import ListingGroup, fail
from looptrap.errors import ConfigError

INCIDENTS_PATH = "/api/v1/incidents"

PAGE_SIZE = 500
"""Most incidents of one request."""

POLL_INTERVAL_S = 1.0
"""Seconds between two polls for changes."""

LABEL = click.Choice(["false_alarm", "confirmed"])

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=ListingGroup, short_help="List, show, mark and follow incidents.")
def incidents() -> None:
    """List incidents, show one, label it, or follow them as they happen.

    An incident lasts from the first trip of a rule until it stays quiet. Without a command, open
    incidents are listed: `looptrap incidents --caller key:ci` is `looptrap incidents list …`.
    """


@incidents.command("list")
@click.option("--all", "state", flag_value="all", help="The closed ones too.")
@click.option("--closed", "state", flag_value="closed", help="Only those that are over.")
@click.option("--caller", metavar="CALLER", help="Of this caller: key:ci, cred:…, addr:….")
@click.option("--project", metavar="NAME", help="Of this project.")
@click.option("--session", metavar="NAME", help="Of this session.")
@click.option("--rule", metavar="NAME", help="That this rule tripped.")
@click.option("--since", metavar="SPAN", help="With a call since then: 30m, 24h, 7d, or a time.")
@click.option("--label", type=LABEL, metavar="LABEL", help="Marked as false_alarm or confirmed.")
@click.option(
    "--search", "q", metavar="TEXT", help="With this in id, caller, session, rule or model."
)
@click.option("--limit", metavar="N", type=int, default=50, help="At most N.  [50]")
@_as_json
@gateway_options
def list_(
    state: str | None,
    since: str | None,
    limit: int,
    as_json: bool,
    admin: str,
    token_env: str | None,
    **fitting: str | None,
) -> None:
    """List the incidents that are open, the latest first.

    \b
    Example: looptrap incidents list --all --caller key:ci --since 24h
    """
    from looptrap.cli import output

    wanted = {name: value for name, value in fitting.items() if value is not None}
    wanted["state"] = state or "open"
    now = datetime.now(UTC)
    try:
        if since is not None:
            wanted["since"] = output.parse_since(since, "--since", now)
        found, is_more = _pages(admin, token_env, wanted, limit)
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found:
        from looptrap.cli import incident_output

        incident_output.print_list(found, now)
    else:
        open_ = "open " if wanted["state"] == "open" else ""
        click.echo(f"There are no {open_}incidents{' of that kind' if len(wanted) > 1 else ''}.")
    if is_more:
        click.echo(f"There are more than these {limit}: see --limit.", err=True)


@incidents.command()
@click.argument("incident_id", metavar="ID")
@_as_json
@gateway_options
def show(incident_id: str, as_json: bool, admin: str, token_env: str | None) -> None:
    """Show one incident with all its steps.

    ID may be the beginning of its id, if no other begins so.

    \b
    Example: looptrap incidents show inc_4be01c7d
    """
    try:
        found = ask_gateway(admin, token_env, "GET", _path(incident_id))
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    from looptrap.cli import incident_output

    click.echo("\n".join(incident_output.detail_lines(found, datetime.now(UTC))))


@incidents.command()
@click.argument("incident_id", metavar="ID")
@gateway_options
def ack(incident_id: str, admin: str, token_env: str | None) -> None:
    """Acknowledge an incident.

    \b
    Example: looptrap incidents ack inc_4be01c7d
    """
    found = _annotate(admin, token_env, "POST", f"{_path(incident_id)}/acknowledge", {})
    click.echo(f"{found['id']} is taken care of since {found['acknowledged']['time']}.")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@click.argument("text")
@gateway_options
def note(incident_id: str, text: str, admin: str, token_env: str | None) -> None:
    """Add a note to an incident.

    \b
    Example: looptrap incidents note inc_4be01c7d 'A cron job, stopped.'
    """
    found = _annotate(admin, token_env, "POST", f"{_path(incident_id)}/notes", {"text": text})
    number = len(found["notes"])
    click.echo(f"{found['id']} has {number} note{'s' if number > 1 else ''}.")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@click.argument("label", type=click.Choice([*LABEL.choices, "none"]))
@gateway_options
def label(incident_id: str, label: str, admin: str, token_env: str | None) -> None:
    """Label an incident: false_alarm, confirmed, or none to remove the label.

    \b
    Example: looptrap incidents label inc_4be01c7d false_alarm
    """
    from looptrap.cli import incident_output

    given = {"label": None if label == "none" else label}
    found = _annotate(admin, token_env, "PUT", f"{_path(incident_id)}/label", given)
    click.echo("\n".join(incident_output.label_lines(found)))


@incidents.command()
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON a change.")
@gateway_options
def follow(as_json: bool, admin: str, token_env: str | None) -> None:
    """Print open incidents, then a line a change, until Ctrl-C or SIGTERM.

    An incident that continues is printed at most once a second.

    \b
    Example: looptrap incidents follow --json | jq .id
    """
    from looptrap.cli import incident_output

    def show(found: list[dict[str, Any]]) -> None:
        for incident in found:
            click.echo(json.dumps(incident) if as_json else incident_output.change_line(incident))

    # A background process of a script never gets Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # First the position of the latest change: changes meanwhile are printed twice, not missed.
        last = ask_gateway(admin, token_env, "GET", f"{INCIDENTS_PATH}/changes")["last"]
        show(_pages(admin, token_env, {"state": "open"}, PAGE_SIZE)[0][::-1])
        _follow(admin, token_env, last, show)
    except ConfigError as error:
        fail(error)
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


def _path(incident_id: str) -> str:
    from urllib.parse import quote

    return f"{INCIDENTS_PATH}/{quote(incident_id, safe='')}"


def _annotate(admin: str, token_env: str | None, method: str, path: str, given: object) -> Any:
    """Change an incident's annotation; return the incident."""
    try:
        return ask_gateway(admin, token_env, method, path, given)
    except ConfigError as error:
        fail(error)


def _follow(
    admin: str, token_env: str | None, last: int, show: Callable[[list[dict[str, Any]]], None]
) -> None:
    """Print changes for ever; a gateway that does not answer may return."""
    is_away = False
    while True:
        time.sleep(POLL_INTERVAL_S)
        try:
            path = f"{INCIDENTS_PATH}/changes?after={last}&limit={PAGE_SIZE}"
            answer = ask_gateway(admin, token_env, "GET", path)
        except ConfigError as error:
            if not is_away:
                click.echo(f"{error} Retrying every second.", err=True)
            is_away = True
            continue
        if is_away:
            click.echo("It answers again.", err=True)
        is_away, last = False, answer["last"]
        show(answer["incidents"])


def _pages(
    admin: str, token_env: str | None, wanted: dict[str, str], limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return up to `limit` incidents, and whether there are more."""
    from urllib.parse import urlencode

    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        number = {"limit": min(limit - len(found), PAGE_SIZE)}
        answer = ask_gateway(
            admin, token_env, "GET", f"{INCIDENTS_PATH}?{urlencode(wanted | number | cursor)}"
        )
        found += answer["incidents"]
        if answer["next"] is None or len(found) >= limit:
            return found, answer["next"] is not None
        cursor = {"cursor": answer["next"]}
