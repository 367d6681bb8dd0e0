"""Incidents as people read them: a row, a line, or all that is known of one."""

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
    print_table(INCIDENT_HEADINGS, [_row(one, now) for one in incidents])


def change_line(one: dict[str, Any]) -> str:
    """Return where an incident stands, in one line."""
    when = format_time(one["closed"] or one["last"])
    done = "is over" if one["state"] == "closed" else _action(one)
    hits, refused = one["hits"], one["refused"]
    who = f"{one['caller'] or DASH} {one['model'] or DASH} {one['rule']}"
    saved = f", {format_usd(one['saved_usd'])} saved" if one["saved_usd"] is not None else ""
    return escaped(f"{when}  {one['id']}  {done}: {who}, {hits:,} hits, {refused:,} refused{saved}")


def detail_lines(one: dict[str, Any], now: datetime) -> Iterator[str]:
    """Yield the lines that say all about an incident."""
    yield escaped(f"Incident {one['id']} is {one['state']}: {_action(one)} by {one['rule']}")
    facts = list(_facts(one, now))
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        yield escaped(f"  {name.ljust(width)}  {value}")
    yield "Steps"
    for step in one["steps"]:
        by = f" by {step['rule']}" if step["rule"] else ""
        count = f" at {step['count']:,}" if step["count"] else ""
        would = "would " if _is_shadow(one) and step["what"] in ACTIONS else ""
        yield escaped(f"  {format_time(step['time'])}  {would}{step['what']}{by}{count}")
    if one["notes"]:
        yield "Notes"
        for note in one["notes"]:
            yield escaped(f"  {format_time(note['time'])}  {note['text']}")
    if one["fingerprints"]:
        yield "Refused lately"
        for fingerprint in one["fingerprints"]:
            yield f"  {escaped(fingerprint)}"
        yield f"To let these calls pass: looptrap release --incident {escaped(one['id'])}"


def label_lines(one: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that say what an incident was, and what can be done about a false alarm."""
    said = f"is marked as {one['label']}" if one["label"] else "is not marked any more"
    yield escaped(f"{one['id']} {said}.")
    if suggestion := one["suggestion"]:
        path = f"/api/v1/tools/{suggestion['tool']}"
        yield escaped(f"{suggestion['why']} To have {suggestion['tool']} raise no such alarm:")
        yield escaped(f"  PUT {path} {json.dumps(suggestion['setting'])}")


def _facts(one: dict[str, Any], now: datetime) -> Iterator[tuple[str, str]]:
    """Yield what is known, by name; what is empty is left out."""
    for name in ("caller", "project", "session", "model", "provider"):
        if one[name]:
            yield name, one[name]
    yield "opened", f"{format_time(one['opened'])}, {format_age(one['opened'], now)}"
    yield "last call", f"{format_time(one['last'])}, {format_age(one['last'], now)}"
    if one["closed"] is not None:
        yield "closed", f"{format_time(one['closed'])}, {format_age(one['closed'], now)}"
    grown = f", more than {one['stage']} times its threshold" if one["stage"] else ""
    yield "hits", f"{one['hits']:,}{grown}"
    acted = "would have acted on" if _is_shadow(one) else "acted on"
    yield "calls", f"{one['calls']:,} that a rule {acted}, {one['refused']:,} of them refused"
    if one["input_tokens"] or one["output_tokens"]:
        spent = format_usd(one["spent_usd"])
        yield "used", f"{one['input_tokens']:,} tokens in, {one['output_tokens']:,} out, {spent}"
    if one["refused"]:
        yield (
            "saved",
            describe_savings(one["refused"], one["saved_usd"], one["projected_usd_an_hour"]),
        )
        yield "", f"about {one['saved_tokens']:,} tokens"
    if one["policy"]:
        yield "rule", f"{one['rule']} of policy {one['policy']}"
    if one["signal"]:
        yield "signal", one["signal"]
    if one["message"]:
        yield "message", one["message"]
    if one["tool"]:
        yield "tool", one["tool"]
    if one["cooldown_until"]:
        yield "refused", f"until {format_time(one['cooldown_until'])}"
    if one["acknowledged"]:
        yield "taken care", f"since {format_time(one['acknowledged']['time'])}"
    if one["label"]:
        yield "marked as", one["label"]
    if len(one["instances"]) > 1:
        yield "seen by", f"{len(one['instances'])} instances"


def _row(one: dict[str, Any], now: datetime) -> tuple[str, ...]:
    return (
        one["id"],
        format_age(one["last"], now),
        one["caller"] or DASH,
        one["model"] or DASH,
        one["rule"],
        _action(one),
        f"{one['hits']:,}",
        f"{one['refused']:,}",
        format_usd(one["saved_usd"]) if one["refused"] else DASH,
        one["state"],
    )


def _action(one: dict[str, Any]) -> str:
    """Say what was done, or in shadow mode would have been."""
    return f"would {one['action']} (shadow)" if _is_shadow(one) else str(one["action"])


def _is_shadow(one: dict[str, Any]) -> bool:
    return bool(one["mode"] == "shadow")
