"""An event as a message of Slack: Block Kit, within Slack's limits, every text escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from looptrap.incident.alert.message import facts, headline, saving, sentence, trail
from looptrap.incident.model import Event

HEADER = 150
SECTION = 3_000
FIELDS, FIELD = 10, 2_000
CONTEXT = 2_000
FALLBACK = 3_000
"""Slack's limits, in characters; FIELDS is a number of fields."""


def slack_body(event: Event) -> bytes:
    """Return the JSON for an incoming webhook of Slack."""
    title = headline(event)
    return msgspec.json.encode(
        {
            "text": _escaped(title, FALLBACK),
            "mrkdwn": False,
            "unfurl_links": False,
            "unfurl_media": False,
            "blocks": list(_blocks(event, title)),
        }
    )


def _blocks(event: Event, title: str) -> Iterator[dict[str, Any]]:
    yield {"type": "header", "text": _plain(title, HEADER)}
    if told := " ".join(filter(None, (sentence(event), saving(event)))):
        yield {"type": "section", "text": _plain(told, SECTION)}
    if fields := [_field(*fact) for fact in islice(facts(event), FIELDS)]:
        yield {"type": "section", "fields": fields}
    yield {"type": "context", "elements": [_plain(" · ".join(trail(event)), CONTEXT)]}


def _plain(text: str, longest: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": _escaped(text, longest), "emoji": False}


def _field(label: str, told: str) -> dict[str, Any]:
    """Return a field whose value is code: there Slack sees no bold, link or mention."""
    head = f"*{_escaped(label, 100)}*\n"
    code = _escaped(told.replace("`", "ˋ"), FIELD - len(head) - 2)
    return {"type": "mrkdwn", "text": f"{head}`{code}`", "verbatim": True}


def _escaped(text: str, longest: int) -> str:
    """Return a text with Slack's own characters escaped, cut so that no escape is cut in two."""
    pieces: list[str] = []
    length = 0
    for character in text:
        piece = _ESCAPES.get(character, character)
        length += len(piece)
        if length > longest - 1:
            return "".join(pieces) + "…"
        pieces.append(piece)
    return "".join(pieces)


_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
