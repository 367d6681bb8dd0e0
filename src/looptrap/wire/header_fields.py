"""Header fields: hop-by-hop ones, encoding of heads, Retry-After."""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from looptrap.bounded import BoundedCache

Field = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection"
    b" te trailer transfer-encoding upgrade".split()
)

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode("ascii"))
    for status in HTTPStatus
}
_join_lines = b"\r\n".join
_join_field = b": ".join


CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, OTHER_HOP_BY_HOP = range(1, 5)
"""Kinds of fields that a proxy does not forward."""


_KINDS = dict.fromkeys(HOP_BY_HOP, OTHER_HOP_BY_HOP) | {
    b"content-length": CONTENT_LENGTH,
    b"transfer-encoding": TRANSFER_ENCODING,
    b"connection": CONNECTION,
}

field_kinds = BoundedCache(lambda name: _KINDS.get(name.lower(), 0), max_key_bytes=64)
"""The kind of a field by its name; 0 for end-to-end ones."""


def announces_body(framing: Iterable[tuple[int, bytes]]) -> bool:
    """Return whether framing fields, given with their kinds, announce a non-empty body."""
    return any(
        kind == TRANSFER_ENCODING or (kind == CONTENT_LENGTH and int(value) > 0)
        for kind, value in framing
    )


def parse_token_list(value: bytes) -> set[bytes]:
    """Return the lower-cased members of a comma-separated list."""
    return {member.strip(b" \t") for member in value.lower().split(b",")}


def encode_head(status: int, reason: bytes | None, headers: Iterable[Field], *own: bytes) -> bytes:
    """Return an answer's head, `own` lines after `headers`; a line break in any is an error."""
    if reason is None:
        first = _STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status
    else:
        first = b"HTTP/1.1 %d %b" % (status, reason)
    lines = [first, *map(_join_field, headers), *own, b"\r\n"]
    head = _join_lines(lines)
    # One count over the whole head is the cheapest guard against response splitting.
    if head.count(b"\n") != len(lines):
        raise ValueError("a header name or value contains a line break")
    return head


_is_number = re.compile(r"[+-]?(?:\d{1,12}(?:\.\d*)?|\.\d+)", re.ASCII).fullmatch


def parse_seconds(value: str) -> float | None:
    """Parse seconds; 0 for a negative number, None if it is not a number."""
    return max(0.0, float(value)) if _is_number(value) else None


def parse_retry_after(value: str, now: float | None, date: str = "") -> float | None:
    """Parse Retry-After, a number or a date, to seconds; None if it is invalid.

    `date` is the answer's Date header: our clock and the server's may differ.
    """
    seconds = parse_seconds(value)
    if seconds is not None:
        return seconds
    until, asked_at = _parse_date(value), _parse_date(date)
    since = now if asked_at is None else asked_at
    return None if until is None or since is None else max(0.0, until - since)


def _parse_date(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
