"""Retention: drops what is expired or too large, in slices that hold the write lock briefly."""

from __future__ import annotations

from math import inf
from sqlite3 import Connection

from looptrap.database.schema import pragma
from looptrap.incident.history import audit, incident_table
from looptrap.incident.setting import IncidentSettings
from looptrap.usage import table
from looptrap.usage.breach import drop_breaches

SLICE_ROWS = 500
"""Incidents, deliveries, annotations and audit entries dropped at a time."""

MAX_PAGES_FREED = 250
"""Empty pages given back at a time …"""

MIN_SPARE_PAGES, SPARE_DIVISOR = 64, 20
"""… but for these, or a twentieth of the file: they are soon filled again."""

_DROP_LETTERS = """
    DELETE FROM letter WHERE number IN (
        SELECT number FROM letter WHERE ended IS NOT NULL AND ended < ? AND state LIKE ?
        ORDER BY ended LIMIT ?
    )"""

MAX_ORPHANS = 10_000
"""Annotations whose incident is not here yet; of more, the surplus is dropped."""

# An annotation may arrive before its incident, and is dropped after it.
_IS_ORPHAN = "NOT EXISTS (SELECT 1 FROM part WHERE part.id = remark.incident)"
_DROP_ORPHANS = f"""
    DELETE FROM remark WHERE id IN (
        SELECT id FROM remark WHERE time < ? AND {_IS_ORPHAN} LIMIT ?
    )"""


def drop_expired(connection: Connection, settings: IncidentSettings, now: float) -> bool:
    """Drop a slice of what is expired; return whether there may be more."""
    before = now - settings.keep
    dropped = incident_table.drop_closed(connection, before, SLICE_ROWS)
    dropped += connection.execute(_DROP_LETTERS, (before, "%", SLICE_ROWS)).rowcount
    dropped += _drop_annotations(connection, before)
    dropped += drop_breaches(connection, before)
    dropped += audit.drop_entries(connection, before, SLICE_ROWS)
    if _size(connection) > settings.max_size:
        dropped += _drop_oldest(connection)
    has_more = dropped >= SLICE_ROWS
    has_more |= table.drop_oldest_hour(connection, before) > 0
    has_more |= table.roll_up_hour(connection, now)
    quiet = max(before, now - table.SESSION_ROWS_KEEP_S)
    return has_more | (table.drop_quiet_sessions(connection, quiet) >= table.SESSION_SLICE_ROWS)


def surplus_pages(connection: Connection, max_size: int) -> int:
    """Return how many empty pages to give back, so that the file shrinks."""
    pages, free = pragma(connection, "page_count"), pragma(connection, "freelist_count")
    is_full = pages * pragma(connection, "page_size") > max_size
    return max(free - (0 if is_full else max(MIN_SPARE_PAGES, pages // SPARE_DIVISOR)), 0)


def _drop_annotations(connection: Connection, before: float) -> int:
    dropped = connection.execute(_DROP_ORPHANS, (before, SLICE_ROWS)).rowcount
    (orphans,) = connection.execute(f"SELECT count(*) FROM remark WHERE {_IS_ORPHAN}").fetchone()
    surplus = min(max(orphans - MAX_ORPHANS, 0), SLICE_ROWS)
    return dropped + connection.execute(_DROP_ORPHANS, (inf, surplus)).rowcount


def _drop_oldest(connection: Connection) -> int:
    """Drop the oldest closed incidents or usage; without either, sent deliveries."""
    if _is_spending_oldest(connection):
        table.drop_oldest_hour(connection, inf)
        return SLICE_ROWS
    dropped = incident_table.drop_closed(connection, inf, SLICE_ROWS)
    return dropped or connection.execute(_DROP_LETTERS, (inf, "delivered", SLICE_ROWS)).rowcount


def _is_spending_oldest(connection: Connection) -> bool:
    start = table.oldest_usage(connection)
    closed = "SELECT last FROM incident WHERE closed IS NOT NULL ORDER BY last LIMIT 1"
    oldest = connection.execute(closed).fetchone()
    return start is not None and (oldest is None or start < oldest[0])


def _size(connection: Connection) -> int:
    """Return the bytes in use."""
    used = pragma(connection, "page_count") - pragma(connection, "freelist_count")
    return used * pragma(connection, "page_size")
