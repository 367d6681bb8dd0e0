"""Header fields: which of them end at a proxy, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

Field = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
_OURS = HOP_BY_HOP | {b"content-length"}

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode("ascii"))
    for status in HTTPStatus
}
_join_lines = b"\r\n".join
_join_field = b": ".join


def end_to_end(headers: Iterable[Field]) -> list[Field]:
    """Return `headers` less hop-by-hop ones, those named in Connection, and Content-Length."""
    kept = []
    listed: set[bytes] = set()
    for field in headers:
        name = field[0].lower()
        if name not in _OURS:
            kept.append(field)
        elif name == b"connection":
            listed |= tokens(field[1])
    if listed - {b"close", b"keep-alive"}:
        return [field for field in kept if field[0].lower() not in listed]
    return kept


def tokens(value: bytes) -> set[bytes]:
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
