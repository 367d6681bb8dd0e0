"""Splices: insertions into JSON that leave every other byte as it was sent.

Nothing is decoded but the outline. Each step is checked against the bytes, so whatever was not
understood (a key that stands there twice, most of all) makes no splice instead of a wrong one.
"""

from __future__ import annotations

import re

import msgspec

from looptrap.dialect.content import UNREADABLE

_OPENING = re.compile(rb"[ \t\n\r]*\{")
_KEY = re.compile(rb'[ \t\n\r]*"(?:[^"\\]|\\.)*"[ \t\n\r]*:[ \t\n\r]*', re.DOTALL)
_NEXT = re.compile(rb"[ \t\n\r]*,")
_CLOSING = re.compile(rb"[ \t\n\r]*\}[ \t\n\r]*")

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def find_field(body: bytes, name: str) -> slice | None:
    """Return where the value of a field of a JSON object stands."""
    fields = _decoded(body)
    found = None if fields is None else _places(body, fields)
    return None if found is None else found.get(name)


def has_repeated_key(body: bytes) -> bool:
    """Return whether a key stands twice at the top of a JSON object: readers differ."""
    fields = _decoded(body)
    return fields is not None and _places(body, fields) is None


def _decoded(body: bytes) -> dict[str, msgspec.Raw] | None:
    try:
        return _decode_object(body)
    except UNREADABLE:
        return None


def _places(body: bytes, fields: dict[str, msgspec.Raw]) -> dict[str, slice] | None:
    """Return where each value stands; None where a key stands twice: the decoder kept the last."""
    start = _OPENING.match(body)
    if start is None:
        return None
    at, found = start.end(), {}
    for number, (key, raw) in enumerate(fields.items()):
        if number:
            comma = _NEXT.match(body, at)
            if comma is None:
                return None
            at = comma.end()
        before, value = _KEY.match(body, at), bytes(raw)
        if before is None or not body.startswith(value, before.end()):
            return None
        at = before.end() + len(value)
        found[key] = slice(before.end(), at)
    return found if _CLOSING.fullmatch(body, at) else None


def last_element(body: bytes, array: slice) -> slice | None:
    """Return where the last element of an array stands; None when it has none."""
    try:
        elements = _decode_array(memoryview(body)[array])
    except UNREADABLE:
        return None
    if not elements:
        return None
    element = bytes(elements[-1])
    # Nothing but space stands between its last byte and the bracket.
    end = body.rfind(element[-1:], array.start, array.stop - 1) + 1
    start = end - len(element)
    return slice(start, end) if body[start:end] == element else None


def append_element(body: bytes, array: slice, element: bytes) -> bytes | None:
    """Return the body with one more element at the end of an array that has some."""
    before = last_element(body, array)
    if before is None:
        return None
    sent = memoryview(body)
    return b"".join((sent[: before.stop], b",", element, sent[before.stop :]))


def wrap_value(body: bytes, value: slice, before: bytes, after: bytes) -> bytes:
    """Return the body with something before and after a value."""
    sent = memoryview(body)
    return b"".join((sent[: value.start], before, sent[value], after, sent[value.stop :]))
