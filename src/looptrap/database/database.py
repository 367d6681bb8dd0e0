"""Database: what the history asks of an engine, SQLite or PostgreSQL; rows, pages, statements.

Statements are written once: what differs between the engines is replaced here. They are in the SQL
that both know, and in these words:

`?`, `:name`               a value, by position or by name
`= ANY(?)`, `<> ALL(?)`    one, or none, of the values in a list
`least`, `greatest`        of several values; NULL must not be among them
`total(x)`                 the sum, which a number too large does not break
`floor(x)`                 of a number that is not negative
`instr(x, y)`              the place of y in x, text or bytes; 0 if it is not there
`INDEXED BY x`             the index to use; PostgreSQL chooses by itself
`FOR UPDATE SKIP LOCKED`   leave out what another transaction is about to change
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from math import inf
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

T = TypeVar("T")

Row = tuple[Any, ...]
Values = Row | dict[str, Any]
"""Values of a statement, by position or by name; a list is the value of `= ANY(?)`."""


def each_value(change: Callable[[Any], Any], values: Values) -> Values:
    """Return the values of a statement, each changed."""
    if isinstance(values, dict):
        return {name: change(one) for name, one in values.items()}
    return tuple(map(change, values))


class Page(NamedTuple, Generic[T]):
    """Some items, and the cursor of the next page; None at the end."""

    items: list[T]
    next_cursor: str | None


NEWEST = 1 << 62
"""Above the number of every row."""


class Result(Protocol):
    """The rows of a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(ABC):
    """One transaction. Locks do nothing where no other transaction can write meanwhile."""

    is_shared = False
    """Whether others may write at the same time."""

    @abstractmethod
    def execute(self, statement: str, values: Values = ()) -> Result:
        """Run a statement with `?` or `:name` for its values."""

    @abstractmethod
    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], on_conflict: str = ""
    ) -> None:
        """Insert rows, in their order."""

    @abstractmethod
    def replace(
        self, table: str, columns: Sequence[str], key: Sequence[str], rows: Sequence[Row]
    ) -> None:
        """Insert rows, each instead of the one with the same key; a number is given anew."""

    @abstractmethod
    def size(self) -> int:
        """Return about how many bytes are in use."""

    def lock(self, names: Sequence[str]) -> None:  # noqa: B027
        """Wait until no other transaction has locked any of these names."""

    def try_lock(self, name: str) -> bool:  # noqa: ARG002
        """Lock a name unless another transaction has; return whether that was possible."""
        return True

    def lock_shared(self, names: Sequence[str]) -> None:  # noqa: B027
        """Lock names together with others, after any transaction that has one of them alone."""

    def lock_alone(self, name: str) -> None:  # noqa: B027
        """Lock a name that others lock together, after any of them."""

    def drop_oldest(
        self, table: str, key: Sequence[str], before: float, max_rows: int, limit: int
    ) -> int:
        """Drop up to `limit` rows of before a time, or else of those above `max_rows`."""
        (number,) = self.execute(f"SELECT count(*) FROM {table}").fetchone()
        surplus = min(max(number - max_rows, 0), limit)
        names = ", ".join(key)
        oldest = f"SELECT {names} FROM {table} WHERE last < ? ORDER BY last LIMIT ?"
        drop = f"DELETE FROM {table} WHERE ({names}) IN ({oldest})"
        dropped = self.execute(drop, (before, limit)).rowcount
        return dropped or self.execute(drop, (inf, surplus)).rowcount


