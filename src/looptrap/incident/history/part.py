"""Parts: what one instance saw of an incident, as it is kept."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from looptrap.incident.history.rows import Row
from looptrap.incident.model import Incident

COLUMNS = (
    "id", "instance", "opened", "last", "closed", "caller", "project", "session", "rule", "model",
    "body",
)  # fmt: skip

PUT = f"INSERT OR REPLACE INTO part ({', '.join(COLUMNS)}) VALUES "

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Incident).decode

log = logging.getLogger("looptrap")

T = TypeVar("T")


def row_of(part: Incident) -> Row:
    """Return the values of COLUMNS."""
    try:
        body = _encode(part)
    except UnicodeEncodeError:  # a client may name its session with half a character
        part = writable(part)
        body = _encode(part)
    return (
        part.id, part.instance, part.opened, part.last, part.closed,
        part.caller, part.project, part.session, part.rule, part.model, body,
    )  # fmt: skip


def parts_of(bodies: Iterable[bytes]) -> list[Incident]:
    """Read parts; one that cannot be read is left out, and a line says so."""
    found = []
    for body in bodies:
        try:
            found.append(_decode(body))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            log.warning("the history has an incident that cannot be read")
    return found


def writable(value: T) -> T:
    """Return the same with a question mark for every half of a character."""
    plain = msgspec.to_builtins(value, builtin_types=(bytes,))
    return msgspec.convert(whole(plain), type(value))


def whole(value: Any) -> Any:
    """Return a text, or all texts of a list or table, likewise."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {whole(name): whole(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [whole(one) for one in value]
    return value
