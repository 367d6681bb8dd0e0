"""What is dropped: the old, and what there is no room for; in slices, so that nobody waits long."""

from __future__ import annotations

from math import inf
from sqlite3 import Connection

from looptrap.incident.history import audit, booking, remark
from looptrap.incident.setting import IncidentSettings

SLICE = 500
"""So many incidents, letters, remarks and changes go at once."""

PAGES = 250
"""So many empty pages are given back at once …"""

SPARE, SHARE = 64, 20
"""… but for these, or every twentieth page of the file: they are soon filled again."""

# Gone is an incident only with all its parts, by the last of them; never an open one.
_DROP_INCIDENTS = """
    DELETE FROM part WHERE id IN (
        SELECT p.id FROM part p WHERE p.closed IS NOT NULL AND p.last < ?
        AND NOT EXISTS (
            SELECT 1 FROM part q WHERE q.id = p.id AND (q.closed IS NULL OR q.last > p.last)
        )
        ORDER BY p.last LIMIT ?
    )"""

_DROP_LETTERS = """
    DELETE FROM letter WHERE number IN (
        SELECT number FROM letter WHERE ended IS NOT NULL AND ended < ? AND state LIKE ?
        ORDER BY ended LIMIT ?
    )"""


def drop(connection: Connection, settings: IncidentSettings, now: float) -> bool:
    """Drop a slice of what has to go; say whether there may be more of it."""
    before = now - settings.keep
    dropped = connection.execute(_DROP_INCIDENTS, (before, SLICE)).rowcount
    dropped += connection.execute(_DROP_LETTERS, (before, "%", SLICE)).rowcount
    dropped += remark.drop(connection, before, SLICE) + audit.drop(connection, before, SLICE)
    if _size(connection) > settings.max_size:
        dropped += _make_room(connection)
    is_more = dropped >= SLICE
    is_more |= booking.drop(connection, before) > 0
    is_more |= booking.roll_up(connection, now)
    quiet = max(before, now - booking.SESSIONS_KEPT)
    return is_more | (booking.drop_sessions(connection, quiet) >= booking.SLICE)


def surplus(connection: Connection, max_size: int) -> int:
    """Return how many empty pages are to be given back, so that the file shrinks."""
    pages, free = _pragma(connection, "page_count"), _pragma(connection, "freelist_count")
    is_full = pages * _pragma(connection, "page_size") > max_size
    return max(free - (0 if is_full else max(SPARE, pages // SHARE)), 0)


def _make_room(connection: Connection) -> int:
    """Drop the oldest: closed incidents or spending; where there is neither, delivered letters."""
    if _is_spending_oldest(connection):
        booking.drop(connection, inf)
        return SLICE
    dropped = connection.execute(_DROP_INCIDENTS, (inf, SLICE)).rowcount
    return dropped or connection.execute(_DROP_LETTERS, (inf, "delivered", SLICE)).rowcount


def _is_spending_oldest(connection: Connection) -> bool:
    start = booking.oldest(connection)
    (last,) = connection.execute("SELECT min(last) FROM part WHERE closed IS NOT NULL").fetchone()
    return start is not None and (last is None or start < last)


def _size(connection: Connection) -> int:
    """Return the bytes that are in use."""
    used = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return used * _pragma(connection, "page_size")


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
