"""The tables of the history, and the migrations to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection

from looptrap.errors import ConfigError

APPLICATION_ID = 0x4C545250
"""Identifies the file as Looptrap's."""

_INCIDENTS = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # A part that changes gets a new, highest number: later changes have higher numbers.
    """CREATE TABLE part (
        change INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        instance TEXT NOT NULL,
        opened REAL NOT NULL,
        last REAL NOT NULL,
        closed REAL,
        caller TEXT NOT NULL,
        project TEXT NOT NULL,
        session TEXT NOT NULL,
        rule TEXT NOT NULL,
        body BLOB NOT NULL
    )""",
    "CREATE UNIQUE INDEX part_id ON part (id, instance)",
    "CREATE INDEX part_opened ON part (opened, id)",
    "CREATE INDEX part_open ON part (opened, id) WHERE closed IS NULL",
    "CREATE INDEX part_closed ON part (last) WHERE closed IS NOT NULL",
    """CREATE TABLE letter (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        event TEXT NOT NULL,
        channel TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        created REAL NOT NULL,
        due REAL NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        owner TEXT NOT NULL DEFAULT '',
        lease_until REAL NOT NULL DEFAULT 0,
        ended REAL,
        last_error TEXT NOT NULL DEFAULT '',
        body BLOB NOT NULL
    )""",
    "CREATE UNIQUE INDEX letter_event ON letter (event, channel)",
    "CREATE INDEX letter_due ON letter (due, channel) WHERE state = 'pending'",
    "CREATE INDEX letter_state ON letter (state)",
    "CREATE INDEX letter_ended ON letter (ended) WHERE ended IS NOT NULL",
)

_FIGURES = (
    "calls", "refused", "warned", "shadowed", "input_tokens", "output_tokens", "cost", "unpriced",
    "estimated", "saved",
)  # fmt: skip

_USAGE = (
    # One row a minute, later one an hour, from `start` on. Amounts are nano-dollars.
    f"""CREATE TABLE spending (
        start INTEGER NOT NULL,
        instance TEXT NOT NULL,
        caller TEXT NOT NULL,
        project TEXT NOT NULL,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        {", ".join(f"{name} INTEGER NOT NULL" for name in _FIGURES)},
        PRIMARY KEY (start, instance, caller, project, provider, model)
    ) WITHOUT ROWID""",
    # Rows that are not merged into hours yet.
    "CREATE INDEX spending_minute ON spending (start) WHERE start % 3600 <> 0",
    """CREATE TABLE session (
        caller TEXT NOT NULL,
        project TEXT NOT NULL,
        session TEXT NOT NULL,
        first REAL NOT NULL,
        last REAL NOT NULL,
        calls INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        cost INTEGER NOT NULL,
        unpriced INTEGER NOT NULL,
        minute INTEGER NOT NULL,
        used INTEGER NOT NULL,
        model TEXT NOT NULL,
        PRIMARY KEY (caller, project, session)
    ) WITHOUT ROWID""",
    "CREATE INDEX session_last ON session (last)",
)

