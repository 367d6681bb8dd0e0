"""Answers that the gateway gives itself, ready for the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from looptrap.call.model import Dialect
from looptrap.policy.header import Headers

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"

encode = msgspec.json.encode


class Answer(msgspec.Struct, frozen=True):
    """One complete answer; framing headers are the wire's to add."""

    status: int
    headers: Headers
    body: bytes


def described(
    headers: Headers, dialect: Dialect, request_id: str, content_type: bytes = JSON
) -> Headers:
    """Return the headers with those that name the content and the request added."""
    known_as = request_id.encode("latin-1", "replace")
    added = [(b"Content-Type", content_type), (b"X-Request-Id", known_as)]
    if content_type is EVENT_STREAM:
        added.append((b"Cache-Control", b"no-cache"))
    if dialect == "anthropic":
        added.append((b"request-id", known_as))
    return [*headers, *added]


def events(data: Iterable[Any]) -> bytes:
    """Return a stream of unnamed events."""
    return b"".join(b"data: %b\n\n" % encode(one) for one in data)


def named_events(data: Iterable[dict[str, Any]]) -> bytes:
    """Return a stream of events that go by the `type` of their data."""
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (one["type"].encode(), encode(one)) for one in data
    )
