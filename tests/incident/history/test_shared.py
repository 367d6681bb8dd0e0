"""Several processes with one PostgreSQL: each batch counts once, whatever ends in between."""

import logging
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.database.postgres_server import postgres_server
from tests.examples import examples
from tests.incident.history.keeping import NOON, Clock, event, ids, incident, outgoing
from tests.incident.history.test_calls import logged
from tests.store.serving import until

from looptrap.errors import ConfigError, DatabaseError
from looptrap.incident.history import (
    HistoryWriter,
    IncidentHistory,
    OutgoingEvent,
    WriteBatch,
)
from looptrap.incident.history.history import Presence, SpoolSettings
from looptrap.incident.model import Annotation
from looptrap.incident.setting import IncidentSettings
from looptrap.usage.breach import Breach
from looptrap.usage.call_log import CallFilter, CallLogSettings
from looptrap.usage.model import SessionKey, SessionUsage, UsageBatch, UsageKey, UsageTotals

pytestmark = pytest.mark.slow


def spent(cost, *, caller="ann", minute=0, calls=1):
    batch = UsageBatch()
    start = int(NOON) // 60 * 60 + 60 * minute
    spender = UsageKey(caller, "p", "openai", "m")
    batch.totals_of(start, spender).add(UsageTotals(calls=calls, cost=cost))
    batch.sessions[SessionKey(caller, "p", "s")] = SessionUsage(
        NOON, NOON + minute, calls=calls, cost=cost
    )
    return WriteBatch(spending=batch)


@pytest.fixture
def url(postgres):
    return postgres.new_schema()


@pytest.fixture
def start(tmp_path, url):
    """Open histories of processes that share the database and the folder of the spool."""
    found = []

    def open_history(url=url, *, folder="spool", clock=None, timeout=5.0, **options):
        history = IncidentHistory(
            url,
            IncidentSettings(**options),
            CallLogSettings(),
            spool=SpoolSettings(str(tmp_path / folder), 1 << 20, timeout),
            clock=clock or Clock(),
        )
        history.open()
        found.append(history)
        return history

    yield open_history
    for history in found:
        if history.spool._own is not None:
            history.close()


def kill(history):
    """End a process without another word: its locks are gone, what is on disk stays."""
    for spool in history.spool._spools():
        os.close(spool._lock)
        for segment in spool._segments:
            segment.close()
    history.spool._own, history.spool._adopted = None, []
    history._database.close()


def cost(history):
    return history.usage.totals(0, 2 * NOON).cost


# Exactly once


def test_what_waits_is_written_and_the_spool_is_empty(start):
    history = start()
    history.write(spent(5))
    history.write(WriteBatch([incident(1)], outgoing(1)))
    assert (cost(history), history.spool.waiting) == (0, 2)
    assert history.spool.drain() == 2
    assert (cost(history), history.spool.waiting, history.spool.size) == (5, 0, 0)
    assert ids(history.incidents().items) == ["00000001"]
    assert history.outbox.counts()["pending"] == 1


def test_a_process_killed_before_its_batches_are_written_loses_none(start):
    first = start()
    for n in range(5):
        first.write(spent(10**n))
    kill(first)
    again = start()
    assert again.spool.waiting == 5
    again.write(spent(7 * 10**5))
    again.spool.drain()
    assert cost(again) == 711_111


def test_a_process_killed_after_the_commit_counts_nothing_twice(start, monkeypatch):
    first = start()
    first.write(spent(5))
    with monkeypatch.context() as patched:
        patched.setattr("looptrap.database.spool.Spool.drop", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            first.spool.drain()
    assert cost(first) == 5
    kill(first)
    again = start()
    assert again.spool.waiting == 1
    again.spool.drain()
    assert (cost(again), again.spool.waiting) == (5, 0)


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "rolled back"])
def test_a_connection_that_breaks_in_the_commit_counts_once(start, is_committed, monkeypatch):
    history = start()
    history.write(spent(5))
    write = history._database.write

    class Broken:
        def __enter__(self):
            self.inner = write()
            return self.inner.__enter__()

        def __exit__(self, *raised):
            error = None if is_committed else RuntimeError()
            with suppress(RuntimeError):
                self.inner.__exit__(error and RuntimeError, error, None)
            raise DatabaseError("server closed the connection unexpectedly")

    with monkeypatch.context() as patched:
        patched.setattr(history._database, "write", Broken)
        with pytest.raises(DatabaseError):
            history.spool.drain()
    history.spool.drain()
    assert cost(history) == 5


