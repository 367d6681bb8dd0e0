"""A real PostgreSQL: what is followed, who may use it, and what is refused with nothing changed."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress

import psycopg
import pytest
from tests.database.postgres_server import postgres_server, standby_of
from tests.incident.history.keeping import ids, incident, opened_history
from tests.incident.history.test_calls import logged
from tests.store.serving import until

from looptrap.database import postgres_schema
from looptrap.database.postgres import PostgresDatabase
from looptrap.database.postgres_schema import Migration
from looptrap.errors import ConfigError, DatabaseError
from looptrap.incident.history import incident_table

pytestmark = pytest.mark.slow


@pytest.fixture
def url(postgres):
    return postgres.new_schema()


@pytest.fixture
def open_database():
    found = []

    def start(url, history_id="ours", **options):
        database = PostgresDatabase(url, history_id, **options)
        found.append(database)
        database.open()
        return database

    yield start
    for database in found:
        database.close()


def problem(url, **options):
    """Return why a database is refused."""
    database = PostgresDatabase(url, "ours", **options)
    with pytest.raises(ConfigError) as caught:
        database.open()
    database.close()
    (found,) = caught.value.problems
    assert found.place == "history"
    assert "\n" not in found.message
    assert "secret" not in found.message
    return found.message


# Numbers that readers follow


CALL = {
    "time": 1.0, "weight": 1, "caller": "a", "project": "", "session": "", "agent": "",
    "model": "m", "provider": "", "dialect": "", "status": 200, "verdict": "allow", "shadow": "",
    "reason": "", "policy": "", "rule": "", "input_tokens": 1, "output_tokens": 1,
    "cached_tokens": 0, "is_estimated": False, "cost": 1, "latency": 0.1, "first_byte": None,
    "is_stream": False, "is_cut_off": False, "request_id": "r",
}  # fmt: skip
AUDIT = {"time": 1.0, "by": "a", "source": "", "what": "w", "target": "t",
         "before": None, "after": None}  # fmt: skip
PART = {
    "id": "x", "instance": "i", "opened": 1.0, "last": 1.0, "closed": None, "caller": "a",
    "project": "", "session": "", "rule": "", "model": "", "body": b"",
}  # fmt: skip


def add(connection, table, name):
    row = {"call_log": CALL, "audit": AUDIT, "part": PART}[table]
    named = {"call_log": "caller", "audit": "target", "part": "id"}[table]
    row = {**row, named: name}
    if table == "part":
        connection.replace("part", tuple(row), ("id", "instance"), [tuple(row.values())])
    else:
        connection.insert(table, tuple(row), [tuple(row.values())])


class Follower:
    """Reads the rows of a table after the last it has read."""

    def __init__(self, database, table):
        self.database, self.table, self.after, self.seen = database, table, 0, []
        self.named = {"call_log": "caller", "audit": "target", "part": "id"}[table]

    def read(self):
        settled = self.database.settled(self.table)
        number = postgres_schema.NUMBERED[self.table]
        rows = self.database.query(
            f"SELECT {number}, {self.named} FROM {self.table}"
            f" WHERE {number} > ? AND {number} <= ? ORDER BY 1",
            (self.after, settled),
        )
        self.seen += [name for _, name in rows]
        self.after = max([self.after, settled, *(one for one, _ in rows)])
        return self.seen


@pytest.mark.parametrize("table", ["call_log", "audit", "part"])
def test_a_row_with_a_lower_number_that_is_committed_later_is_not_missed(open_database, url, table):
    database = open_database(url)
    follower = Follower(database, table)
    with database.write() as slow:
        add(slow, table, "slow 1")
        with database.write() as quick:
            add(quick, table, "quick")
        assert follower.read() == []
        add(slow, table, "slow 2")
        assert follower.read() == []
    assert sorted(follower.read()) == ["quick", "slow 1", "slow 2"]


@pytest.mark.parametrize("table", ["call_log", "part"])
def test_a_transaction_that_is_rolled_back_holds_up_nobody_for_long(open_database, url, table):
    database = open_database(url)
    follower = Follower(database, table)
    with suppress(RuntimeError), database.write() as connection:
        add(connection, table, "never")
        with database.write() as other:
            add(other, table, "there")
        assert follower.read() == []
        raise RuntimeError
    assert follower.read() == ["there"]


def test_followers_of_many_writers_see_each_row_once(open_database, url):
    database = open_database(url)
    writers = [open_database(url) for _ in range(4)]

    def write(name, writer):
        for n in range(40):
            with writer.write() as connection:
                for k in range(3):
                    add(connection, "call_log", f"{name}.{n}.{k}")
                    time.sleep(0)

    threads = [threading.Thread(target=write, args=pair) for pair in enumerate(writers)]
    for one in threads:
        one.start()
    follower = Follower(database, "call_log")
    while any(one.is_alive() for one in threads):
        follower.read()
    follower.read()
    expected = [f"{name}.{n}.{k}" for name in range(4) for n in range(40) for k in range(3)]
    assert sorted(follower.seen) == sorted(expected)


# Versions


def test_two_that_start_at_once_migrate_once(open_database, url):
    found, failed = [], []

    def start(number):
        try:
            found.append(open_database(url, f"id-{number}").id)
        except (ConfigError, DatabaseError) as error:
            failed.append(error)

    threads = [threading.Thread(target=start, args=(n,)) for n in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert len(set(found)) == 1


MORE = Migration(("ALTER TABLE part ADD COLUMN mood TEXT", "CREATE TABLE moods (what TEXT)"))


def test_an_old_instance_goes_on_while_a_new_one_migrates(open_database, url, monkeypatch):
    old = opened_history(url)
    old.put([incident(1)])
    with monkeypatch.context() as patched:
        patched.setattr(postgres_schema, "MIGRATIONS", [*postgres_schema.MIGRATIONS, MORE])
        new = opened_history(url)
        assert new.id == old.id
        new.put([incident(2)])
    old.put([incident(3)])
    assert ids(old.incidents().items) == ids(new.incidents().items) == [
        "00000003", "00000002", "00000001",
    ]  # fmt: skip
    again = opened_history(url)  # an old one that starts after the migration
    again.put([incident(4)])
    for one in (old, new, again):
        one.close()


def test_one_from_before_there_were_rollups_gets_them(url, postgres, monkeypatch):
    with monkeypatch.context() as patched:
        tables = {name: one for name, one in postgres_schema.TABLES.items() if name != "rollup"}
        patched.setattr(postgres_schema, "TABLES", tables)
        patched.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:1])
        old = opened_history(url)
        old.put([incident(1)])
        postgres.execute(f"CREATE TABLE {schema_of(url)}.usage_sum (step BIGINT)")
    new = opened_history(url)
    new.put(calls=[logged()])
    assert (ids(new.incidents().items), new.calls.last()) == (["00000001"], 1)
    with monkeypatch.context() as patched:
        patched.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:1])
        with pytest.raises(DatabaseError, match="migrated by a later Looptrap"):
            old.put([incident(2)])
    for one in (old, new):
        one.close()


def test_a_version_that_the_old_must_not_write_is_refused_by_it(url, postgres, monkeypatch):
    with monkeypatch.context() as patched:
        known = len(postgres_schema.MIGRATIONS)
        later = Migration((), oldest_writer=known + 1)
        patched.setattr(postgres_schema, "MIGRATIONS", [*postgres_schema.MIGRATIONS, later])
        opened_history(url).close()
    before = postgres.execute(f"SELECT * FROM {schema_of(url)}.meta ORDER BY 1")
    assert f"is of version {known + 1}, this Looptrap knows versions up to {known}" in problem(url)
    assert postgres.execute(f"SELECT * FROM {schema_of(url)}.meta ORDER BY 1") == before


def schema_of(url):
    return url.rpartition("%3D")[2]


def test_a_migration_is_all_or_nothing(url, postgres, monkeypatch):
    opened_history(url).close()
    bad = Migration(("CREATE TABLE moods (what TEXT)", "CREATE TABLE part (id TEXT)"))
    with monkeypatch.context() as patched:
        patched.setattr(postgres_schema, "MIGRATIONS", [*postgres_schema.MIGRATIONS, bad])
        with pytest.raises(DatabaseError, match="already exists"):
            PostgresDatabase(url, "ours").open()
    opened_history(url).close()
    assert not postgres.execute("SELECT to_regclass(%s)", f"{schema_of(url)}.moods")[0][0]


# What is refused


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE {schema}.theirs (x int)", "has tables of another program in schema"),
        ("CREATE TABLE {schema}.meta (x int)", "has tables of another program in schema"),
        ("CREATE TABLE {schema}.meta (name text, value text)", "another program in schema"),
    ],
    ids=["a table", "a table of our name", "a table like ours"],
)
def test_the_tables_of_another_program_are_left_alone(url, postgres, statement, message):
    postgres.execute(statement.format(schema=schema_of(url)))
    assert message in problem(url)
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
    assert postgres.execute(tables, schema_of(url)) == [(1,)]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TABLE {schema}.call_log DROP COLUMN cost", "lacks call_log.cost"),
        ("DROP TABLE {schema}.session", "lacks the table session"),
    ],
)
def test_a_schema_changed_by_hand_is_named(url, postgres, statement, message):
    opened_history(url).close()
    postgres.execute(statement.format(schema=schema_of(url)))
    assert f"{message}: its schema was changed by hand" in problem(url)


def test_missing_rights_are_named(url, postgres):
    schema = schema_of(url)
    postgres.execute(f"CREATE ROLE reader_{schema} LOGIN")
    theirs = url.replace("postgres@", f"reader_{schema}@")
    postgres.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader_{schema}")
    assert f"lets user reader_{schema} make no tables in schema {schema}" in problem(theirs)
    opened_history(url).close()
    assert f"gives user reader_{schema} no right to SELECT in table meta" in problem(theirs)
    postgres.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader_{schema}")
    assert f"gives user reader_{schema} no right to INSERT" in problem(theirs)


def test_incidents_are_searched_by_an_index(open_database, url):
    with open_database(url).read() as connection:
        where, values = incident_table._conditions(connection, {"q": "nobody"})
        connection.execute("SET LOCAL enable_seqscan = off")
        plan = connection.execute(
            f"EXPLAIN SELECT id FROM incident p WHERE {' AND '.join(where)}", values
        ).fetchall()
    assert any("incident_searched" in line for (line,) in plan), plan


def test_whoever_may_make_no_index_for_searches_makes_the_tables(postgres):
    postgres.execute("CREATE ROLE plain LOGIN")
    postgres.execute("CREATE DATABASE plain")
    url = postgres.url(database="plain")
    with psycopg.connect(url, autocommit=True) as client:
        client.execute("CREATE SCHEMA AUTHORIZATION plain")
    history = opened_history(url.replace("postgres@", "plain@"))
    history.put([incident(1)])
    assert ids(history.incidents(q="SESSION-1").items) == ["00000001"]
    history.close()


def test_a_server_that_is_too_old_is_named(url, monkeypatch):
    monkeypatch.setattr(postgres_schema, "OLDEST_SERVER", 99)
    assert re.search(r"is PostgreSQL \d+, must be 99 or newer", problem(url))


def test_wrong_names_and_passwords_are_named():
    with postgres_server(password="secret") as server:
        PostgresDatabase(server.url(), "ours").open()
        server.execute("CREATE ROLE ann LOGIN PASSWORD 'other'")
        assert "the password is wrong" in problem(server.url(password="secret2"))
        assert "the password is wrong" in problem(server.url(user="nobody"))
        assert 'database "nowhere" does not exist' in problem(server.url(database="nowhere"))
        assert "no schema to use" in problem(server.url("nowhere"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("pasword=secret", "libpq knows no such option named pasword"),
        ("=secret", "libpq knows no such option"),
        ("sslmode=secure", "sslmode is none that libpq knows"),
        ("connect_timeout=long", "connect_timeout must be a number of seconds"),
    ],
)
def test_options_that_libpq_does_not_know_are_mistakes(options, message):
    with pytest.raises(ConfigError) as caught:
        PostgresDatabase(f"postgresql://postgres@127.0.0.1:1/x?{options}", "ours").open()
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_where_tls_is_asked_for_nothing_is_sent_without_it(postgres):
    url = f"{postgres.url()}?sslmode=require"
    with pytest.raises(DatabaseError, match="does not support SSL"):
        PostgresDatabase(url, "ours").open()


def test_names_are_kept_whatever_encoding_the_url_asks_for(open_database, url):
    database = open_database(f"{url}&client_encoding=latin1")
    with database.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('name', ?)", ["größer 🐘"])
    assert database.query("SELECT value FROM meta WHERE name = 'name'") == [("größer 🐘",)]


def test_a_scheme_in_capitals_is_one_too(url):
    history = opened_history(url.replace("postgresql", "POSTGRESQL"))
    history.put([incident(1)])
    assert ids(history.incidents().items) == ["00000001"]
    history.close()


def test_one_that_is_away_is_no_mistake():
    started = time.monotonic()
    with pytest.raises(DatabaseError, match="refused"):
        PostgresDatabase("postgresql://postgres@127.0.0.1:1/x", "ours").open()
    assert time.monotonic() - started < 5


# A server that comes and goes


@pytest.fixture
def own_server():
    with postgres_server() as server:
        yield server


def test_after_a_restart_of_the_server_it_goes_on(open_database, own_server):
    database = open_database(own_server.url())
    assert database.query("SELECT 1") == [(1,)]
    own_server.stop()
    with pytest.raises(DatabaseError):
        database.query("SELECT 1")
    own_server.start()
    until(lambda: succeeds(lambda: database.query("SELECT 1")))


def succeeds(action):
    try:
        action()
    except DatabaseError:
        return False
    return True


def test_what_is_confirmed_outlives_a_kill_of_a_server_that_confirms_early(
    open_database, own_server
):
    assert own_server.execute("SHOW synchronous_commit") == [("off",)]
    database = open_database(own_server.url())
    for number in range(20):
        with database.write() as connection:
            connection.execute("INSERT INTO meta VALUES (?, 'kept')", [f"row {number}"])
    own_server.kill()
    own_server.start()
    kept = "SELECT count(*) FROM meta WHERE value = 'kept'"
    until(lambda: succeeds(lambda: database.query(kept)))
    assert database.query(kept) == [(20,)]


def test_a_server_that_hangs_is_given_up_within_the_time_out(open_database, own_server):
    database = open_database(own_server.url(), timeout=1)
    database.query("SELECT 1")
    own_server.signal_all(signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(DatabaseError, match="gave no answer within 1 seconds"):
        database.query("SELECT 1")
    with pytest.raises(DatabaseError, match="timeout"):
        database.query("SELECT 1")
    assert time.monotonic() - started < 15
    own_server.signal_all(signal.SIGCONT)
    until(lambda: succeeds(lambda: database.query("SELECT 1")))


def test_a_slow_statement_is_ended_by_the_server(open_database, url):
    database = open_database(url, timeout=0.2)
    with pytest.raises(DatabaseError, match="statement timeout"):
        database.query("SELECT pg_sleep(5)")
    assert database.query("SELECT 1") == [(1,)]


def test_after_a_failover_the_new_primary_is_written(open_database, own_server):
    own_server.execute("CREATE SCHEMA looptrap")
    standby = standby_of(own_server)
    try:
        hosts = f"127.0.0.1:{standby.port},127.0.0.1:{own_server.port}"
        url = own_server.url("looptrap").replace(f"127.0.0.1:{own_server.port}", hosts)
        database = open_database(url, timeout=2)
        assert database.query("SELECT inet_server_port()") == [(own_server.port,)]
        until(lambda: standby.execute("SELECT to_regclass('looptrap.meta')")[0][0])
        own_server.kill()
        assert not succeeds(lambda: database.query("SELECT 1"))
        standby.execute("SELECT pg_promote()")
        until(lambda: succeeds(lambda: database.execute("DELETE FROM spool")))
        assert database.query("SELECT inet_server_port()") == [(standby.port,)]
    finally:
        standby.close()


def test_a_primary_that_becomes_a_standby_is_left(open_database, own_server):
    database = open_database(own_server.url())
    database.execute("DELETE FROM spool")
    own_server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    own_server.execute("SELECT pg_reload_conf()")
    until(lambda: not succeeds(lambda: database.execute("DELETE FROM spool")))
    assert not succeeds(lambda: database.execute("DELETE FROM spool"))
    own_server.execute("ALTER SYSTEM RESET default_transaction_read_only")
    own_server.execute("SELECT pg_reload_conf()")
    until(lambda: succeeds(lambda: database.execute("DELETE FROM spool")))


FOLLOWS_A_NAME = """
    import sys, time
    from looptrap.database.postgres import PostgresDatabase
    from looptrap.errors import DatabaseError
    database = PostgresDatabase(sys.argv[1], "ours", timeout=2)
    database.open()
    while True:
        try:
            database.execute("DELETE FROM spool")
            [(host,)] = database.query("SELECT host(inet_server_addr())")
            print(host, flush=True)
        except DatabaseError:
            print("away", flush=True)
        time.sleep(0.1)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, for an /etc/hosts of its own")
def test_a_name_that_leads_to_another_server_is_followed(needs, tmp_path):
    unshare = needs("unshare", "util-linux")
    hosts, script = tmp_path / "hosts", tmp_path / "follow.py"
    script.write_text(textwrap.dedent(FOLLOWS_A_NAME))
    with postgres_server() as first, postgres_server(port=first.port, host="127.0.0.2") as second:
        for server in (first, second):
            server.execute("CREATE SCHEMA looptrap")
        hosts.write_text("127.0.0.1 database.test\n")
        url = first.url("looptrap", host="database.test")
        process = subprocess.Popen(
            [unshare, "-m", "sh", "-c", 'mount --bind "$1" /etc/hosts && exec "$2" "$3" "$4"',
             "sh", hosts, sys.executable, script, url],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout.readline() == "127.0.0.1\n"
            with hosts.open("r+") as file:
                file.write("127.0.0.2")
            first.kill()
            lines = iter(process.stdout.readline, "127.0.0.2\n")
            assert {"away\n", "127.0.0.1\n"} >= set(lines)
        finally:
            process.kill()
            process.communicate()
