"""The writer: what there is to keep gets kept, later if not now, and no call ever suffers."""

import threading

import pytest
from tests.incident.history.keeping import NOON, ids, incident, outgoing

from looptrap.incident.history import HistoryWriter, WriteBatch, writer


class Owner:
    """Has work for a writer, a clock, and an ear for what was written."""

    def __init__(self, history):
        self.work, self.written, self.now = [], [], 100.0
        self.writer = HistoryWriter(
            history, self.take, on_written=self.hear, clock=lambda: NOON, monotonic=lambda: self.now
        )

    def take(self, now):
        assert now == NOON
        work = self.work.pop(0) if self.work else WriteBatch()
        if isinstance(work, Exception):
            raise work
        return work

    def hear(self, work):
        self.written.append((ids(work.incidents), [one.event.id for one in work.events]))

    def run_once(self, *work):
        self.work += work
        self.writer.run_once()


@pytest.fixture
def file(keep):
    return keep()


@pytest.fixture
def owner(file):
    return Owner(file)


@pytest.fixture
def broken(file, request):
    """Let nothing be written until told otherwise, in the way that the test names."""
    writing = file._database._writer
    if request.param == "disk full":
        writing.execute("PRAGMA max_page_count = 1")  # no less than there are
        return lambda: writing.execute("PRAGMA max_page_count = 1000000")
    if request.param == "read-only":
        writing.execute("PRAGMA query_only = ON")
        return lambda: writing.execute("PRAGMA query_only = OFF")
    writing.execute("PRAGMA busy_timeout = 0")
    other = file._database._connection()
    other.execute("BEGIN IMMEDIATE")
    return other.close


TROUBLE = pytest.mark.parametrize("broken", ["disk full", "read-only", "locked"], indirect=True)
MANY = WriteBatch([incident(n, message="x" * 1000) for n in range(200)], outgoing(1))


def test_work_is_written_and_told(owner, file):
    owner.run_once(WriteBatch([incident(1)], outgoing(1)))
    assert owner.written == [(["00000001"], ["evt-1"])]
    assert ids(file.incidents().items) == ["00000001"]
    assert file.outbox.counts()["pending"] == 1
    assert (owner.writer.written, owner.writer.waiting) == (1, 0)


def test_no_work_is_no_transaction(owner, file):
    owner.run_once()
    owner.now += 1
    before = file._database._writer.total_changes
    owner.run_once()
    assert owner.written == []
    assert file._database._writer.total_changes == before


@TROUBLE
def test_what_cannot_be_written_is_kept_and_written_later(owner, file, broken, caplog):
    owner.run_once(MANY)
    assert (owner.writer.failed, owner.writer.waiting, owner.written) == (1, 201, [])
    assert file.incidents().items == []
    assert "the history is not written: " in caplog.text
    broken()
    owner.run_once(WriteBatch([incident(1, calls=9)], outgoing(2)))
    assert owner.writer.failed == 1
    assert owner.written == [], "it tries again only after a pause"
    owner.now += writer.RETRY_PAUSE_S
    owner.run_once()
    assert len(file.incidents(limit=1000).items) == 200
    assert file.incident("00000001").calls == 9
    assert owner.written[0][1] == ["evt-1", "evt-2"]
    assert (owner.writer.waiting, owner.writer.lost) == (0, 0)


@TROUBLE
def test_trouble_is_told_once_a_second_at_most(owner, broken, caplog):
    for _ in range(30):
        owner.run_once(MANY)
        owner.now += 0.1
    assert len(caplog.records) == owner.writer.failed == 3


def test_while_nothing_can_be_written_only_so_much_waits(owner, file, monkeypatch):
    monkeypatch.setattr(writer, "MAX_PENDING_INCIDENTS", 3)
    monkeypatch.setattr(writer, "MAX_PENDING_EVENTS", 4)
    file._database._writer.execute("PRAGMA query_only = ON")
    owner.run_once(WriteBatch([incident(n) for n in range(5)], outgoing(*range(6))))
    owner.run_once(WriteBatch([incident(0, calls=7), incident(9)], outgoing(7)))
    assert (owner.writer.waiting, owner.writer.lost) == (7, 2 + 2 + 1 + 1)
    file._database._writer.execute("PRAGMA query_only = OFF")
    owner.now += writer.RETRY_PAUSE_S
    owner.run_once()
    assert sorted(ids(file.incidents().items)) == ["00000000", "00000001", "00000002"]
    assert file.incident("00000000").calls == 7


