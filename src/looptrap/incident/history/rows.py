"""Many rows as few statements: each lets the gateway's own thread run until it is done."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from sqlite3 import Connection
from typing import Any

Row = tuple[Any, ...]

AT_ONCE = (64, 8, 1)
"""Rows of one statement: few sizes, so that SQLite has met each of them before.

Row by row, every single one would hand the interpreter over and wait to get it back, which costs
both threads more than the row does.
"""


def insert(
    connection: Connection, into: str, rows: Sequence[tuple[Any, ...]], end: str = ""
) -> None:
    """Insert rows, in their order; `into` ends with VALUES."""
    done = 0
    for size in AT_ONCE:
        while len(rows) - done >= size:
            some = rows[done : done + size]
            places = "(" + ",".join("?" * len(some[0])) + ")"
            statement = into + ",".join([places] * size) + end
            connection.execute(statement, list(chain.from_iterable(some)))
            done += size
