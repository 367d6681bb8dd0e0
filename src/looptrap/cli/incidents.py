"""`looptrap incidents`: list, show, label and follow incidents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import wraps
from typing import Any
from urllib.parse import quote, urlencode

import click

from looptrap.cli.gateway_client import (
    PAGE_SIZE,
    GatewayClient,
    gateway_options,
    poll,
    until_interrupted,
)
from looptrap.cli.output import (
    DASH,
    ListingGroup,
    format_age,
    format_time,
    json_option,
    parse_since,
    plural,
    print_lines,
    print_table,
)
from looptrap.incident.model import describe_savings
from looptrap.money.price import format_usd
from looptrap.policy.action import Action
from looptrap.schema.wording import escaped

IncidentView = dict[str, Any]

INCIDENTS_PATH = "/api/v1/incidents"

LABELS = ("false_alarm", "confirmed")
ORDERS = ("newest", "cost", "count", "saved")
GROUPS = ("caller", "project", "rule", "model")
FILTERS = (
    "state", "caller", "project", "session", "rule", "model", "since", "until", "label", "q",
    "order",
)  # fmt: skip

_STAGE = re.compile(r"stage (\d+)")
"""A step at which an incident reached so many times its threshold."""

ACTIONS = frozenset(action.value for action in Action)


@click.group(cls=ListingGroup, short_help="List, show, label, export and follow incidents.")
def incidents() -> None:
    """List incidents, show one, label it, or follow them as they happen.

    An incident begins when a rule trips, and ends when no more such calls come. Without a command,
    open incidents are listed: `looptrap incidents --caller key:ci` is `looptrap incidents list …`.
    """


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags that select incidents; the command gets them as a query of the API."""

    @click.option("--all", "state", flag_value="all", help="Include closed incidents.")
    @click.option("--closed", "state", flag_value="closed", help="Only closed incidents.")
    @click.option("--caller", metavar="CALLER", help="Only of this caller: key:ci, cred:…, addr:….")
    @click.option("--project", metavar="NAME", help="Only of this project.")
    @click.option("--session", metavar="NAME", help="Only of this session.")
    @click.option("--rule", metavar="NAME", help="Only of this rule.")
    @click.option("--model", metavar="NAME", help="Only of this model.")
    @click.option("--since", metavar="SPAN",
                  help="Only with a call since then: 30m, 24h, 7d, or a time.")  # fmt: skip
    @click.option("--until", metavar="SPAN", help="Only opened before then.")
    @click.option("--label", type=click.Choice(LABELS), metavar="LABEL",
                  help="Only with this label: false_alarm or confirmed.")  # fmt: skip
    @click.option("--search", "q", metavar="TEXT",
                  help="Only with this text in id, caller, session, rule or model.")  # fmt: skip
    @click.option("--order", type=click.Choice(ORDERS), metavar="ORDER",
                  help="newest, cost, count or saved, the highest first.  [newest]")  # fmt: skip
    @wraps(command)
    def with_query(**options: Any) -> None:
        now = datetime.now(UTC)
        query = {name: options.pop(name) for name in FILTERS}
        query["state"] = query["state"] or "open"
        for name in ("since", "until"):
            if query[name] is not None:
                query[name] = parse_since(query[name], f"--{name}", now)
        command(query={name: one for name, one in query.items() if one is not None}, **options)

    return with_query


@incidents.command("list")
@filter_options
@click.option("--group", type=click.Choice(GROUPS), metavar="NAME",
              help="Sums by caller, project, rule or model, in place of incidents.")  # fmt: skip
@click.option("--limit", metavar="N", type=int, default=50, help="At most N.  [50]")
@json_option
@gateway_options
def list_(
    gateway: GatewayClient, query: dict[str, str], group: str | None, limit: int, as_json: bool
) -> None:
    """List the open incidents, the latest first.

    \b
    Example: looptrap incidents list --all --caller key:ci --since 24h
    """
    now = datetime.now(UTC)
    if group is not None:
        query["group"] = group
    name = "incidents" if group is None else "groups"
    found, last = gateway.read_list(INCIDENTS_PATH, name, limit, query)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif not found:
        open_ = "open " if query["state"] == "open" else ""
        click.echo(f"There are no {open_}incidents{' of that kind' if len(query) > 1 else ''}.")
    elif group is not None:
        _print_groups(found, group, now)
    else:
        for incident in found:
            print_lines(_list_lines(incident, now))
    if last["next"] is not None:
        click.echo(f"There are more than these {limit}: see --limit.", err=True)


@incidents.command()
@filter_options
@click.option("--format", "form", type=click.Choice(["csv", "json"]), default="csv",
              metavar="FORMAT", help="csv or json.  [csv]")  # fmt: skip
