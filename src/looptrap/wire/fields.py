"""Header fields: which of them end at a proxy, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus

from looptrap.wire.remembered import Remembered

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


_lowered = Remembered(bytes.lower, longest=64)


def end_to_end(headers: Sequence[Field]) -> tuple[list[Field], list[bytes]]:
    """Return `headers` less hop-by-hop ones, those named in Connection, and Content-Length.

    Beside them the names of all that were there, in lower case.
    """
    names = [_lowered[name] for name, _ in headers]
    if _OURS.isdisjoint(names):
        return list(headers), names
    kept = [field for field, name in zip(headers, names, strict=True) if name not in _OURS]
    if b"connection" in names:
        listed: set[bytes] = set()
        for (_, value), name in zip(headers, names, strict=True):
            if name == b"connection":
                listed |= tokens(value)
        if listed - {b"close", b"keep-alive"}:
            return [field for field in kept if _lowered[field[0]] not in listed], names
    return kept, names


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
