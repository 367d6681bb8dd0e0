"""Presence: which processes that share a database are alive, by the clock of the database."""

from __future__ import annotations

import time
from collections.abc import Callable

from looptrap.database.database import Connection, Database

BEAT_INTERVAL_S = 2.0
"""Seconds between two signs of life."""

ALIVE_S = 6.0
"""Seconds after the last sign of life for which a process counts as alive."""

FORGOTTEN_S = 86_400

ALIVE = f"SELECT id FROM instance WHERE seen > now() - interval '{ALIVE_S:g} seconds'"
"""The ids of processes that are alive."""


class Presence:
    """Signs of life of one process, and what dead ones leave to the others."""

    def __init__(self, database: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._since = self._last = float("-inf")

    def beat(self, instance: str, now: float) -> int:
        """Give a sign of life; return how many leases of dead processes have been ended."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO instance (id) VALUES (?)"
                " ON CONFLICT (id) DO UPDATE SET seen = excluded.seen",
                (instance,),
            )
            at = self._monotonic()
            if at > self._last + ALIVE_S:
                self._since = at
            self._last = at
            # After an outage others seem dead until they had time for a sign.
            if at < self._since + ALIVE_S or not connection.try_lock("leases"):
                return 0
            return _end_leases(connection, now)

    def leave(self, instance: str) -> None:
        """Say that the process ends."""
        self._database.execute("DELETE FROM instance WHERE id = ?", (instance,))


def _end_leases(connection: Connection, now: float) -> int:
    """Let others send what dead processes were about to send."""
    connection.execute(
        f"DELETE FROM instance WHERE seen < now() - interval '{FORGOTTEN_S} seconds'"
    )
    return connection.execute(
        "UPDATE letter SET due = ?, owner = '', lease_until = 0"
        " WHERE state = 'pending' AND owner IN (SELECT id FROM instance"
        f" WHERE seen <= now() - interval '{ALIVE_S:g} seconds')",
        (now,),
    ).rowcount
