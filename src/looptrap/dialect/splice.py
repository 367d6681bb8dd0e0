"""Splices: insertions into JSON that do not change any other byte.

Only the outline is decoded. Each step is checked against the bytes, so a body that was not
understood (one with a repeated key, above all) gets no splice instead of a wrong one.
"""

from __future__ import annotations

import re

import msgspec

from looptrap.dialect.content import decode_or_none

_OPENING = re.compile(rb"[ \t\n\r]*\{")
_KEY = re.compile(rb'[ \t\n\r]*"(?:[^"\\]|\\.)*"[ \t\n\r]*:[ \t\n\r]*', re.DOTALL)
_COMMA = re.compile(rb"[ \t\n\r]*,")
_CLOSING = re.compile(rb"[ \t\n\r]*\}[ \t\n\r]*")

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def find_field(body: bytes, name: str) -> slice | None:
    """Return the position of a field's value in a JSON object."""
    fields = decode_or_none(body, _decode_object)
    positions = None if fields is None else _find_values(body, fields)
    return None if positions is None else positions.get(name)


def has_repeated_key(body: bytes) -> bool:
    """Return whether a JSON object repeats a key, which readers treat differently."""
    fields = decode_or_none(body, _decode_object)
    return fields is not None and _find_values(body, fields) is None


def _find_values(body: bytes, fields: dict[str, msgspec.Raw]) -> dict[str, slice] | None:
    """Return the positions of the values; None where a key is repeated: the decoder has one."""
    start = _OPENING.match(body)
    if start is None:
        return None
    at, positions = start.end(), {}
    for number, (key, raw) in enumerate(fields.items()):
        if number:
            comma = _COMMA.match(body, at)
            if comma is None:
                return None
            at = comma.end()
        before, value = _KEY.match(body, at), bytes(raw)
        if before is None or not body.startswith(value, before.end()):
            return None
        at = before.end() + len(value)
        positions[key] = slice(before.end(), at)
    return positions if _CLOSING.fullmatch(body, at) else None


def last_element(body: bytes, array: slice) -> slice | None:
    """Return the position of an array's last element; None where it has none."""
    elements = decode_or_none(memoryview(body)[array], _decode_array)
    if not elements:
        return None
    element = bytes(elements[-1])
    # Only spaces are between its last byte and the bracket.
    end = body.rfind(element[-1:], array.start, array.stop - 1) + 1
    start = end - len(element)
    return slice(start, end) if body[start:end] == element else None


def append_element(body: bytes, array: slice, element: bytes) -> bytes | None:
    """Return the body with one more element at the end of an array that has some."""
    last = last_element(body, array)
    return None if last is None else wrap_value(body, last, b"", b"," + element)


def wrap_value(body: bytes, value: slice, before: bytes, after: bytes) -> bytes:
    """Return the body with bytes inserted before and after a value."""
    sent = memoryview(body)
    return b"".join((sent[: value.start], before, sent[value], after, sent[value.stop :]))
