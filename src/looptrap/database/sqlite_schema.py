"""The tables of the history, and the migrations to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from sqlite3 import Connection

from looptrap.errors import ConfigError

APPLICATION_ID = 0x4C545250
"""Identifies the file as Looptrap's."""

_TEXT, _INTEGER, _REAL = "TEXT NOT NULL", "INTEGER NOT NULL", "REAL NOT NULL"
_NUMBER = "INTEGER PRIMARY KEY AUTOINCREMENT"


def _all(names: str, kind: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


def _create(table: str, columns: Mapping[str, str], key: str = "") -> str:
    """Return the statement that creates a table; one without a numbered column has a key."""
    parts = [f"{name} {kind}" for name, kind in columns.items()]
    if key:
        parts.append(f"PRIMARY KEY ({key})")
    storage = "" if _NUMBER in columns.values() else " WITHOUT ROWID"
    return f"CREATE TABLE {table} ({', '.join(parts)}){storage}"


_INCIDENTS = (
    _create("meta", {"name": "TEXT PRIMARY KEY", "value": _TEXT}),
    # A part that changes gets a new, highest number: later changes have higher numbers.
    _create("part", {
        "change": _NUMBER,
        **_all("id instance", _TEXT),
        **_all("opened last", _REAL),
        "closed": "REAL",
        **_all("caller project session rule", _TEXT),
        "body": "BLOB NOT NULL",
    }),
    "CREATE UNIQUE INDEX part_id ON part (id, instance)",
    "CREATE INDEX part_opened ON part (opened, id)",
    "CREATE INDEX part_open ON part (opened, id) WHERE closed IS NULL",
    "CREATE INDEX part_closed ON part (last) WHERE closed IS NOT NULL",
    _create("letter", {
        "number": _NUMBER,
        **_all("event channel", _TEXT),
        "state": f"{_TEXT} DEFAULT 'pending'",
        **_all("created due", _REAL),
        "attempts": f"{_INTEGER} DEFAULT 0",
        "owner": f"{_TEXT} DEFAULT ''",
        "lease_until": f"{_REAL} DEFAULT 0",
        "ended": "REAL",
        "last_error": f"{_TEXT} DEFAULT ''",
        "body": "BLOB NOT NULL",
    }),
    "CREATE UNIQUE INDEX letter_event ON letter (event, channel)",
    "CREATE INDEX letter_due ON letter (due, channel) WHERE state = 'pending'",
    "CREATE INDEX letter_state ON letter (state)",
    "CREATE INDEX letter_ended ON letter (ended) WHERE ended IS NOT NULL",
)  # fmt: skip

_FIGURES = "calls refused warned shadowed input_tokens output_tokens cost unpriced estimated saved"

_USAGE = (
    # One row a minute, later one an hour, from `start` on. Amounts are nano-dollars.
    _create(
        "spending",
        {
            "start": _INTEGER,
            **_all("instance caller project provider model", _TEXT),
            **_all(_FIGURES, _INTEGER),
        },
        key="start, instance, caller, project, provider, model",
    ),
    # Rows that are not merged into hours yet.
    "CREATE INDEX spending_minute ON spending (start) WHERE start % 3600 <> 0",
    _create(
        "session",
        {
            **_all("caller project session", _TEXT),
            **_all("first last", _REAL),
            **_all("calls refused tokens cost unpriced minute used", _INTEGER),
            "model": _TEXT,
        },
        key="caller, project, session",
    ),
    "CREATE INDEX session_last ON session (last)",
)

_ANNOTATIONS = (
    "ALTER TABLE part ADD COLUMN model TEXT NOT NULL DEFAULT ''",
    _create("remark", {
        "id": "TEXT PRIMARY KEY",
        "incident": _TEXT,
        "time": _REAL,
        **_all("by kind text", _TEXT),
    }),
    "CREATE INDEX remark_incident ON remark (incident, kind, time)",
    _create("audit", {
        "number": _NUMBER,
        "time": _REAL,
        **_all("by source what target", _TEXT),
        **_all("before after", "BLOB"),
    }),
)  # fmt: skip

_LISTS = (
    # One row for each incident, with the sums of its parts: lists need not decode those.
    _create("incident", {
        "id": "TEXT PRIMARY KEY",
        **_all("caller project session rule model rules", _TEXT),
        **_all("opened last", _REAL),
        "closed": "REAL",
        **_all("hits calls refused", _INTEGER),
        **_all("cost saved", "INTEGER"),
    }),
    "CREATE INDEX incident_opened ON incident (opened, id)",
    "CREATE INDEX incident_open ON incident (opened, id) WHERE closed IS NULL",
    "CREATE INDEX incident_last ON incident (last)",
    # One row for each account of a budget that refused calls in a period; nano-dollars, or tokens.
    _create("breach", {
        "id": "TEXT PRIMARY KEY",
        **_all('budget fingerprint "by" unit mode project', _TEXT),
        "ends": _INTEGER,
        **_all("opened last", _REAL),
        **_all('used "limit"', _INTEGER),
        "request_id": _TEXT,
        **_all("refused estimate estimated", _INTEGER),
    }),
    "CREATE INDEX breach_last ON breach (last, id)",
    "DROP INDEX part_opened",
    "DROP INDEX part_closed",
)  # fmt: skip

_LOOPED = ("ALTER TABLE spending ADD COLUMN looped INTEGER NOT NULL DEFAULT 0",)

_CALLS = (
    # One row for a call, or for `weight` calls where they are sampled. Costs are nano-dollars.
    _create("call_log", {
        "number": _NUMBER,
        "time": _REAL,
        "weight": _INTEGER,
        **_all("caller project session agent model provider dialect", _TEXT),
        "status": _INTEGER,
        **_all("verdict shadow reason policy rule", _TEXT),
        **_all("input_tokens output_tokens cached_tokens is_estimated", _INTEGER),
        "cost": "INTEGER",
        "latency": _REAL,
        "first_byte": "REAL",
        **_all("is_stream is_cut_off", _INTEGER),
        "request_id": _TEXT,
    }),
    "CREATE INDEX call_log_time ON call_log (time)",
    "CREATE INDEX call_log_caller ON call_log (caller, time)",
    "CREATE INDEX call_log_session ON call_log (session, time) WHERE session <> ''",
    "CREATE INDEX call_log_acted ON call_log (time) WHERE verdict <> 'allow'",
)  # fmt: skip

_SUM_COLUMNS = {
    "step": _INTEGER,
    **_all("dimension name", _TEXT),
    **_all(f"start first last {_FIGURES} looped", _INTEGER),
}
_SUM_KEY = "step, dimension, start, name"

_SUMS = (
    # Of each length of time that is over, and of each caller, project, provider and model in it.
    _create("usage_sum", _SUM_COLUMNS, key=_SUM_KEY),
    "CREATE INDEX usage_sum_name ON usage_sum (dimension, name, step, start)",
)

_ROLLUPS = (
    # Of usage and of logged calls, also by week.
    "DROP TABLE usage_sum",
    _create("rollup", _SUM_COLUMNS, key=_SUM_KEY),
    "CREATE INDEX rollup_name ON rollup (dimension, name, step, start)",
)

MIGRATIONS: list[tuple[str, ...]] = [
    _INCIDENTS, _USAGE, _ANNOTATIONS, _LISTS, _LOOPED, _CALLS, _SUMS, _ROLLUPS,
]  # fmt: skip
"""Statements from each version to the next; append only, never change a released one."""


def check(connection: Connection) -> None:
    """Raise ConfigError for a file of another program or a later version."""
    with transaction(connection, "BEGIN"):
        version = pragma(connection, "user_version")
        application = pragma(connection, "application_id")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (tables or version or application):
        raise ConfigError("is a database of another program")
    if version > len(MIGRATIONS):
        raise ConfigError(
            f"is of version {version}, this Looptrap knows versions up to {len(MIGRATIONS)}:"
            " it was written by a later one"
        )


def migrate(connection: Connection, history_id: str) -> str:
    """Migrate a checked database to the latest version, all or nothing; return its id.

    A new one gets `history_id`.
    """
    with transaction(connection, "BEGIN IMMEDIATE"):
        for statements in MIGRATIONS[pragma(connection, "user_version") :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('history_id', ?)", (history_id,))
        row = connection.execute("SELECT value FROM meta WHERE name = 'history_id'").fetchone()
    return str(row[0])


@contextmanager
def transaction(connection: Connection, begin: str) -> Iterator[None]:
    """Run a transaction: committed, or rolled back on an error."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors, such as a full disk, SQLite has rolled back itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def pragma(connection: Connection, name: str) -> int:
    """Return the integer value of a pragma."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