def test_a_batch_that_the_database_refuses_is_lost_alone(start, caplog):
    history = start()
    history.write(spent(1))
    bad = spent(2)
    [totals] = bad.spending.spending.values()
    totals.calls = None  # a bug: the column takes numbers only
    history.write(bad)
    history.write(spent(4))
    history.spool.drain()
    assert (cost(history), history.spool.waiting, history.spool.lost) == (5, 0, 1)
    assert "a batch is lost" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda batch: rename(batch, "x" * 100_000), id="too long for an index"),
        pytest.param(lambda batch: rename(batch, None), id="of a wrong kind"),
    ],
)
def test_a_batch_that_can_never_be_written_does_not_hold_up_the_others(start, change):
    history = start()
    history.write(change(spent(2)))
    history.write(spent(4))
    history.spool.drain()
    assert (cost(history), history.spool.waiting, history.spool.lost) == (4, 0, 1)


def rename(batch, caller):
    names = Random(1).choices([chr(n) for n in range(0x4E00, 0x9000)], k=len(caller or ""))
    (minute, spender), totals = batch.spending.spending.popitem()
    caller = "".join(names) if caller else caller
    batch.spending.spending[minute, spender._replace(caller=caller)] = totals
    return batch


@dataclass
class Fleet:
    """Processes that write, end and are killed; and what they were given to write."""

    open: object
    processes: dict = field(default_factory=dict)
    given: int = 0
    calls: int = 0

    def process(self, name):
        if name not in self.processes:
            self.processes[name] = self.open(folder=f"spool-{name}")
        return self.processes[name]

    def step(self, name, what, amount):
        process = self.process(name)
        match what:
            case "write":
                minute = amount % 4
                batch = spent(amount, caller=f"caller-{amount % 3}", minute=minute)
                process.write(batch._replace(calls=[logged(60 * minute, cost=amount)]))
                self.given += amount
                self.calls += 1
            case "drain":
                process.spool.drain()
            case "sweep":
                process.sweep()
            case "killed":
                kill(self.processes.pop(name))
            case "killed in the commit":
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr("looptrap.database.spool.Spool.drop", lambda *_: 1 / 0)
                    with suppress(ZeroDivisionError):
                        process.spool.drain()
                kill(self.processes.pop(name))
            case "restart":
                self.processes.pop(name).close()


STEPS = st.tuples(
    st.sampled_from("abc"),
    st.sampled_from(
        ["write", "write", "drain", "sweep", "killed", "killed in the commit", "restart"]
    ),
    st.integers(1, 10**12),
)


@settings(max_examples=examples(24), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=25))
def test_sums_agree_after_any_restarts_and_crashes(postgres, tmp_path_factory, steps):
    url, folder = postgres.new_schema(), tmp_path_factory.mktemp("fleet")

    def open_history(folder_name=None, *, folder=folder, **options):
        name = options.pop("folder_name", folder_name)
        history = IncidentHistory(
            url,
            IncidentSettings(),
            spool=SpoolSettings(str(folder / name)),
            clock=Clock(NOON + 7_200),
        )
        history.open()
        return history

    fleet = Fleet(lambda folder: open_history(folder))
    for step in steps:
        fleet.step(*step)
    for name in "abc":
        fleet.process(name).spool.drain()
    totals = {
        (process.usage.totals(0, 2 * NOON).cost, process.usage.totals(0, 2 * NOON).calls)
        for process in fleet.processes.values()
    }
    sessions = {
        sum(one.run.cost for one in process.usage.sessions(0))
        for process in fleet.processes.values()
    }
    logs = {
        (sum(one.cost for _, one in found), sum(one.calls for _, one in found))
        for process in fleet.processes.values()
        for found in [process.calls.series(CallFilter(), 3_600)]
    }
    for process in fleet.processes.values():
        process.close()
    assert totals == logs == {(fleet.given, fleet.calls)}
    assert sessions == {fleet.given}


