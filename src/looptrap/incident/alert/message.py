"""Events as messages: webhook JSON, Slack's Block Kit, plain text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

import msgspec

from looptrap.incident.model import AlertEvent, describe_savings
from looptrap.money.price import format_usd
from looptrap.policy.verdict import ADVICE
from looptrap.schema.wording import escaped

NotifyType = Literal["info", "success", "warning", "failure"]
"""How Apprise colours a message."""

NOTIFY_TYPES: dict[str, NotifyType] = {
    "loop.detected": "warning",
    "loop.escalated": "failure",
    "loop.resolved": "success",
    "budget.threshold": "warning",
    "budget.exceeded": "failure",
    "breaker.opened": "failure",
    "store.degraded": "failure",
    "indicator.fired": "warning",
}

LABELS = {
    "caller": "Caller",
    "session": "Session",
    "agent": "Agent",
    "model": "Model",
    "budget": "Budget",
    "rule": "Rule",
    "action": "Action",
    "indicator": "Indicator",
    "value": "Value",
    "hit_count": "Equal calls",
    "spent_usd": "Spent",
    "saved_usd": "Saved",
    "used_usd": "Used",
    "limit_usd": "Limit",
    "used_tokens": "Tokens used",
    "limit_tokens": "Limit of tokens",
    "percent": "Per cent used",
    "refused": "Calls refused",
    "projected_usd_an_hour": "Cost of an hour",
    "threshold": "Threshold",
    "cooldown_seconds": "Refused for",
    "signal": "Kind of loop",
    "provider": "Provider",
    "mode": "Mode",
    "calls": "Calls acted on",
    "saved_tokens": "Tokens not used",
    "seconds": "Skipped for",
    "window": "Measured over",
}
"""Fields in words, in the order in which they are shown; the others follow."""

HIDDEN_FIELDS = {
    *("message", "explanation", "incident_id", "breach_id", "fingerprint", "stage", "policy"),
    *("first_seen", "last_seen", "since", "closed", "resets_at", "unit", "duration_seconds"),
    *("acknowledged_by", "acknowledged_at", "url"),
}
"""Fields shown elsewhere, or useful to machines only."""

DURATIONS = ("cooldown_seconds", "seconds", "window")
"""Fields in seconds."""

MAX_VALUE_CHARS = 200
"""Characters of one value in a message for people."""


def webhook_body(event: AlertEvent) -> bytes:
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
    text = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def headline(event: AlertEvent) -> str:
    """Return one line that says what happened."""
    return one_line(event.title) or event.name


def event_text(event: AlertEvent) -> str:
    """Return the event's message or explanation, if it has one, without advice for agents."""
    text = event.data.get("message") or event.data.get("explanation") or ""
    return one_line(text.removesuffix(ADVICE)) if isinstance(text, str) else ""


def summary_text(event: AlertEvent) -> str:
    """Return what happened in all, of a loop that is over: how long, calls, dollars, who cared."""
    data = event.data
    if event.name != "loop.resolved" or "duration_seconds" not in data:
        return ""
    refused, hits = data["refused"], data["hit_count"]
    how_many = f"{refused:,}" if refused else "none"
    calls = f"{hits:,} equal call{'s'[: hits != 1]}, {how_many} of them refused"
    money = f"{format_usd(data['spent_usd'])} spent, {format_usd(data['saved_usd'])} saved"
    by = data.get("acknowledged_by")
    acknowledged = f"Acknowledged by {one_line(by)}." if by else "Not acknowledged."
    return f"It lasted {_duration(data['duration_seconds'])}: {calls}; {money}. {acknowledged}"


def savings_text(event: AlertEvent) -> str:
    """Return what the refusals of a loop saved, in words; empty if there were none."""
    data = event.data
    refused = data.get("refused") if event.name.startswith("loop.") else 0
    if not isinstance(refused, int):
        return ""
    return describe_savings(refused, data.get("saved_usd"), data.get("projected_usd_an_hour"))


def event_facts(event: AlertEvent) -> Iterator[tuple[str, str]]:
    """Yield labels and values, the most important first; no lists, no empty values."""
    if project := one_line(event.project):
        yield "Project", project
    scope = event.data.get("scope")
    data = {**scope, **event.data} if isinstance(scope, dict) else event.data
    names = [name for name in LABELS if name in data]
    names += [name for name in data if name not in LABELS and name not in HIDDEN_FIELDS]
    is_shadow = data.get("mode") == "shadow"
    for name in names:
        if is_shadow and name == "cooldown_seconds":
            continue  # nothing is refused, so nothing cools down
        if text := _format_value(name, data[name]):
            yield _label(name), f"would {text}" if is_shadow and name == "action" else text


def event_references(event: AlertEvent) -> list[str]:
    """Return what identifies the event in the history: its name, ids and time."""
    ids = {"incident": event.incident, "request": event.request_id}
    return [
        event.name,
        *(f"{name} {one_line(value)}" for name, value in ids.items() if value),
        timestamp(event.time),
    ]


def event_paragraph(event: AlertEvent) -> Iterator[str]:
    """Yield the sentences about an event: all in all if it is over, else what it says and saved."""
    if summary := summary_text(event):
        yield summary
    else:
        yield from filter(None, (event_text(event), savings_text(event)))


