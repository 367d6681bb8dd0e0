"""Database: what the history asks of an engine, SQLite or PostgreSQL; rows and pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

Row = tuple[Any, ...]
Values = Row | dict[str, Any]
"""Values of a statement, by position or by name; a list is the value of `= ANY(?)`."""


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


class Connection(Protocol):
    """One transaction; `statement` says in which SQL its statements are written."""

    is_shared: bool
    """Whether others may write at the same time."""

    def execute(self, statement: str, values: Values = ()) -> Result:
        """Run a statement with `?` or `:name` for its values."""

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], on_conflict: str = ""
    ) -> None:
        """Insert rows, in their order."""

    def replace(
        self, table: str, columns: Sequence[str], key: Sequence[str], rows: Sequence[Row]
    ) -> None:
        """Insert rows, each instead of the one with the same key; a number is given anew."""

    def lock(self, names: Sequence[str]) -> None:
        """Wait until no other transaction has locked any of these names."""

    def try_lock(self, name: str) -> bool:
        """Lock a name unless another transaction has; return whether that was possible."""

    def lock_shared(self, names: Sequence[str]) -> None:
        """Lock names together with others, after any transaction that has one of them alone."""

    def lock_alone(self, name: str) -> None:
        """Lock a name that others lock together, after any of them."""

    def size(self) -> int:
        """Return about how many bytes are in use."""


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