# Several at once


def test_processes_that_write_the_same_rows_at_once_add_up(start, url):
    histories = [start(folder=f"spool-{n}") for n in range(4)]

    def write(number, history):
        for n in range(15):
            history.write(spent(1, minute=n % 2))
            history.write(
                WriteBatch([incident(n, instance=f"i{number}"), incident(n + 100, instance="x")])
            )
            history.spool.drain()

    threads = [threading.Thread(target=write, args=pair) for pair in enumerate(histories)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [one.spool.waiting for one in histories] == [0] * 4
    assert cost(histories[0]) == 60
    [session] = histories[1].usage.sessions(0)
    assert session.run.cost == 60
    shared = histories[2].incident("00000003")
    assert shared.calls == 4, "each process saw one"
    assert all(one.hits == 4 for one in histories[3].incident_groups("all", ids=[shared.id]).items)


def test_processes_whose_batches_have_piled_up_do_not_wait_for_each_other(start):
    histories = [start(folder=f"spool-{n}") for n in range(3)]
    failed = []

    def drain(history):
        try:
            history.spool.drain()
        except DatabaseError as error:
            failed.append(error)

    for turn in range(4):
        for number, history in enumerate(histories):
            for n in Random(f"{turn}{number}").sample(range(64), 64):
                batch = spent(1)
                batch.spending.sessions = {
                    key._replace(session=f"s{n}"): run
                    for key, run in batch.spending.sessions.items()
                }
                at = NOON + turn
                account = ("bud", f"print-{n}", "{}", "usd", "enforce", "p", 0)
                batch.spending.add_breach(Breach(f"bud_{n}", *account, at, at, 5, 4, "r"))
                history.write(batch._replace(incidents=[incident(n, instance=f"i{number}")]))
        threads = [threading.Thread(target=drain, args=(one,)) for one in histories]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert failed == []
    assert cost(histories[0]) == 4 * 3 * 64
    assert {one.run.cost for one in histories[0].usage.sessions(0, limit=100)} == {12}
    breaches = histories[0].breaches.breaches(limit=100).items
    assert (len(breaches), {(one.refused, one.last) for one in breaches}) == (64, {(12, NOON + 3)})


def test_hours_have_one_row_for_all_processes(start):
    clock = Clock()
    one, two = (start(folder=f"spool-{n}", clock=clock) for n in "ab")
    for history in (one, two):
        history.write(spent(3, minute=1))
        history.write(spent(4, minute=2))
        history.spool.drain()
    clock.now += 3 * 86_400
    while one.sweep():
        pass
    assert cost(two) == 14
    assert one._database.query("SELECT count(*) FROM spending") == [(1,)]


def test_a_part_known_from_before_does_not_replace_a_later_one(start):
    one, two = start(folder="a"), start(folder="b")
    one.put([incident(1, instance="one", last=NOON + 50, calls=9)])
    two.put([incident(1, instance="one", last=NOON + 10, calls=2, closed=NOON + 100)])
    found = one.incident("00000001")
    assert (found.calls, found.closed) == (9, None)


def test_only_one_process_sweeps_at_a_time(start):
    clock = Clock()
    one, two = (start(folder=n, clock=clock, keep=60) for n in "ab")
    one.put([incident(1, closed=NOON)])
    clock.now += 1000
    with one._database.write() as connection:
        assert connection.try_lock("sweep")
        assert not two.sweep()
        assert len(two.incidents().items) == 1
    two.sweep()
    assert two.incidents().items == []


def test_what_an_operator_closed_elsewhere_is_found(start):
    one, two = start(folder="a"), start(folder="b")
    one.put([incident(1, instance=two.instance)])
    close = Annotation(id="c", incident="00000001", time=NOON + 5, by="ann", kind="close")
    one.put(annotations=[close])
    assert two.closed_since(NOON) == ["00000001"]
    assert two.closed_since(NOON + 5) == []


def test_incidents_of_processes_that_run_are_theirs(start):
    one, two = start(folder="a"), start(folder="b")
    one.put([incident(1, instance=one.instance), incident(2, instance="long gone")])
    one.beat()
    assert ids(two.abandoned_incidents()) == ["00000002"]
    one.close()
    assert ids(two.abandoned_incidents()) == ["00000001", "00000002"]


# Alerts


def test_a_delivery_is_leased_by_one_of_many(start):
    histories = [start(folder=n) for n in "abc"]
    histories[0].put([], outgoing(*range(60)))
    found, barrier = [], threading.Barrier(3)

    def lease(history):
        barrier.wait()
        while deliveries := history.outbox.lease(NOON, history.instance, 7, 30):
            found.extend(one.event.id for one in deliveries)

    threads = [threading.Thread(target=lease, args=(one,)) for one in histories]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(found) == sorted(f"evt-{n}" for n in range(60))


def test_an_event_that_several_processes_report_is_one_delivery(start):
    one, two = start(folder="a"), start(folder="b")
    for history in (one, two):
        history.write(WriteBatch(events=[OutgoingEvent(event(1), ("ops", "mail"))]))
        history.spool.drain()
    assert one.outbox.counts()["pending"] == 2


def test_what_a_killed_process_was_about_to_send_is_free_within_seconds(start, url, postgres):
    one, two = start(folder="a"), start(folder="b")
    now = [0.0]
    two._presence = Presence(two._database, lambda: now[0])
    one.put([], outgoing(1, 2))
    one.beat()
    assert len(one.outbox.lease(NOON, one.instance, 1, 30)) == 1
    for _ in range(5):  # it has been alive for long enough to know
        assert two.beat() == 0
        now[0] += 2
    assert len(two.outbox.lease(NOON, two.instance, 9, 30)) == 1
    schema = url.rpartition("%3D")[2]
    postgres.execute(
        f"UPDATE {schema}.instance SET seen = now() - interval '7 seconds' WHERE id = %s",
        one.instance,
    )
    assert two.beat() == 1
    [left] = two.outbox.lease(NOON, two.instance, 9, 30)
    assert left.attempts == 2


def test_after_an_outage_nobody_is_taken_for_dead_at_once(start, url, postgres):
    one, two = start(folder="a"), start(folder="b")
    now = [0.0]
    two._presence = Presence(two._database, lambda: now[0])
    one.put([], outgoing(1))
    one.beat()
    one.outbox.lease(NOON, one.instance, 1, 30)
    schema = url.rpartition("%3D")[2]
    postgres.execute(f"UPDATE {schema}.instance SET seen = now() - interval '1 hour'")
    assert two.beat() == 0
    now[0] += 2
    assert two.beat() == 0
    one.beat()
    for _ in range(5):
        now[0] += 2
        assert two.beat() == 0


# Away


@pytest.fixture
def own_server():
    with postgres_server() as server:
        yield server


def test_without_the_database_it_starts_and_all_follows_when_it_is_back(start, own_server, caplog):
    own_server.stop()
    history = start(own_server.url(), timeout=2)
    assert "what is recorded waits on disk" in caplog.text
    now = [0.0]
    batches = [WriteBatch([incident(n)], outgoing(n), spent(5).spending) for n in range(3)]
    writer = HistoryWriter(
        history, lambda _: batches.pop() if batches else WriteBatch(), monotonic=lambda: now[0]
    )
    for _ in range(3):
        writer.run_once()
        writer.drainer.run_once()
        now[0] += 2
    assert (writer.is_failing, writer.failed, writer.waiting) == (True, 3, 0)
    assert history.spool.waiting == 3
    started = time.monotonic()
    with pytest.raises(DatabaseError, match="refused"):
        history.incidents()
    assert time.monotonic() - started < 3
    own_server.start()

    def is_written():
        now[0] += 2
        writer.run_once()
        writer.drainer.run_once()
        return not writer.is_failing

    until(is_written)
    assert (cost(history), history.spool.waiting) == (15, 0)
    assert len(history.incidents().items) == 3
    assert history.outbox.counts()["pending"] == 3


def test_a_full_spool_keeps_the_latest_in_memory(start, own_server, caplog):
    caplog.set_level(logging.ERROR)
    own_server.stop()
    history = start(own_server.url(), timeout=2)
    now = [0.0]
    writer = HistoryWriter(
        history,
        lambda _: WriteBatch([incident(1, message="x" * 300_000, calls=int(now[0]))]),
        monotonic=lambda: now[0],
    )
    for _ in range(6):
        writer.run_once()
        now[0] += 2
    assert history.spool.is_full
    assert history.spool.size <= 1 << 20
    assert (writer.waiting, writer.is_failing, writer.lost) == (1, True, 0)
    assert "the spool is full" in caplog.text
    own_server.start()
    until(lambda: drained(writer, now))
    now[0] += 2
    writer.run_once()
    until(lambda: drained(writer, now))
    assert history.incident("00000001").calls == now[0] - 2 or history.spool.waiting == 0
    assert not history.spool.is_full


def test_what_has_become_larger_than_the_spool_is_written_when_the_database_is_back(
    start, own_server
):
    own_server.stop()
    history = start(own_server.url(), timeout=2)
    now, numbers = [0.0], iter(range(12))

    def some(_):
        return WriteBatch([incident(n, message="x" * 300_000) for n in islice(numbers, 4)])

    writer = HistoryWriter(history, some, monotonic=lambda: now[0])
    for _ in range(4):
        writer.run_once()
        now[0] += 2
    assert writer.waiting > 0
    own_server.start()
    until(lambda: drained(writer, now))
    for _ in range(3):
        now[0] += 2
        writer.run_once()
        writer.drainer.run_once()
    assert (writer.waiting, history.spool.waiting) == (0, 0)
    assert len(history.incidents().items) == 12


def test_what_no_disk_takes_goes_to_the_database(start, monkeypatch):
    history = start()

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("looptrap.database.spool.Segment.append", fail)
        history.write(spent(5))
        assert (cost(history), history.spool.waiting) == (5, 0)
    history.write(spent(7))
    with monkeypatch.context() as patched:
        patched.setattr("looptrap.database.spool.Segment.append", fail)
        with pytest.raises(OSError, match="No space"):  # not before what waits
            history.write(spent(9))
    history.spool.drain()
    assert cost(history) == 12


def drained(writer, now):
    now[0] += 2
    writer.drainer.run_once()
    return not writer.is_failing or not writer.drainer.is_failing


def test_a_version_that_may_not_write_any_more_keeps_what_it_records(start, url, postgres):
    history = start()
    history.write(spent(5))
    meta = f"{url.rpartition('%3D')[2]}.meta"
    postgres.execute(f"UPDATE {meta} SET value = '99' WHERE name = 'oldest_writer'")
    with pytest.raises(DatabaseError, match="migrated by a later Looptrap") as caught:
        history.spool.drain()
    assert caught.value.is_final
    assert history.spool.waiting == 1
    assert cost(history) == 0  # it still reads
    postgres.execute(f"UPDATE {meta} SET value = '1' WHERE name = 'oldest_writer'")
    history.spool.drain()
    assert cost(history) == 5


def test_a_spool_that_cannot_be_made_prevents_a_start(tmp_path, url):
    (tmp_path / "file").touch()
    spool = SpoolSettings(str(tmp_path / "file" / "spool"))
    with pytest.raises(ConfigError, match=r"history_spool: .*cannot write there"):
        IncidentHistory(url, IncidentSettings(), spool=spool).open()
