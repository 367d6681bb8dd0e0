"""Descriptors: the names by which rules, budgets and kill switches distinguish calls."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from operator import attrgetter
from urllib.parse import unquote_plus

from looptrap.dialect.header import TURN
from looptrap.dialect.model import Call
from looptrap.errors import ConfigError

Descriptor = Callable[[Call], str]


def _header(name: str) -> Descriptor:
    key = name.lower().encode("latin-1", "replace")

    def read(call: Call) -> str:
        value = call.request.header(key)
        return value.decode("latin-1") if value is not None else ""

    return read


ATTRIBUTES = {
    "caller": "request.caller",
    "project": "request.project",
    "session": "request.session",
    "user": "user",
    "model": "model",
    "ip:address": "request.address",
}
"""Descriptors that calls have as attributes."""

PLAIN: dict[str, Descriptor] = {
    "caller": attrgetter(ATTRIBUTES["caller"]),
    "project": attrgetter(ATTRIBUTES["project"]),
    "session": attrgetter(ATTRIBUTES["session"]),
    "turn": _header(TURN.decode()),
    "user": attrgetter(ATTRIBUTES["user"]),
    "model": attrgetter(ATTRIBUTES["model"]),
    "ip:address": attrgetter(ATTRIBUTES["ip:address"]),
}


def _query(name: str) -> Descriptor:
    def read(call: Call) -> str:
        for field in call.request.query.split("&"):
            key, _, value = field.partition("=")
            if unquote_plus(key) == name:
                return unquote_plus(value)
        return ""

    return read


def _claim(name: str) -> Descriptor:
    return lambda call: call.request.claims.get(name, "")


NAMED: dict[str, Callable[[str], Descriptor]] = {
    "header": _header,
    "query": _query,
    "jwt": _claim,
}
ALLOWED = (*PLAIN, "header:<name>", "query:<name>", "jwt:<claim>")


def descriptor(name: str) -> Descriptor:
    """Return what reads that descriptor from a call; what a call does not have reads as ""."""
    if name in PLAIN:
        return PLAIN[name]
    kind, _, rest = name.partition(":")
    if kind in NAMED and rest:
        return NAMED[kind](rest)
    raise ConfigError(
        f"is {name!r}, must be a descriptor: {', '.join(ALLOWED)}{_suggestion(kind, rest)}"
    )


def _suggestion(kind: str, rest: str) -> str:
    close = get_close_matches(kind, NAMED if rest else PLAIN, n=1)
    if not close:
        return ""
    return f", did you mean {close[0]}:{rest}?" if rest else f", did you mean {close[0]}?"
