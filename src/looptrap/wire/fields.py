"""Header fields: which of them end at a proxy, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable
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

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode("ascii"))
    for status in HTTPStatus
}
_join_lines = b"\r\n".join
_join_field = b": ".join


LENGTH, CODING, CONNECTION, HOP = range(1, 5)
"""Fates of fields that end at a proxy: those that frame the message, name others, or neither."""


def _fate(name: bytes) -> int:
    lowered = name.lower()
    if lowered == b"content-length":
        return LENGTH
    if lowered == b"transfer-encoding":
        return CODING
    if lowered == b"connection":
        return CONNECTION
    return HOP if lowered in HOP_BY_HOP else 0


fates = Remembered(_fate, longest=64)
"""What becomes of a field by its name; 0 for those that go on."""


def has_length(framing: Iterable[tuple[int, bytes]]) -> bool:
    """Say whether fields, by their fates, announce a body that is not empty."""
    return any(fate == CODING or (fate == LENGTH and int(value) > 0) for fate, value in framing)


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
