"""Incidents as people read them: a row, a line, or all that is known of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from looptrap.cli.age import ago, at
from looptrap.cli.listing import print_table
from looptrap.incident.saving import shown, words
from looptrap.policy.action import Action
from looptrap.schema.wording import escaped

HEADINGS = (
    "ID", "LAST CALL", "CALLER", "MODEL", "RULE", "ACTION", "#HITS", "#REFUSED", "#SAVED", "STATE",
)  # fmt: skip

NONE = "–"

ACTIONS = frozenset(action.value for action in Action)


def print_list(incidents: Sequence[dict[str, Any]], now: datetime) -> None:
    """Print a table with a row for each."""
    print_table(HEADINGS, [_row(one, now) for one in incidents])


def line(one: dict[str, Any]) -> str:
    """Return where an incident stands, in one line."""
    when = at(one["closed"] or one["last"])
    done = "is over" if one["state"] == "closed" else _action(one)
    hits, refused = one["hits"], one["refused"]
    who = f"{one['caller'] or NONE} {one['model'] or NONE} {one['rule']}"
    saved = f", {shown(one['saved_usd'])} saved" if one["saved_usd"] is not None else ""
    return escaped(f"{when}  {one['id']}  {done}: {who}, {hits:,} hits, {refused:,} refused{saved}")


def told(one: dict[str, Any], now: datetime) -> Iterator[str]:
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
        yield escaped(f"  {at(step['time'])}  {would}{step['what']}{by}{count}")
    if one["notes"]:
        yield "Notes"
        for note in one["notes"]:
            yield escaped(f"  {at(note['time'])}  {note['text']}")
    if one["fingerprints"]:
        yield "Refused lately"
        for fingerprint in one["fingerprints"]:
            yield f"  {escaped(fingerprint)}"
        yield f"To let these calls pass: looptrap release --incident {escaped(one['id'])}"


def labelled(one: dict[str, Any]) -> Iterator[str]:
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
    yield "opened", f"{at(one['opened'])}, {ago(one['opened'], now)}"
    yield "last call", f"{at(one['last'])}, {ago(one['last'], now)}"
    if one["closed"] is not None:
        yield "closed", f"{at(one['closed'])}, {ago(one['closed'], now)}"
    grown = f", more than {one['stage']} times its threshold" if one["stage"] else ""
    yield "hits", f"{one['hits']:,}{grown}"
    acted = "would have acted on" if _is_shadow(one) else "acted on"
    yield "calls", f"{one['calls']:,} that a rule {acted}, {one['refused']:,} of them refused"
    if one["input_tokens"] or one["output_tokens"]:
        spent = shown(one["spent_usd"])
        yield "used", f"{one['input_tokens']:,} tokens in, {one['output_tokens']:,} out, {spent}"
    if one["refused"]:
        yield "saved", words(one["refused"], one["saved_usd"], one["projected_usd_an_hour"])
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
        yield "refused", f"until {at(one['cooldown_until'])}"
    if one["acknowledged"]:
        yield "taken care", f"since {at(one['acknowledged']['time'])}"
    if one["label"]:
        yield "marked as", one["label"]
    if len(one["instances"]) > 1:
        yield "seen by", f"{len(one['instances'])} instances"


def _row(one: dict[str, Any], now: datetime) -> tuple[str, ...]:
    return (
        one["id"],
        ago(one["last"], now),
        one["caller"] or NONE,
        one["model"] or NONE,
        one["rule"],
        _action(one),
        f"{one['hits']:,}",
        f"{one['refused']:,}",
        shown(one["saved_usd"]) if one["refused"] else NONE,
        one["state"],
    )


def _action(one: dict[str, Any]) -> str:
    """Say what was done, or in shadow mode would have been."""
    return f"would {one['action']} (shadow)" if _is_shadow(one) else str(one["action"])


def _is_shadow(one: dict[str, Any]) -> bool:
    return bool(one["mode"] == "shadow")