class Database(ABC):
    """Transactions that read and write; all of it waits: call it from a thread.

    What cannot be done raises DatabaseError.
    """

    is_shared = False
    """Whether instances on other machines may use it too."""

    id: str
    """Made once, with the database."""

    @abstractmethod
    def open(self) -> None:
        """Create or migrate the tables; raise ConfigError if it cannot be used.

        A database that is only away for now raises DatabaseError.
        """

    @abstractmethod
    def close(self) -> None:
        """Close it; later reads and writes fail."""

    @abstractmethod
    def write(self) -> AbstractContextManager[Connection]:
        """Return the context of one transaction: committed, or rolled back on an error."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Connection]:
        """Return the context of reads of one snapshot."""

    def settled(self, table: str) -> int:  # noqa: ARG002 - all of one writer at a time
        """Return a number up to which no further row will appear in a numbered table.

        Ask before the snapshot in which those rows are read.
        """
        return NEWEST

    @abstractmethod
    def shrink(self, max_size: int) -> bool:
        """Give back space that dropped rows have left; return whether there is more."""

    def query(self, statement: str, values: Values = ()) -> list[Row]:
        """Return the rows of one statement that reads."""
        with self.read() as connection:
            return connection.execute(statement, values).fetchall()

    def page(self, select: str, limit: int, cursor: str | None, **values: Any) -> Page[Row]:
        """Return a page of rows, whose first column is their number, the highest first.

        `select` has a condition `number < :before`. Raises ValueError for an invalid cursor.
        """
        before = NEWEST if cursor is None else min(int(cursor), NEWEST)
        values |= {"before": before, "limit": limit + 1}
        rows = self.query(f"{select} ORDER BY number DESC LIMIT :limit", values)
        return Page(rows[:limit], str(rows[limit - 1][0]) if len(rows) > limit else None)

    def execute(self, statement: str, values: Values = ()) -> int:
        """Run one statement that writes; return the number of rows it changed."""
        with self.write() as connection:
            return connection.execute(statement, values).rowcount


MAX_STATEMENTS = 1_000
"""Translated statements that are remembered."""

_VALUE = r"(\?|:[a-z_0-9]+)"

_TO_SQLITE: Mapping[str, str] = {
    rf"= ANY\({_VALUE}\)": r"IN (SELECT value FROM json_each(\1))",
    rf"<> ALL\({_VALUE}\)": r"NOT IN (SELECT value FROM json_each(\1))",
    r"\bleast\(": "min(",
    r"\bgreatest\(": "max(",
    r"\bfloor\(": "(",
    r"FOR UPDATE SKIP LOCKED": "",
}

_TO_POSTGRES: Mapping[str, str] = {
    r"\?": "%s",
    r"(?<!:):([a-z_][a-z_0-9]*)": r"%(\1)s",
    r"\btotal\(": "sum(",
    r"\binstr\(": "pg_catalog.position(",
    r"INDEXED BY \w+": "",
}

_QUOTED = re.compile(r"('[^']*')")


def _translator(replacements: Mapping[str, str]) -> Callable[[str], str]:
    patterns = [(re.compile(pattern), into) for pattern, into in replacements.items()]

    def replaced(text: str) -> str:
        for pattern, into in patterns:
            text = pattern.sub(into, text)
        return text

    @lru_cache(MAX_STATEMENTS)
    def translate(statement: str) -> str:
        pieces = _QUOTED.split(statement)
        pieces[::2] = map(replaced, pieces[::2])
        return "".join(pieces)

    return translate


sqlite_statement = _translator(_TO_SQLITE)
"""Return a statement as SQLite knows it."""

_postgres_statement = _translator(_TO_POSTGRES)


def postgres_statement(statement: str) -> str:
    """Return a statement as psycopg sends it to PostgreSQL."""
    return _postgres_statement(statement.replace("%", "%%"))


MAX_FIGURE = 1 << 53
"""The largest figure of a row, whatever providers report: exact in JSON numbers too."""


def encode_struct(encode: Callable[[T], bytes], value: T) -> tuple[T, bytes]:
    """Encode a struct; return it as it was encoded, without lone surrogates."""
    try:
        return value, encode(value)
    except UnicodeEncodeError:  # a client may send half of a surrogate pair
        value = struct_without_surrogates(value)
        return value, encode(value)


def struct_without_surrogates(value: T) -> T:
    """Return a copy with a question mark for each lone surrogate."""
    builtins = msgspec.to_builtins(value, builtin_types=(bytes,))
    return msgspec.convert(without_surrogates(builtins), type(value))


def storable(*values: Any) -> Row:
    """Return a row that can be stored: no lone surrogates, figures up to MAX_FIGURE."""
    return tuple(
        max(min(one, MAX_FIGURE), -MAX_FIGURE) if isinstance(one, int) else without_surrogates(one)
        for one in values
    )


def without_surrogates(value: Any) -> Any:
    """Return text with a question mark for each lone surrogate; also inside lists and dicts."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {without_surrogates(name): without_surrogates(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_surrogates(one) for one in value]
    return value


def without_nul(value: Any) -> Any:
    """Return text without the character that PostgreSQL cannot store; also inside lists."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if isinstance(value, list):
        return [without_nul(one) for one in value]
    return value