def test_a_file_that_is_deleted_is_made_anew(owner, file, tmp_path):
    owner.run_once(WriteBatch([incident(1)]))
    (tmp_path / "looptrap.db").unlink()
    owner.run_once(WriteBatch([incident(2)]))
    assert ids(file.incidents().items) == ["00000002"]
    assert owner.writer.failed == 0


def test_a_file_that_is_replaced_by_something_else_is_not_written(owner, file, tmp_path, caplog):
    path = tmp_path / "looptrap.db"
    path.unlink()
    path.write_text("no database, but something that somebody may need" * 20)
    owner.run_once(WriteBatch([incident(1)]))
    assert owner.writer.waiting == 1
    assert path.read_text().startswith("no database")
    path.unlink()
    owner.now += writer.RETRY_PAUSE_S
    owner.run_once()
    assert ids(file.incidents().items) == ["00000001"]


def test_a_file_that_is_damaged_meanwhile_harms_nobody(owner, file, tmp_path, caplog):
    owner.run_once(MANY)
    file._database.checkpoint()
    path = tmp_path / "looptrap.db"
    with path.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xff" * (path.stat().st_size - 4096))
    file._database._writer.execute("PRAGMA shrink_memory")
    file._database._writer.execute("PRAGMA cache_size = 0")
    owner.run_once(WriteBatch([incident(n) for n in range(500, 600)]))
    assert (owner.writer.failed, owner.writer.waiting) == (1, 100)
    assert "malformed" in caplog.text


def test_work_that_fails_keeps_nothing_else_from_being_written(owner, file, caplog):
    owner.run_once(ValueError("secret words of a call"))
    owner.run_once(WriteBatch([incident(1)]))
    assert ids(file.incidents().items) == ["00000001"]
    assert "a batch could not be made: ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_whoever_cannot_be_told_it_is_written(owner, file, monkeypatch, caplog):
    def gone(_work):
        raise RuntimeError("loop is closed")

    monkeypatch.setattr(owner.writer, "_on_written", gone)
    owner.run_once(WriteBatch([incident(1)]))
    owner.run_once(WriteBatch([incident(2)]))
    assert len(file.incidents().items) == 2
    assert owner.writer.waiting == 0


def test_the_old_is_swept_now_and_then_in_slices(keep, clock):
    history = keep("", keep=60)
    owner = Owner(history)
    history.put([incident(n, last=NOON, closed=NOON) for n in range(1200)])
    clock.now += 1000
    for left in (700, 200, 0, 0):
        owner.run_once()
        assert len(history.incidents(limit=2000).items) == left
    history.put([incident(1, last=NOON, closed=NOON)])
    owner.run_once()
    assert len(history.incidents().items) == 1, "there was nothing more, so it waits"
    owner.now += writer.SWEEP_INTERVAL_S
    owner.run_once()
    assert history.incidents().items == []


def test_a_thread_does_all_this_and_writes_the_rest_in_the_end(file):
    told, threads = threading.Event(), set()
    waiting = [WriteBatch([incident(1)])]

    def work(_now):
        threads.add(threading.current_thread().name)
        return waiting.pop(0) if waiting else WriteBatch()

    running = HistoryWriter(file, work, on_written=lambda _work: told.set())
    running.start()
    assert told.wait(10)
    waiting.append(WriteBatch([incident(2)], outgoing(2)))
    running.stop()
    assert len(file.incidents().items) == 2
    assert threads == {"looptrap-history"}
    assert running.waiting == 0


def test_what_cannot_be_written_in_the_end_is_counted(file, caplog):
    file._database._writer.execute("PRAGMA query_only = ON")
    running = HistoryWriter(file, lambda _now: WriteBatch([incident(1)], outgoing(1)))
    running.start()
    running.stop()
    assert running.lost == 2
    assert (
        "stopped with 2 incidents, events, annotations, usage rows and calls not written"
        in caplog.text
    )


def test_a_writer_that_never_started_can_be_stopped(file):
    HistoryWriter(file, lambda _now: WriteBatch()).stop()