def event_url(event: AlertEvent) -> str:
    """Return the page of the dashboard about an event; empty where it is not known."""
    url = event.data.get("url", "")
    return url if isinstance(url, str) and _LINK.fullmatch(url) else ""


def plain_message(event: AlertEvent) -> tuple[str, str, NotifyType]:
    """Return title, text and type for Apprise; the one link in them is to our dashboard."""
    lines = [
        *event_paragraph(event),
        *(f"{label}: {text}" for label, text in event_facts(event)),
        " · ".join(event_references(event)),
    ]
    texts = [_without_markup(line) for line in lines if line]
    if url := event_url(event):
        texts.append(f"Dashboard: {url}")
    return _without_markup(headline(event)), "\n".join(texts), NOTIFY_TYPES[event.name]


def one_line(text: str, max_chars: int = MAX_VALUE_CHARS) -> str:
    """Return a text on one line, cut to `max_chars`, without invisible characters."""
    text = text.strip()
    line = escaped(" ".join(text[: max_chars + 1].split()))
    is_whole = len(line) <= max_chars and len(text) <= max_chars + 1
    return line if is_whole else line[: max_chars - 1] + "…"


def _label(name: str) -> str:
    if name in LABELS:
        return LABELS[name]
    return "".join(c if c.isalnum() else " " for c in name[:60]).strip().capitalize()


def _format_value(name: str, value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name.endswith("_usd"):
            return format_usd(value)
        if name == "projected_usd_an_hour":
            return f"{format_usd(value)} (projection)"
        if name in DURATIONS:
            return _duration(value)
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


def _duration(seconds: float) -> str:
    """Return seconds in words: `45 s`, `12 min`, `3 h 5 min`."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


_LINK = re.compile(r"https?://[^\s<>|\"\\^`{}]{1,1900}")
"""A URL without any character that ends a link in a message."""

_LOOKALIKES = str.maketrans(
    {"@": "＠", "<": "‹", ">": "›", "*": "∗", "`": "ˋ", "[": "［", "]": "］", "~": "∼", "|": "∣"}
)


def _without_markup(text: str) -> str:
    """Return a text without markup of any chat service: such characters become lookalikes."""
    return text.translate(_LOOKALIKES).replace("://", ":⁄⁄")


MAX_HEADER_CHARS = 150
MAX_SECTION_CHARS = 3_000
MAX_FIELDS, MAX_FIELD_CHARS = 10, 2_000
MAX_CONTEXT_CHARS = 2_000
MAX_FALLBACK_CHARS = 3_000
"""Slack's limits, in characters; FIELDS is a number of fields."""


def slack_body(event: AlertEvent) -> bytes:
    """Return the JSON for a Slack incoming webhook."""
    title = headline(event)
    return msgspec.json.encode(
        {
            "text": _escape(title, MAX_FALLBACK_CHARS),
            "mrkdwn": False,
            "unfurl_links": False,
            "unfurl_media": False,
            "blocks": list(_blocks(event, title)),
        }
    )


def _blocks(event: AlertEvent, title: str) -> Iterator[dict[str, Any]]:
    yield {"type": "header", "text": _plain(title, MAX_HEADER_CHARS)}
    if text := " ".join(event_paragraph(event)):
        yield {"type": "section", "text": _plain(text, MAX_SECTION_CHARS)}
    if fields := [_field(*fact) for fact in islice(event_facts(event), MAX_FIELDS)]:
        yield {"type": "section", "fields": fields}
    if url := event_url(event):
        yield {"type": "section", "text": {"type": "mrkdwn", "text": _links(event, url)}}
    yield {
        "type": "context",
        "elements": [_plain(" · ".join(event_references(event)), MAX_CONTEXT_CHARS)],
    }


def _links(event: AlertEvent, url: str) -> str:
    """Return links to the page, and to the dialog of each action there.

    Not buttons: Slack reports each press to the app, and shows a warning where none answers.
    """
    link = url.replace("&", "&amp;")
    if not event.incident:
        return f"*<{link}|Open the dashboard>*"
    is_over = event.name == "loop.resolved"
    actions = [f"<{link}?do={name}|{words}>" for name, words in ([] if is_over else ACTIONS)]
    return "   ·   ".join((f"*<{link}|Open the incident>*", *actions))


ACTIONS = (("acknowledge", "Acknowledge"), ("release", "Release …"), ("kill", "Kill switch …"))
"""Actions with a dialog of their own on the page of an incident."""


def _plain(text: str, max_chars: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": _escape(text, max_chars), "emoji": False}


def _field(label: str, text: str) -> dict[str, Any]:
    """Return a field whose value is code, in which Slack renders no bold, link or mention."""
    head = f"*{_escape(label, 100)}*\n"
    code = _escape(text.replace("`", "ˋ"), MAX_FIELD_CHARS - len(head) - 2)
    return {"type": "mrkdwn", "text": f"{head}`{code}`", "verbatim": True}


def _escape(text: str, max_chars: int) -> str:
    """Return a text with Slack's own characters escaped, cut so that no escape is cut in two."""
    pieces: list[str] = []
    length = 0
    for character in text:
        piece = _ESCAPES.get(character, character)
        length += len(piece)
        if length > max_chars - 1:
            return "".join(pieces) + "…"
        pieces.append(piece)
    return "".join(pieces)


_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