@gateway_options
def export(gateway: GatewayClient, query: dict[str, str], form: str) -> None:
    """Print all matching incidents as CSV or JSON, at most 100,000.

    \b
    Example: looptrap incidents export --all --since 30d > incidents.csv
    """
    text = gateway.read_text(f"{INCIDENTS_PATH}/export.{form}?{urlencode(query)}")
    for line in text.removesuffix("\n").removesuffix("\r").split("\r\n"):
        # Clients choose names: they must not control the terminal.
        click.echo("\n".join(map(escaped, line.split("\n"))))


@incidents.command()
@click.argument("incident_id", metavar="ID")
@json_option
@gateway_options
def show(gateway: GatewayClient, incident_id: str, as_json: bool) -> None:
    """Show one incident with all its steps.

    ID may be the first characters of its id, if no other begins with them.

    \b
    Example: looptrap incidents show inc_4be01c7d
    """
    incident = gateway.get(_path(incident_id))
    if as_json:
        click.echo(json.dumps(incident, indent=2))
    else:
        click.echo("\n".join(_detail_lines(incident, datetime.now(UTC))))


@incidents.command()
@click.argument("incident_id", metavar="ID")
@gateway_options
def ack(gateway: GatewayClient, incident_id: str) -> None:
    """Acknowledge an incident.

    \b
    Example: looptrap incidents ack inc_4be01c7d
    """
    incident = gateway.ask("POST", f"{_path(incident_id)}/acknowledge", {})
    click.echo(f"{incident['id']} is acknowledged since {incident['acknowledged']['time']}.")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@gateway_options
def close(gateway: GatewayClient, incident_id: str) -> None:
    """Close an incident before it is quiet; a loop that goes on opens a new one.

    \b
    Example: looptrap incidents close inc_4be01c7d
    """
    id = gateway.get(_path(incident_id))["id"]
    answer = gateway.ask("POST", f"{INCIDENTS_PATH}/bulk/close", {"ids": [id]})
    click.echo(f"{id} is closed." if answer["changed"] else f"{id} was closed already.")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@click.argument("text")
@gateway_options
def note(gateway: GatewayClient, incident_id: str, text: str) -> None:
    """Add a note to an incident.

    \b
    Example: looptrap incidents note inc_4be01c7d 'A cron job, stopped.'
    """
    incident = gateway.ask("POST", f"{_path(incident_id)}/notes", {"text": text})
    click.echo(f"{incident['id']} has {plural(len(incident['notes']), 'note')}.")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@click.argument("label", type=click.Choice([*LABELS, "none"]))
@gateway_options
def label(gateway: GatewayClient, incident_id: str, label: str) -> None:
    """Label an incident: false_alarm, confirmed, or none to remove the label.

    \b
    Example: looptrap incidents label inc_4be01c7d false_alarm
    """
    content = {"label": None if label == "none" else label}
    incident = gateway.ask("PUT", f"{_path(incident_id)}/label", content)
    state = f"is labelled {incident['label']}" if incident["label"] else "has no label"
    click.echo(escaped(f"{incident['id']} {state}."))
    if suggestion := incident["suggestion"]:
        tool, setting = suggestion["tool"], json.dumps(suggestion["setting"])
        click.echo(escaped(f"{suggestion['why']} To have {tool} raise no such alarm:"))
        click.echo(escaped(f"  PUT /api/v1/tools/{tool} {setting}"))


@incidents.command()
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON a change.")
@gateway_options
def follow(gateway: GatewayClient, as_json: bool) -> None:
    """Print open incidents, then a line a change, until Ctrl-C or SIGTERM.

    An incident that continues is printed at most once a second.

    \b
    Example: looptrap incidents follow --json | jq .id
    """

    def print_changes(found: list[IncidentView]) -> None:
        for incident in found:
            click.echo(json.dumps(incident) if as_json else _change_line(incident))

    changes = f"{INCIDENTS_PATH}/changes"

    def ask() -> Any:
        return gateway.get(changes, after=last, limit=PAGE_SIZE)

    with until_interrupted():
        # First the position of the latest change: changes meanwhile are printed twice, not missed.
        last = gateway.get(changes)["last"]
        print_changes(gateway.get(INCIDENTS_PATH, limit=PAGE_SIZE, state="open")["incidents"][::-1])
        for answer in poll(ask):
            last = answer["last"]
            print_changes(answer["incidents"])


def _path(incident_id: str) -> str:
    return f"{INCIDENTS_PATH}/{quote(incident_id, safe='')}"


def _print_groups(groups: list[dict[str, Any]], by: str, now: datetime) -> None:
    print_table(
        (by.upper(), "#INCIDENTS", "#OPEN", "#HITS", "#REFUSED", "#SPENT", "#SAVED", "LAST CALL"),
        [
            (
                one["by"][by] or DASH,
                *(f"{one[name]:,}" for name in ("incidents", "open", "hits", "refused")),
                format_usd(one["spent_usd"]),
                format_usd(one["saved_usd"]) if one["refused"] else DASH,
                format_age(one["last"], now),
            )
            for one in groups
        ],
    )