_ANNOTATIONS = (
    "ALTER TABLE part ADD COLUMN model TEXT NOT NULL DEFAULT ''",
    """CREATE TABLE remark (
        id TEXT PRIMARY KEY,
        incident TEXT NOT NULL,
        time REAL NOT NULL,
        by TEXT NOT NULL,
        kind TEXT NOT NULL,
        text TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX remark_incident ON remark (incident, kind, time)",
    """CREATE TABLE audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        time REAL NOT NULL,
        by TEXT NOT NULL,
        source TEXT NOT NULL,
        what TEXT NOT NULL,
        target TEXT NOT NULL,
        before BLOB,
        after BLOB
    )""",
)

_LISTS = (
    # One row for each incident, with the sums of its parts: lists need not decode those.
    """CREATE TABLE incident (
        id TEXT PRIMARY KEY,
        caller TEXT NOT NULL,
        project TEXT NOT NULL,
        session TEXT NOT NULL,
        rule TEXT NOT NULL,
        model TEXT NOT NULL,
        rules TEXT NOT NULL,
        opened REAL NOT NULL,
        last REAL NOT NULL,
        closed REAL,
        hits INTEGER NOT NULL,
        calls INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        cost INTEGER,
        saved INTEGER
    ) WITHOUT ROWID""",
    "CREATE INDEX incident_opened ON incident (opened, id)",
    "CREATE INDEX incident_open ON incident (opened, id) WHERE closed IS NULL",
    "CREATE INDEX incident_last ON incident (last)",
    # One row for each account of a budget that refused calls in a period; nano-dollars, or tokens.
    """CREATE TABLE breach (
        id TEXT PRIMARY KEY,
        budget TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        "by" TEXT NOT NULL,
        unit TEXT NOT NULL,
        mode TEXT NOT NULL,
        project TEXT NOT NULL,
        ends INTEGER NOT NULL,
        opened REAL NOT NULL,
        last REAL NOT NULL,
        used INTEGER NOT NULL,
        "limit" INTEGER NOT NULL,
        request_id TEXT NOT NULL,
        refused INTEGER NOT NULL,
        estimate INTEGER NOT NULL,
        estimated INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX breach_last ON breach (last, id)",
    "DROP INDEX part_opened",
    "DROP INDEX part_closed",
)

_LOOPED = ("ALTER TABLE spending ADD COLUMN looped INTEGER NOT NULL DEFAULT 0",)

_CALLS = (
    # One row for a call, or for `weight` calls where they are sampled. Costs are nano-dollars.
    """CREATE TABLE call_log (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        time REAL NOT NULL,
        weight INTEGER NOT NULL,
        caller TEXT NOT NULL,
        project TEXT NOT NULL,
        session TEXT NOT NULL,
        agent TEXT NOT NULL,
        model TEXT NOT NULL,
        provider TEXT NOT NULL,
        dialect TEXT NOT NULL,
        status INTEGER NOT NULL,
        verdict TEXT NOT NULL,
        shadow TEXT NOT NULL,
        reason TEXT NOT NULL,
        policy TEXT NOT NULL,
        rule TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        is_estimated INTEGER NOT NULL,
        cost INTEGER,
        latency REAL NOT NULL,
        first_byte REAL,
        is_stream INTEGER NOT NULL,
        is_cut_off INTEGER NOT NULL,
        request_id TEXT NOT NULL
    )""",
    "CREATE INDEX call_log_time ON call_log (time)",
    "CREATE INDEX call_log_caller ON call_log (caller, time)",
    "CREATE INDEX call_log_session ON call_log (session, time) WHERE session <> ''",
    "CREATE INDEX call_log_acted ON call_log (time) WHERE verdict <> 'allow'",
)

_SUMS = (
    # Of each length of time that is over, and of each caller, project, provider and model in it.
    f"""CREATE TABLE usage_sum (
        step INTEGER NOT NULL,
        dimension TEXT NOT NULL,
        name TEXT NOT NULL,
        start INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        {", ".join(f"{name} INTEGER NOT NULL" for name in (*_FIGURES, "looped"))},
        PRIMARY KEY (step, dimension, start, name)
    ) WITHOUT ROWID""",
    "CREATE INDEX usage_sum_name ON usage_sum (dimension, name, step, start)",
)

_ROLLUPS = (
    # Of usage and of logged calls, also by week.
    "DROP TABLE usage_sum",
    f"""CREATE TABLE rollup (
        step INTEGER NOT NULL,
        dimension TEXT NOT NULL,
        name TEXT NOT NULL,
        start INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        {", ".join(f"{name} INTEGER NOT NULL" for name in (*_FIGURES, "looped"))},
        PRIMARY KEY (step, dimension, start, name)
    ) WITHOUT ROWID""",
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
