"""The name of the model in the bytes of a request: only it is changed, every other byte stays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from looptrap.answer.splice import field
from looptrap.call.content import UNREADABLE

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[][{}]', re.DOTALL)
_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]++|\\.)*+")', re.DOTALL)
_IN_PATH = re.compile(rb"(/models/)[^/:?]+(:[^/?]+)")
_OPEN, _CLOSE = frozenset(b"[{"), frozenset(b"]}")

_encode = msgspec.json.encode
_decode = msgspec.json.decode


def model_spots(body: bytes) -> list[slice] | None:
    """Return where the values of the top-level key `model` stand; None where that is not clear.

    Of a key that stands there twice, readers disagree which one counts: all are found.
    """
    spot = field(body, "model")
    if spot is not None:
        return [spot] if body[spot].startswith(b'"') else None
    try:
        if not isinstance(_decode(body), dict):
            return None
    except UNREADABLE:
        return None
    return _scanned(body)


def with_model(body: bytes, spots: Sequence[slice], model: str) -> bytes:
    """Return the body with another model at these places."""
    name, sent = _encode(model), memoryview(body)
    parts: list[bytes | memoryview] = []
    at = 0
    for spot in spots:
        parts += (sent[at : spot.start], name)
        at = spot.stop
    return b"".join((*parts, sent[at:]))


def target_with_model(target: bytes, model: str) -> bytes:
    """Return the target with another model in its path, as Gemini has it there."""
    path, mark, query = target.partition(b"?")
    name = quote(model, safe="").encode()
    return _IN_PATH.sub(lambda found: found[1] + name + found[2], path, count=1) + mark + query


def _scanned(body: bytes) -> list[slice] | None:
    """Find the spots in a body that is JSON, but not as plain as most."""
    spots: list[slice] = []
    depth, at = 0, 0
    while token := _TOKEN.search(body, at):
        at = token.end()
        first = body[token.start()]
        if first in _OPEN:
            depth += 1
        elif first in _CLOSE:
            depth -= 1
        elif depth == 1 and _decode(token[0]) == "model" and body[at:].lstrip()[:1] == b":":
            value = _VALUE.match(body, at)
            if value is None:
                return None
            spots.append(slice(*value.span(1)))
            at = value.end()
    return spots