def _list_lines(incident: IncidentView, now: datetime) -> Iterator[str]:
    """Yield three lines: what was done and when; whose calls they are; how often, and what repeats.

    Mostly each fits into 80 columns.
    """
    yield (
        f"{incident['id']}  {incident['state']}, {_action(incident)} by {incident['rule']},"
        f" {format_age(incident['last'], now)}"
    )
    names = [incident[name] for name in ("caller", "session", "agent", "model")]
    yield f"  {', '.join(filter(None, names)) or DASH}"
    what = f": {incident['evidence'][0]['what']}" if incident["evidence"] else ""
    yield f"  {_counts(incident)}{what}"


def _counts(incident: IncidentView) -> str:
    counts = f"{incident['hits']:,} hits, {incident['refused']:,} refused"
    if incident["refused"] and incident["saved_usd"] is not None:
        counts += f", {format_usd(incident['saved_usd'])} saved"
    return counts


def _change_line(incident: IncidentView) -> str:
    """Return the state of an incident in one line."""
    when = format_time(incident["closed"] or incident["last"])
    state = "is over" if incident["state"] == "closed" else _action(incident)
    agent = f"{incident['agent']} " if incident["agent"] else ""
    who = f"{incident['caller'] or DASH} {agent}{incident['model'] or DASH} {incident['rule']}"
    return escaped(f"{when}  {incident['id']}  {state}: {who}, {_counts(incident)}")


def _detail_lines(incident: IncidentView, now: datetime) -> Iterator[str]:
    """Yield the lines with everything about an incident."""
    state = f"is {incident['state']}: {_action(incident)} by {incident['rule']}"
    yield escaped(f"Incident {incident['id']} {state}")
    facts = [(name, value) for name, value in _facts(incident, now) if value]
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        yield escaped(f"  {name.ljust(width)}  {value}")
    yield "Steps"
    for step in incident["steps"]:
        by = f" by {step['rule']}" if step["rule"] else ""
        count = f" at {step['count']:,}" if step["count"] else ""
        would = "would " if _is_shadow(incident) and step["what"] in ACTIONS else ""
        what = _STAGE.sub(r"reached \1 times its threshold", step["what"])
        yield escaped(f"  {format_time(step['time'])}  {would}{what}{by}{count}")
    if incident["notes"]:
        yield "Notes"
        for note in incident["notes"]:
            yield escaped(f"  {format_time(note['time'])}  {note['text']}")
    if incident["fingerprints"]:
        yield "Refused lately"
        for fingerprint in incident["fingerprints"]:
            yield f"  {escaped(fingerprint)}"
        yield f"To let these calls pass: looptrap release --incident {escaped(incident['id'])}"


def _facts(incident: IncidentView, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the facts by name; some are empty."""
    for name in ("caller", "project", "session", "agent", "model", "provider"):
        yield name, incident[name]
    for name, then in (("opened", "opened"), ("last call", "last"), ("closed", "closed")):
        if moment := incident[then]:
            yield name, f"{format_time(moment)}, {format_age(moment, now)}"
    stage, refused = incident["stage"], incident["refused"]
    above = f", at least {stage} times its threshold" if stage else ""
    yield "hits", f"{incident['hits']:,}{above}"
    acted = "would have acted on" if _is_shadow(incident) else "acted on"
    yield "calls", f"{incident['calls']:,} that a rule {acted}, {refused:,} of them refused"
    input_tokens, output_tokens = incident["input_tokens"], incident["output_tokens"]
    if input_tokens or output_tokens:
        yield "used", f"{input_tokens:,} tokens in, {output_tokens:,} out"
    if (paid := incident["paid"]) and incident["spent_usd"] is not None:
        yield "spent", f"{format_usd(incident['spent_usd'])}: {plural(paid, 'paid call')}"
    if refused:
        projected = incident["projected_usd_an_hour"]
        yield "saved", describe_savings(refused, incident["saved_usd"], projected)
        yield "", f"about {incident['saved_tokens']:,} tokens"
    if incident["policy"]:
        yield "rule", f"{incident['rule']} of policy {incident['policy']}"
    for name in ("signal", "message", "tool"):
        yield name, incident[name]
    if incident["cooldown_until"]:
        yield "refused", f"until {format_time(incident['cooldown_until'])}"
    if incident["acknowledged"]:
        seen = incident["acknowledged"]
        yield "acknowledged", f"by {seen['by']}, {format_time(seen['time'])}"
    yield "label", incident["label"]
    if len(incident["instances"]) > 1:
        yield "seen by", f"{len(incident['instances'])} instances"


def _action(incident: IncidentView) -> str:
    """Return the action, or in shadow mode what it would have been."""
    action: str = incident["action"]
    return f"would {action} (shadow)" if _is_shadow(incident) else action


def _is_shadow(incident: IncidentView) -> bool:
    return bool(incident["mode"] == "shadow")
