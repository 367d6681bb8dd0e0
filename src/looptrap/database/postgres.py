"""PostgresDatabase: a database that many instances share, and its transactions."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any
from zlib import crc32

from looptrap.database import postgres_schema as schema
from looptrap.database.database import (
    Connection,
    Database,
    Result,
    Row,
    Values,
    each_value,
    postgres_statement,
    without_nul,
)
from looptrap.database.place import MISSING_PACKAGE, has_driver, shown_place
from looptrap.database.postgres_schema import NUMBERED, TABLES
from looptrap.errors import ConfigError, DatabaseError, Problem

if has_driver():
    import psycopg
    from psycopg import errors

    from looptrap.database.postgres_pool import PostgresPool

MIGRATION_TIMEOUT_S = 120.0
"""Seconds that a migration may take, and that another instance waits for it."""

LOCK_SLOTS = 256
"""Locks that names share: a transaction with many names must not fill the lock table."""

_NUMBER_BITS = 48
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1

ARRAY_TYPES = {"TEXT": "text[]", "BIGINT": "bigint[]", "DOUBLE": "double precision[]",
               "BYTEA": "bytea[]", "BOOLEAN": "boolean[]"}  # fmt: skip


class PostgresConnection(Connection):
    """A transaction; others read and write meanwhile."""

    is_shared = True

    def __init__(self, raw: psycopg.Connection, schema_name: str, pool: PostgresPool) -> None:
        self.raw = raw
        self._schema = schema_name
        self._pool = pool
        self._announced: set[str] = set()

    def execute(self, statement: str, values: Values = ()) -> Result:
        return self.run(postgres_statement(statement), each_value(without_nul, values))

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], on_conflict: str = ""
    ) -> None:
        if not rows:
            return
        if table in NUMBERED:
            self._announce(table)
        by_column = [
            _column(table, name, values)
            for name, values in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        names = ", ".join(f'"{name}"' for name in columns)
        if on_conflict:
            arrays = ", ".join(f"%s::{_array_type(table, name)}" for name in columns)
            statement = f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}) "
            self.run(statement + postgres_statement(on_conflict), by_column)
            return
        self._pool.renew(self.raw)
        with self.raw.cursor() as cursor:
            into = f"COPY {table} ({names}) FROM STDIN"
            with cursor.copy(into) as copy:
                for row in zip(*by_column, strict=True):
                    copy.write_row(row)

    def replace(
        self, table: str, columns: Sequence[str], key: Sequence[str], rows: Sequence[Row]
    ) -> None:
        changes = [f'"{name}" = excluded."{name}"' for name in columns if name not in key]
        if table in NUMBERED:
            changes.append(f"{NUMBERED[table]} = DEFAULT")
        action = f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(changes)}"
        self.insert(table, columns, rows, action)

    def lock(self, names: Sequence[str]) -> None:
        self._lock("names", names, "pg_advisory_xact_lock")

    def try_lock(self, name: str) -> bool:
        [(is_ours,)] = self.run("SELECT pg_try_advisory_xact_lock(%s)", (self._key(name),))
        return bool(is_ours)

    def wait_lock(self, name: str) -> None:
        """Lock a name, after any transaction that has."""
        self.run("SELECT pg_advisory_xact_lock(%s)", (self._key(name),))

    def lock_shared(self, names: Sequence[str]) -> None:
        self._lock("shared", names, "pg_advisory_xact_lock_shared")

    def lock_alone(self, name: str) -> None:
        self._lock("shared", [name], "pg_advisory_xact_lock")

    def _lock(self, kind: str, names: Sequence[str], function: str) -> None:
        # In one order, so that two transactions never wait for each other.
        slots = sorted({crc32(name.encode("utf-8", "replace")) % LOCK_SLOTS for name in names})
        if slots:
            self.run(
                f"SELECT {function}(%s, slot) FROM unnest(%s::int[]) slot",
                (self._key(kind) >> 32, slots),
            )

    def size(self) -> int:
        """Return about how many bytes the rows take, by PostgreSQL's statistics."""
        [(size,)] = self.run(
            "SELECT coalesce(sum(t.n_live_tup * (28 + s.width)), 0)::bigint"
            " FROM pg_stat_user_tables t JOIN (SELECT schemaname, tablename,"
            " sum(avg_width) AS width FROM pg_stats GROUP BY 1, 2) s"
            " ON s.schemaname = t.schemaname AND s.tablename = t.relname"
            " WHERE t.schemaname = current_schema() AND t.relname = ANY(%s)",
            (list(TABLES),),
        )
        return int(size)

    def run(self, statement: str, values: Any = ()) -> psycopg.Cursor[Any]:
        """Run a statement as psycopg knows it."""
        self._pool.renew(self.raw)
        return self.raw.execute(statement, values)

    def settled(self, table: str) -> int:
        """Return the number up to which every row of a table is committed or given up."""
        # First the latest number, then who may still write a lower one.
        [(last,)] = self.run(f"SELECT {_last_number(table)}")
        key = self._key(table)
        [(lowest,)] = self.run(
            "SELECT min(((classid::bigint << 32) | objid::bigint) & %s) FROM pg_locks"
            " WHERE locktype = 'advisory' AND objsubid = 1"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND (((classid::bigint << 32) | objid::bigint) >> %s) = %s",
            (_NUMBER_MASK, _NUMBER_BITS, key >> _NUMBER_BITS),
        )
        return int(last) if lowest is None else min(int(last), int(lowest))

    def _announce(self, table: str) -> None:
        """Hold a lock that says from which number on this transaction may write.

        Numbers are given before the commit. So a row may become visible after one with a higher
        number, and who follows them would miss it: `settled` stays below all such locks.
        """
        if table not in self._announced:
            self._announced.add(table)
            self.run(
                f"SELECT pg_advisory_xact_lock_shared(%s + {_last_number(table)})",
                (self._key(table),),
            )

    def _key(self, name: str) -> int:
        """Return the key of an advisory lock: 15 bits for the name, and room for a number."""
        return (crc32(f"looptrap.{self._schema}.{name}".encode()) & 0x7FFF) << _NUMBER_BITS


