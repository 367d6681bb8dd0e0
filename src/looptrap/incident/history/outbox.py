"""The outbox: letters that wait to be delivered, and what became of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Literal

from looptrap.incident.history.database import Database
from looptrap.incident.history.letter import COLUMNS, Letter, LetterState, letters_of
from looptrap.incident.history.page import Page

LONGEST_ERROR = 500

LATEST = 1 << 62
"""A number that no letter has."""


class Outbox:
    """Letters that several processes deliver, each at least once; blocking, not for the loop."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def lease(
        self, now: float, owner: str, limit: int, seconds: float, *, without: Collection[str] = ()
    ) -> list[Letter]:
        """Take letters that are due, the longest due first; nobody else gets them for `seconds`.

        Those for the channels `without` stay where they are.
        """
        until = now + seconds
        with self._database.write() as connection:
            rows = connection.execute(
                "UPDATE letter SET owner = ?, lease_until = ?, due = ?, attempts = attempts + 1"
                " WHERE number IN (SELECT number FROM letter INDEXED BY letter_due"
                " WHERE state = 'pending' AND due <= ?"
                " AND channel NOT IN (SELECT value FROM json_each(?)) ORDER BY due LIMIT ?)"
                f" RETURNING {COLUMNS}",
                (owner, until, until, now, json.dumps(list(without)), limit),
            ).fetchall()
        letters, unreadable = letters_of(sorted(rows))
        for number in unreadable:
            self._end(number, "dead", "cannot be read")
        return letters

    def delivered(self, letter: Letter, now: float) -> None:
        """Say that it arrived: that is so even where the lease had ended."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE letter SET state = 'delivered', ended = ?, owner = '', lease_until = 0,"
                " last_error = '' WHERE number = ?",
                (now, letter.number),
            )

    def failed(self, letter: Letter, error: str, due: float) -> bool:
        """Have it tried again when `due`; False where the lease had ended, then nothing is done."""
        with self._database.write() as connection:
            done = connection.execute(
                "UPDATE letter SET due = ?, owner = '', lease_until = 0, last_error = ?"
                " WHERE number = ? AND state = 'pending' AND owner = ? AND lease_until = ?",
                (due, _error(error), letter.number, letter.owner, letter.lease_until),
            )
        return done.rowcount > 0

    def bury(self, letter: Letter, error: str) -> bool:
        """Give it up; False where the lease had ended, then nothing is done."""
        return self._end(letter.number, "dead", error, letter)

    def letters(
        self,
        state: LetterState | Literal["all"] = "all",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Letter]:
        """Return letters, the newest first; raise ValueError for a cursor that is none."""
        before = min(int(cursor), LATEST) if cursor is not None else LATEST
        where = "" if state == "all" else " AND state = ?"
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM letter WHERE number < ?{where}"
                " ORDER BY number DESC LIMIT ?",
                (before, *(() if state == "all" else (state,)), limit + 1),
            ).fetchall()
        found, _ = letters_of(rows[:limit])
        return Page(found, str(rows[limit - 1][0]) if len(rows) > limit else None)

    def resend(self, event_id: str, channel: str | None = None) -> int:
        """Have an event told anew, through one channel or all; return how many letters that is.

        A letter that is just being delivered is left alone.
        """
        now = self._clock()
        with self._database.write() as connection:
            done = connection.execute(
                "UPDATE letter SET state = 'pending', created = ?, due = ?, attempts = 0,"
                " owner = '', lease_until = 0, ended = NULL WHERE event = ?"
                " AND (state <> 'pending' OR lease_until <= ?) AND channel = coalesce(?, channel)",
                (now, now, event_id, now, channel),
            )
        return done.rowcount

    def next_due(self, *, without: Collection[str] = ()) -> float | None:
        """Return when there will be something to lease; None where nothing waits."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT due FROM letter INDEXED BY letter_due WHERE state = 'pending'"
                " AND channel NOT IN (SELECT value FROM json_each(?)) ORDER BY due LIMIT 1",
                (json.dumps(list(without)),),
            ).fetchone()
        return None if row is None else float(row[0])

    def counts(self) -> dict[LetterState, int]:
        """Return how many letters there are in each state."""
        found: dict[LetterState, int] = {"pending": 0, "delivered": 0, "dead": 0}
        with self._database.read() as connection:
            found.update(
                connection.execute("SELECT state, count(*) FROM letter GROUP BY state").fetchall()
            )
        return found

    def _end(
        self, number: int, state: LetterState, error: str, leased: Letter | None = None
    ) -> bool:
        whose = " AND owner = ? AND lease_until = ?" if leased is not None else ""
        with self._database.write() as connection:
            done = connection.execute(
                "UPDATE letter SET state = ?, ended = ?, owner = '', lease_until = 0,"
                f" last_error = ? WHERE number = ? AND state = 'pending'{whose}",
                (
                    state, self._clock(), _error(error), number,
                    *((leased.owner, leased.lease_until) if leased is not None else ()),
                ),
            )  # fmt: skip
        return done.rowcount > 0


def _error(text: str) -> str:
    return text[:LONGEST_ERROR].encode("utf-8", "replace").decode()
