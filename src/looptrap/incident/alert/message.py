"""An event in the forms in which it is sent: webhook JSON, and a title with a text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from looptrap.incident.model import Event
from looptrap.incident.saving import words
from looptrap.schema.wording import escaped

Mood = Literal["info", "success", "warning", "failure"]
"""How Apprise colours a message."""

MOODS: dict[str, Mood] = {
    "loop.detected": "warning",
    "loop.escalated": "failure",
    "loop.resolved": "success",
    "budget.threshold": "warning",
    "budget.exceeded": "failure",
    "breaker.opened": "failure",
    "store.degraded": "failure",
    "indicator.fired": "warning",
}

LEADING = (
    *("caller", "session", "model", "budget", "rule", "action", "indicator", "value", "hit_count"),
    *("refused", "threshold", "cooldown_seconds", "signal", "provider", "mode"),
)
"""What a person wants to know first, in this order."""

APART = {
    *("message", "explanation", "incident_id", "fingerprint", "stage", "policy"),
    *("first_seen", "last_seen", "since", "closed", "resets_at", "unit"),
    *("spent_usd", "saved_usd", "projected_usd_an_hour"),
}
"""What stands elsewhere, or is of use to a machine only."""

LONGEST = 200
"""Characters of one value in a message for people."""


def webhook_body(event: Event) -> bytes:
    """Return the JSON that webhooks get: the same bytes at every attempt."""
    return msgspec.json.encode(
        {
            "event": event.name,
            "timestamp": timestamp(event.time),
            "project_id": event.project,
            "request_id": event.request_id,
            "data": event.data,
        }
    )


def timestamp(time: float) -> str:
    """Return a time in ISO 8601, to the millisecond, in UTC."""
    told = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    return told.replace("+00:00", "Z")


def headline(event: Event) -> str:
    """Return one line that says what happened."""
    return one_line(event.title) or event.name


def sentence(event: Event) -> str:
    """Return what the event says in words, if it does."""
    told = event.data.get("message") or event.data.get("explanation") or ""
    return one_line(told) if isinstance(told, str) else ""


def saving(event: Event) -> str:
    """Return what refusals of a loop saved, in words; empty where there were none."""
    data = event.data
    refused = data.get("refused") if event.name.startswith("loop.") else 0
    if not isinstance(refused, int):
        return ""
    return words(refused, data.get("saved_usd"), data.get("projected_usd_an_hour"))


def facts(event: Event) -> Iterator[tuple[str, str]]:
    """Yield labels and values for people, the most telling first; no lists, nothing empty."""
    if project := one_line(event.project):
        yield "Project", project
    scope = event.data.get("scope")
    data = {**scope, **event.data} if isinstance(scope, dict) else event.data
    names = [name for name in LEADING if name in data]
    names += [name for name in data if name not in LEADING and name not in APART]
    is_shadow = data.get("mode") == "shadow"
    for name in names:
        if is_shadow and name == "cooldown_seconds":
            continue  # nothing is refused, so nothing cools down
        if told := _told(data[name]):
            yield _label(name), f"would {told}" if is_shadow and name == "action" else told


def trail(event: Event) -> list[str]:
    """Return what leads from a message to what is kept: ids and the time."""
    marks = {"incident": event.incident, "request": event.request_id}
    return [
        event.name,
        *(f"{name} {one_line(mark)}" for name, mark in marks.items() if mark),
        timestamp(event.time),
    ]


def plain(event: Event) -> tuple[str, str, Mood]:
    """Return title, text and mood for Apprise; no name in them can call people or be a link."""
    lines = [sentence(event), saving(event), *(f"{label}: {told}" for label, told in facts(event))]
    lines.append(" · ".join(trail(event)))
    text = "\n".join(_unmarked(line) for line in lines if line)
    return _unmarked(headline(event)), text, MOODS[event.name]


def one_line(text: str, longest: int = LONGEST) -> str:
    """Return a text on one line, of so many characters at most, and with nothing invisible."""
    shown = escaped(" ".join(text[: longest + 1].split()))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _label(name: str) -> str:
    return "".join(c if c.isalnum() else " " for c in name[:60]).strip().capitalize()


def _told(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
        case str():
            return one_line(value)
        case _:
            return ""


_LOOKALIKES = str.maketrans(
    {"@": "＠", "<": "‹", ">": "›", "*": "∗", "`": "ˋ", "[": "［", "]": "］", "~": "∼", "|": "∣"}
)


def _unmarked(text: str) -> str:
    """Return a text that chats of all kinds show as it is: what marks up looks alike, no more."""
    return text.translate(_LOOKALIKES).replace("://", ":⁄⁄")