def _last_number(table: str) -> str:
    sequence = f"{table}_{NUMBERED[table]}_seq"
    return f"(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence})"


def _array_type(table: str, column: str) -> str:
    return ARRAY_TYPES[TABLES[table][column].partition(" ")[0]]


def _column(table: str, name: str, values: Sequence[Any]) -> list[Any]:
    """Return the values of a column as its type takes them."""
    match TABLES[table][name].partition(" ")[0]:
        case "TEXT":
            return list(map(without_nul, values))
        case "DOUBLE":
            return [None if one is None else float(one) for one in values]
        case "BIGINT":
            return [None if one is None else int(one) for one in values]
        case "BOOLEAN":
            return [bool(one) for one in values]
        case _:
            return list(values)


class PostgresDatabase(Database):
    """Transactions on connections of a pool; without the server they fail within the time-out."""

    is_shared = True

    def __init__(
        self,
        url: str,
        history_id: str,
        *,
        timeout: float = 5.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout` is for connecting and for each statement, in seconds."""
        self.id = self._new_id = history_id
        self._place = shown_place(url)
        if not has_driver():
            raise ConfigError([Problem("history", f"{self._place}: {MISSING_PACKAGE}")])
        if problem := _option_problem(url):
            raise ConfigError([Problem("history", f"{self._place}: {problem}")])
        self._pool = PostgresPool(url, timeout, self._prepare, monotonic)
        self._schema = ""
        self._prepared = Lock()
        self._settled: dict[str, int] = {}
        self._settled_epoch = 0

    def open(self) -> None:
        self._pool.open()
        try:
            with self._connection():
                pass
        except DatabaseError as error:
            if error.is_final:
                raise ConfigError([Problem("history", f"{self._place}: {error}")]) from None
            raise

    def close(self) -> None:
        self._pool.close()

    def check(self) -> int:
        """Return the version of the tables, 0 for none, and change nothing.

        Raises ConfigError for a database that cannot be used, DatabaseError for one that is away.
        """
        try:
            with self._pool.unprepared() as raw:
                return schema.check(_runner(raw))
        except ConfigError as error:
            raise ConfigError([Problem("history", f"{self._place}: {error}")]) from None
        except psycopg.Error as error:
            raise connection_error(error) from None

    @contextmanager
    def write(self) -> Iterator[PostgresConnection]:
        """Yield the connection for one transaction: committed, or rolled back on an error."""
        with self._connection() as connection, connection.raw.transaction():
            [(oldest,)] = connection.run("SELECT value FROM meta WHERE name = 'oldest_writer'")
            if int(oldest) > len(schema.MIGRATIONS):
                raise ConfigError("was migrated by a later Looptrap, this one may not write it")
            yield connection

    @contextmanager
    def read(self) -> Iterator[PostgresConnection]:
        """Yield the connection for reads of one snapshot."""
        with self._connection() as connection, connection.raw.transaction():
            connection.raw.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection

    def query(self, statement: str, values: Values = ()) -> list[Row]:
        with self._connection() as connection:
            return connection.execute(statement, values).fetchall()

    def settled(self, table: str) -> int:
        """Return a number up to which no further row will appear in a numbered table."""
        with self._connection() as connection:
            found = connection.settled(table)
        if self._settled_epoch != self._pool.epoch:
            # After a failover numbers may begin anew.
            self._settled, self._settled_epoch = {}, self._pool.epoch
        # What was settled once stays so, also where a transaction announced an earlier number.
        found = self._settled[table] = max(found, self._settled.get(table, 0))
        return found

    def shrink(self, max_size: int) -> bool:  # noqa: ARG002 - it cannot be hurried
        """Leave the space to PostgreSQL's autovacuum."""
        return False

    @contextmanager
    def _connection(self) -> Iterator[PostgresConnection]:
        try:
            with self._pool.connection() as raw:
                yield PostgresConnection(raw, self._schema, self._pool)
        except ConfigError as error:
            raise DatabaseError(str(error), is_final=True) from error
        except psycopg.Error as error:
            raise connection_error(error) from error

    def _prepare(self, raw: psycopg.Connection) -> None:
        """Check the tables on a new connection, and migrate them once."""
        with self._prepared:
            run = _runner(raw)
            if schema.check(run) < len(schema.MIGRATIONS):
                self._migrate(raw)
            [(self._schema, self.id)] = run(
                "SELECT current_schema(), value FROM meta WHERE name = 'history_id'"
            )

    def _migrate(self, raw: psycopg.Connection) -> None:
        limit = int(MIGRATION_TIMEOUT_S * 1000)
        with self._pool.patience(raw, MIGRATION_TIMEOUT_S), raw.transaction():
            run = _runner(raw)
            run(f"SET LOCAL statement_timeout = {limit}")
            run(f"SET LOCAL lock_timeout = {limit}")
            [(schema_name,)] = run("SELECT current_schema()")
            PostgresConnection(raw, schema_name, self._pool).wait_lock("migrate")
            version = schema.check(run)  # another instance may have been first
            for migration in schema.MIGRATIONS[version:]:
                for statement in migration.statements:
                    run(statement)
            for name, value in schema.settings_after(self._new_id).items():
                change = "NOTHING" if name == "history_id" else "UPDATE SET value = excluded.value"
                run(
                    "INSERT INTO meta (name, value) VALUES (%s, %s)"
                    f" ON CONFLICT (name) DO {change}",
                    name, value,
                )  # fmt: skip
            schema.check(run)


def _runner(raw: psycopg.Connection) -> schema.Executor:
    def run(statement: str, *values: Any) -> list[Any]:
        cursor = raw.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []

    return run


_REFUSALS = {"21", "22", "23", "54"}
"""Classes of errors that what is written has caused: it is refused however often it is tried."""

_HINT = re.compile(r"Is the server running (?:on that host|locally) [^?]{0,300}\?")


def _option_problem(url: str) -> str:
    """Return what is wrong with a URL that is well-formed; libpq's words could hold a password."""
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        named = re.search(r'invalid URI query parameter: "(\w{1,40})"', str(error))
        what = f" named {named[1]}" if named else ""
        return f"libpq knows no such option{what}"
    return ""


_REASONS = {
    "invalid sslmode value": "sslmode is none that libpq knows, such as verify-full",
    "bad value for connect_timeout": "connect_timeout must be a number of seconds",
    "password authentication failed": "the password is wrong, or there is no such user",
    "no password supplied": "asks for a password: put it into the URL, PGPASSWORD or ~/.pgpass",
    "no pg_hba.conf entry": "does not let this user or address in (pg_hba.conf)",
    "is not permitted to log in": "does not let this user log in",
}


def connection_error(error: psycopg.Error) -> DatabaseError:
    """Return an error in one line, and whether only a person can help."""
    text = error.diag.message_primary or str(error)
    text = " ".join(_HINT.sub("", text).split())
    text = text.rpartition("FATAL: ")[2].strip() or type(error).__name__
    for part, reason in _REASONS.items():
        if part in text:
            return DatabaseError(reason, is_final=True)
    is_login = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    if is_login and ("database" in text or "role" in text) and text.endswith("does not exist"):
        return DatabaseError(text, is_final=True)
    if isinstance(error, errors.InsufficientPrivilege):
        return DatabaseError(text, is_final=True)
    return DatabaseError(text, is_refusal=(error.sqlstate or "")[:2] in _REFUSALS)
