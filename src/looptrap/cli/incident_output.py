"""Prints incidents: as a row, a line, or in full."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from looptrap.cli.output import format_age, format_time, print_table
from looptrap.policy.action import Action
from looptrap.schema.wording import escaped
from looptrap.usage.savings import describe_savings, format_usd

INCIDENT_HEADINGS = (
    "ID", "LAST CALL", "CALLER", "MODEL", "RULE", "ACTION", "#HITS", "#REFUSED", "#SAVED", "STATE",
)  # fmt: skip

DASH = "–"

ACTIONS = frozenset(action.value for action in Action)


def print_list(incidents: Sequence[dict[str, Any]], now: datetime) -> None:
    """Print a table with a row for each."""
    print_table(INCIDENT_HEADINGS, [_row(incident, now) for incident in incidents])


def change_line(incident: dict[str, Any]) -> str:
    """Return the state of an incident in one line."""
    when = format_time(incident["closed"] or incident["last"])
    done = "is over" if incident["state"] == "closed" else _action(incident)
    hits, refused = incident["hits"], incident["refused"]
    who = f"{incident['caller'] or DASH} {incident['model'] or DASH} {incident['rule']}"
    saved = (
        f", {format_usd(incident['saved_usd'])} saved" if incident["saved_usd"] is not None else ""
    )
    return escaped(
        f"{when}  {incident['id']}  {done}: {who}, {hits:,} hits, {refused:,} refused{saved}"
    )


def detail_lines(incident: dict[str, Any], now: datetime) -> Iterator[str]:
    """Yield the lines with everything about an incident."""
    state = f"is {incident['state']}: {_action(incident)} by {incident['rule']}"
    yield escaped(f"Incident {incident['id']} {state}")
    facts = list(_facts(incident, now))
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        yield escaped(f"  {name.ljust(width)}  {value}")
    yield "Steps"
    for step in incident["steps"]:
        by = f" by {step['rule']}" if step["rule"] else ""
        count = f" at {step['count']:,}" if step["count"] else ""
        would = "would " if _is_shadow(incident) and step["what"] in ACTIONS else ""
        yield escaped(f"  {format_time(step['time'])}  {would}{step['what']}{by}{count}")
    if incident["notes"]:
        yield "Notes"
        for note in incident["notes"]:
            yield escaped(f"  {format_time(note['time'])}  {note['text']}")
    if incident["fingerprints"]:
        yield "Refused lately"
        for fingerprint in incident["fingerprints"]:
            yield f"  {escaped(fingerprint)}"
        yield f"To let these calls pass: looptrap release --incident {escaped(incident['id'])}"


def label_lines(incident: dict[str, Any]) -> Iterator[str]:
    """Yield the lines with an incident's label, and advice for a false alarm."""
    label = f"is marked as {incident['label']}" if incident["label"] else "is not marked any more"
    yield escaped(f"{incident['id']} {label}.")
    if suggestion := incident["suggestion"]:
        path = f"/api/v1/tools/{suggestion['tool']}"
        yield escaped(f"{suggestion['why']} To have {suggestion['tool']} raise no such alarm:")
        yield escaped(f"  PUT {path} {json.dumps(suggestion['setting'])}")


def _facts(incident: dict[str, Any], now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the facts by name, without empty ones."""
    for name in ("caller", "project", "session", "model", "provider"):
        if incident[name]:
            yield name, incident[name]
    yield "opened", f"{format_time(incident['opened'])}, {format_age(incident['opened'], now)}"
    yield "last call", f"{format_time(incident['last'])}, {format_age(incident['last'], now)}"
    if incident["closed"] is not None:
        yield "closed", f"{format_time(incident['closed'])}, {format_age(incident['closed'], now)}"
    grown = f", more than {incident['stage']} times its threshold" if incident["stage"] else ""
    yield "hits", f"{incident['hits']:,}{grown}"
    acted = "would have acted on" if _is_shadow(incident) else "acted on"
    yield (
        "calls",
        f"{incident['calls']:,} that a rule {acted}, {incident['refused']:,} of them refused",
    )
    if incident["input_tokens"] or incident["output_tokens"]:
        spent = format_usd(incident["spent_usd"])
        yield (
            "used",
            f"{incident['input_tokens']:,} tokens in, {incident['output_tokens']:,} out, {spent}",
        )
    if incident["refused"]:
        yield (
            "saved",
            describe_savings(
                incident["refused"], incident["saved_usd"], incident["projected_usd_an_hour"]
            ),
        )
        yield "", f"about {incident['saved_tokens']:,} tokens"
    if incident["policy"]:
        yield "rule", f"{incident['rule']} of policy {incident['policy']}"
    if incident["signal"]:
        yield "signal", incident["signal"]
    if incident["message"]:
        yield "message", incident["message"]
    if incident["tool"]:
        yield "tool", incident["tool"]
    if incident["cooldown_until"]:
        yield "refused", f"until {format_time(incident['cooldown_until'])}"
    if incident["acknowledged"]:
        yield "taken care", f"since {format_time(incident['acknowledged']['time'])}"
    if incident["label"]:
        yield "marked as", incident["label"]
    if len(incident["instances"]) > 1:
        yield "seen by", f"{len(incident['instances'])} instances"


def _row(incident: dict[str, Any], now: datetime) -> tuple[str, ...]:
    return (
        incident["id"],
        format_age(incident["last"], now),
        incident["caller"] or DASH,
        incident["model"] or DASH,
        incident["rule"],
        _action(incident),
        f"{incident['hits']:,}",
        f"{incident['refused']:,}",
        format_usd(incident["saved_usd"]) if incident["refused"] else DASH,
        incident["state"],
    )


def _action(incident: dict[str, Any]) -> str:
    """Return the action, or in shadow mode what it would have been."""
    return (
        f"would {incident['action']} (shadow)" if _is_shadow(incident) else str(incident["action"])
    )


def _is_shadow(incident: dict[str, Any]) -> bool:
    return bool(incident["mode"] == "shadow")
