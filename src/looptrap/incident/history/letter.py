"""Letters: each an event on its way through one channel, as it is kept."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from looptrap.incident.history.part import writable
from looptrap.incident.history.rows import Row
from looptrap.incident.model import Event

LetterState = Literal["pending", "delivered", "dead"]

PUT = "INSERT INTO letter (event, channel, created, due, body) VALUES "
UNLESS_THERE = " ON CONFLICT (event, channel) DO NOTHING"

COLUMNS = (
    "number, channel, state, created, due, attempts, owner, lease_until, ended, last_error, body"
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode

log = logging.getLogger("looptrap")


class Outgoing(NamedTuple):
    """An event, and the channels that people hear it through."""

    event: Event
    channels: tuple[str, ...]


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way through one channel."""

    number: int
    event: Event
    channel: str
    state: LetterState
    created: float
    """When it was put into the outbox, or last sent anew."""
    due: float
    """When it is to be tried next; while it is leased, when the lease ends."""
    attempts: int
    """How often it was leased; the present lease counts."""
    owner: str
    lease_until: float
    ended: float | None
    """When it was delivered or given up."""
    last_error: str


def rows_of(going: Outgoing, now: float) -> list[Row]:
    """Return the values for PUT: one row a channel."""
    try:
        body = _encode(going.event)
    except UnicodeEncodeError:
        body = _encode(writable(going.event))
    return [(going.event.id, channel, now, now, body) for channel in going.channels]


def letters_of(rows: Iterable[Row]) -> tuple[list[Letter], list[int]]:
    """Read letters from rows of COLUMNS, and tell the numbers of those that cannot be read."""
    found, unreadable = [], []
    for row in rows:
        number, channel, state, created, due, attempts, owner, until, ended, error, body = row
        try:
            event = _decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            log.warning("the outbox has a letter that cannot be read: number %d", number)
            unreadable.append(number)
            continue
        found.append(
            Letter(
                number=number, event=event, channel=channel, state=state, created=created,
                due=due, attempts=attempts, owner=owner, lease_until=until, ended=ended,
                last_error=error,
            )
        )  # fmt: skip
    return found, unreadable
