"""Outbox: deliveries of events through channels, pending, delivered and dead."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from looptrap.database.database import Database, Page, Row, encode_struct
from looptrap.incident.model import AlertEvent

DeliveryState = Literal["pending", "delivered", "dead"]

WRITTEN_COLUMNS = ("event", "channel", "created", "due", "body")
SKIP_EXISTING = "ON CONFLICT (event, channel) DO NOTHING"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AlertEvent).decode

log = logging.getLogger("looptrap")


class OutgoingEvent(NamedTuple):
    """An event and the channels to send it through."""

    event: AlertEvent
    channels: tuple[str, ...]


class Delivery(msgspec.Struct, frozen=True):
    """One event on its way through one channel."""

    number: int
    event: AlertEvent
    channel: str
    state: DeliveryState
    created: float
    """When it was put into the outbox, or last resent."""
    due: float
    """When to try it next; while it is leased, when the lease ends."""
    attempts: int
    """How often it was leased, including now."""
    owner: str
    lease_until: float
    ended: float | None
    """When it was delivered or declared dead."""
    last_error: str


DELIVERY_COLUMNS = ", ".join(("number", "body", *Delivery.__struct_fields__[2:]))


def delivery_rows(outgoing: OutgoingEvent, now: float) -> list[Row]:
    """Return the values of WRITTEN_COLUMNS: one row a channel."""
    event, body = encode_struct(_encode, outgoing.event)
    return [(event.id, channel, now, now, body) for channel in outgoing.channels]


def read_deliveries(rows: Iterable[Row]) -> tuple[list[Delivery], list[int]]:
    """Decode rows of DELIVERY_COLUMNS; return also the numbers of those that cannot be decoded."""
    found, unreadable = [], []
    for number, body, *values in rows:
        try:
            found.append(Delivery(number, _decode(body), *values))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            log.warning("outbox: delivery %d cannot be read", number)
            unreadable.append(number)
    return found, unreadable


MAX_ERROR_CHARS = 500

_DIE = "state = 'dead', ended = ?, last_error = ?"


class Outbox:
    """Deliveries, leased by several processes, each sent at least once; call it from a thread."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def lease(
        self, now: float, owner: str, limit: int, seconds: float, without: Collection[str] = ()
    ) -> list[Delivery]:
        """Lease what is due for `seconds`, the longest due first, except the channels `without`."""
        until = now + seconds
        with self._database.write() as connection:
            rows = connection.execute(
                "UPDATE letter SET owner = ?, lease_until = ?, due = ?, attempts = attempts + 1"
                " WHERE number IN (SELECT number FROM letter INDEXED BY letter_due"
                " WHERE state = 'pending' AND due <= ?"
                " AND channel <> ALL(?) ORDER BY due LIMIT ? FOR UPDATE SKIP LOCKED)"
                f" RETURNING {DELIVERY_COLUMNS}",
                (owner, until, until, now, list(without), limit),
            ).fetchall()
        deliveries, unreadable = read_deliveries(sorted(rows))
        for number in unreadable:
            self._release(number, (owner, until), _DIE, self._clock(), "cannot be read")
        return deliveries

    def mark_delivered(self, delivery: Delivery, now: float) -> None:
        """Mark it delivered, even if the lease had ended."""
        changes = "state = 'delivered', ended = ?, last_error = ''"
        self._release(delivery.number, None, changes, now)

    def reschedule(self, delivery: Delivery, error: str, due: float) -> bool:
        """Set when to try it again; return False, changing nothing, if the lease had ended."""
        lease = delivery.owner, delivery.lease_until
        return self._release(delivery.number, lease, "due = ?, last_error = ?", due, _error(error))

    def mark_dead(self, delivery: Delivery, error: str) -> bool:
        """Declare it dead; return False, changing nothing, if the lease had ended."""
        lease = delivery.owner, delivery.lease_until
        return self._release(delivery.number, lease, _DIE, self._clock(), _error(error))

    def _release(
        self, number: int, lease: tuple[str, float] | None, changes: str, *values: Any
    ) -> bool:
        """Change a delivery and end its lease; with a `lease`, only if it still has that one."""
        where = "" if lease is None else " AND state = 'pending' AND owner = ? AND lease_until = ?"
        changed = self._database.execute(
            f"UPDATE letter SET {changes}, owner = '', lease_until = 0 WHERE number = ?{where}",
            (*values, number, *(lease or ())),
        )
        return changed > 0

    def deliveries(
        self,
        state: DeliveryState | Literal["all"] = "all",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """Return a page, the newest first; raise ValueError for an invalid cursor."""
        where = "" if state == "all" else " AND state = :state"
        select = f"SELECT {DELIVERY_COLUMNS} FROM letter WHERE number < :before{where}"
        page = self._database.page(select, limit, cursor, state=state)
        return Page(read_deliveries(page.items)[0], page.next_cursor)

    def resend(self, event_id: str, channel: str | None = None) -> int:
        """Send an event again through one channel or all; return the number of deliveries.

        A delivery in progress is left alone.
        """
        now = self._clock()
        return self._database.execute(
            "UPDATE letter SET state = 'pending', created = ?, due = ?, attempts = 0,"
            " owner = '', lease_until = 0, ended = NULL WHERE event = ?"
            " AND (state <> 'pending' OR lease_until <= ?) AND channel = coalesce(?, channel)",
            (now, now, event_id, now, channel),
        )

    def next_due(self, without: Collection[str] = ()) -> float | None:
        """Return when the next delivery is due; None if there is none."""
        rows = self._database.query(
            "SELECT due FROM letter INDEXED BY letter_due WHERE state = 'pending'"
            " AND channel <> ALL(?) ORDER BY due LIMIT 1",
            (list(without),),
        )
        return float(rows[0][0]) if rows else None

    def undelivered(self) -> dict[str, int]:
        """Return the numbers of pending and dead deliveries: it costs little in a long history."""
        rows = self._database.query(
            "SELECT state, count(*) FROM letter WHERE state IN ('pending', 'dead') GROUP BY state"
        )
        return {"pending": 0, "dead": 0, **dict(rows)}

    def counts(self) -> dict[str, int]:
        """Return the number of deliveries in each state."""
        rows = self._database.query("SELECT state, count(*) FROM letter GROUP BY state")
        return {"pending": 0, "delivered": 0, "dead": 0, **dict(rows)}


def _error(text: str) -> str:
    return text[:MAX_ERROR_CHARS].encode("utf-8", "replace").decode()
