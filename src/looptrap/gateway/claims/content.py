"""What a token says: its claims as texts, and when they hold. Pure."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import msgspec

Reason = Literal[
    "too_long",
    "malformed",
    "algorithm",
    "unknown_key",
    "signature",
    "issuer",
    "audience",
    "not_yet_valid",
    "expired",
]
"""Why a token is not believed."""

MOST_CLAIMS = 64
LONGEST = 256
"""Characters of a claim, and of its name; a cut one could be taken for another."""
DEEPEST = 8
"""Tables inside of tables in which claims are looked for."""


class Content(msgspec.Struct, frozen=True, gc=False):
    """What a token says that is for us."""

    claims: Mapping[str, str]
    since: float
    until: float


def read(payload: bytes, *, issuer: str | None, audience: str | None) -> Content | Reason:
    """Return what a payload says, or why nobody should listen; never raises."""
    try:
        said = json.loads(payload, parse_constant=_refuse)
        if not isinstance(said, dict):
            return "malformed"
        if issuer is not None and said.get("iss") != issuer:
            return "issuer"
        if audience is not None and not _is_meant_for(said.get("aud"), audience):
            return "audience"
        since, until = _moment(said, "nbf", -float("inf")), _moment(said, "exp", float("inf"))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return "malformed"
    return Content(texts(said), since, until)


def texts(said: Mapping[str, Any]) -> dict[str, str]:
    """Return claims as texts: those of tables by their path (`org.id`); lists and nulls are none.

    The outermost come first: no name inside of a table can take the place of one outside.
    """
    found: dict[str, str] = {}
    tables = deque([("", said, 1)])
    while tables:
        prefix, table, depth = tables.popleft()
        for name, value in table.items():
            path = prefix + name
            if isinstance(value, dict):
                if depth < DEEPEST:
                    tables.append((f"{path}.", value, depth + 1))
            elif (text := _text(value)) and len(path) <= LONGEST:
                found.setdefault(path, text)
                if len(found) == MOST_CLAIMS:
                    return found
    return found


def _text(value: object) -> str:
    """Return a claim as text; empty where it is none, or too long."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            text = str(value)
        case str():
            text = value
        case _:
            return ""
    # Half of a surrogate pair is no text, and nobody could write it down.
    return text if len(text) <= LONGEST and (text.isascii() or _is_whole(text)) else ""


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _is_meant_for(said: object, audience: str) -> bool:
    return audience in said if isinstance(said, list) else said == audience


def _moment(said: Mapping[str, Any], name: str, default: float) -> float:
    value = said.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(name)
    return float(value)


def _refuse(constant: str) -> NoReturn:
    # A time that is not a number is neither past nor to come: it would never run out.
    raise ValueError(constant)
