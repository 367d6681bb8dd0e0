"""Retention: drops what is expired or too large, in slices that hold the write lock briefly."""

from __future__ import annotations

from math import inf

from looptrap.database.database import Connection, Database
from looptrap.incident.history import audit, incident_table
from looptrap.incident.setting import IncidentSettings
from looptrap.usage import call_log, table
from looptrap.usage.breach import drop_breaches
from looptrap.usage.call_log import CallLogSettings

SLICE_ROWS = 500
"""Incidents, deliveries, annotations and audit entries dropped at a time."""

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


SPOOL_KEEP_S = 400 * 86_400
"""Seconds for which the database remembers how far a spool was written."""


def sweep(
    database: Database, settings: IncidentSettings, call_settings: CallLogSettings, now: float
) -> bool:
    """Drop some of what is expired or too large, roll up some; return whether there is more."""
    with database.write() as connection:
        if not connection.try_lock("sweep"):
            return False  # another instance does
        has_more = _drop_expired(connection, settings, call_settings, now)
        if connection.is_shared:
            _drop_old_spools(connection)
    has_more |= table.roll_up_usage(database, now)
    has_more |= call_log.roll_up_calls(database, now)
    return database.shrink(settings.max_size) or has_more


def _drop_expired(
    connection: Connection, settings: IncidentSettings, call_settings: CallLogSettings, now: float
) -> bool:
    """Drop a slice of what is expired; return whether there may be more."""
    before = now - settings.keep
    dropped = incident_table.drop_closed(connection, before, SLICE_ROWS)
    dropped += connection.execute(_DROP_LETTERS, (before, "%", SLICE_ROWS)).rowcount
    dropped += _drop_annotations(connection, before)
    dropped += drop_breaches(connection, before)
    dropped += audit.drop_entries(connection, before, SLICE_ROWS)
    if connection.size() > settings.max_size:
        dropped += _drop_oldest(connection)
    has_more = dropped >= SLICE_ROWS
    calls = call_log.drop_calls(connection, now - call_settings.keep, call_settings.max_rows)
    has_more |= calls >= call_log.SLICE_ROWS
    has_more |= table.drop_oldest_hour(connection, before) > 0
    has_more |= table.merge_minutes(connection, now)
    quiet = max(before, now - table.SESSION_ROWS_KEEP_S)
    return has_more | (table.drop_quiet_sessions(connection, quiet) >= table.SESSION_SLICE_ROWS)


def _drop_annotations(connection: Connection, before: float) -> int:
    dropped = connection.execute(_DROP_ORPHANS, (before, SLICE_ROWS)).rowcount
    (orphans,) = connection.execute(f"SELECT count(*) FROM remark WHERE {_IS_ORPHAN}").fetchone()
    surplus = min(max(orphans - MAX_ORPHANS, 0), SLICE_ROWS)
    return dropped + connection.execute(_DROP_ORPHANS, (inf, surplus)).rowcount


def _drop_oldest(connection: Connection) -> int:
    """Drop logged calls; without any, the oldest closed incidents or usage, then deliveries."""
    if dropped := call_log.drop_oldest_calls(connection):
        return dropped
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


def _drop_old_spools(connection: Connection) -> None:
    """Forget spools from which no process has written for long."""
    connection.execute(
        "DELETE FROM spool WHERE seen < now() - ? * interval '1 second'", (SPOOL_KEEP_S,)
    )
