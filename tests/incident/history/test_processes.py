"""Several processes, and processes that end badly: what was written is there."""

import json
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager

import pytest
from tests.incident.history.keeping import NOON, incident, outgoing

pytestmark = pytest.mark.slow

TIME_OUT = 60


@contextmanager
def child(code, *arguments):
    """Run Python code as a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


WRITES_UNTIL_KILLED = """
    import sys, time
    from collections import deque
    from tests.incident.history.keeping import incident, opened_history, outgoing
    from looptrap.incident.history import WriteBatch, HistoryWriter

    waiting = deque()
    def work(now):
        some = [waiting.popleft() for _ in range(len(waiting))]
        return WriteBatch([incident(n) for n in some], outgoing(*some))

    HistoryWriter(opened_history(sys.argv[1]), work).start()
    number = 0
    while True:
        for _ in range(20):
            waiting.append(number)
            number += 1
        print(number, time.monotonic(), flush=True)
        time.sleep(0.01)
"""


def test_a_kill_loses_nothing_that_was_there_for_a_second(keep, tmp_path):
    accepted = []
    with child(WRITES_UNTIL_KILLED, tmp_path / "looptrap.db") as process:
        for line in process.stdout:
            number, when = line.split()
            accepted.append((int(number), float(when)))
            if accepted[-1][1] - accepted[0][1] > 2.5:
                break
        process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        process.wait(TIME_OUT)
    safe = max(number for number, when in accepted if when < killed - 1)
    assert safe > 1000
    history = keep()
    there = {one.id for one in history.incidents(limit=100_000).items}
    assert {f"{number:08x}" for number in range(safe)} <= there
    assert history.outbox.counts()["pending"] == len(there)
    history.put([incident(1 << 30)])
    assert ok(history)


PUTS = """
    import sys
    from tests.incident.history.keeping import incident, opened_history, outgoing
    path, name = sys.argv[1:]
    sys.stdin.readline()
    history = opened_history(path)
    print(history.id, flush=True)
    for n in range(0, 300, 3):
        history.put(
            [incident(i, instance=name) for i in range(n, n + 3)],
            outgoing(n, n + 1, n + 2),
        )
"""


def test_processes_that_start_and_write_at_once_are_one_history(keep, tmp_path):
    path = tmp_path / "looptrap.db"
    with child(PUTS, path, "a") as a, child(PUTS, path, "b") as b, child(PUTS, path, "c") as c:
        for process in (a, b, c):
            process.stdin.write("go\n")
            process.stdin.flush()
        found = [process.communicate(timeout=TIME_OUT)[0].strip() for process in (a, b, c)]
        assert [process.returncode for process in (a, b, c)] == [0, 0, 0]
    history = keep()
    assert set(found) == {history.id}
    incidents = history.incidents(limit=1000).items
    assert len(incidents) == 300
    assert {one.calls for one in incidents} == {3}
    assert history.last_change() == 900
    assert history.outbox.counts()["pending"] == 300
    assert ok(history)


LEASES = """
    import json, sys
    from tests.incident.history.keeping import NOON, opened_history
    path, name = sys.argv[1:]
    outbox = opened_history(path).outbox
    print("ready", flush=True)
    sys.stdin.readline()
    mine = []
    while letters := outbox.lease(NOON, name, 7, 30):
        mine += [letter.event.id for letter in letters]
        for letter in letters:
            if letter.number % 2:
                outbox.mark_delivered(letter, NOON)
    print(json.dumps(mine))
"""


def test_no_letter_is_with_two_processes(keep, tmp_path):
    history = keep()
    history.put([], outgoing(*range(500)))
    path = tmp_path / "looptrap.db"
    with child(LEASES, path, "a") as a, child(LEASES, path, "b") as b:
        for process in (a, b):
            assert process.stdout.readline() == "ready\n"
        for process in (a, b):
            process.stdin.write("go\n")
            process.stdin.flush()
        first, second = (json.loads(one.communicate(timeout=TIME_OUT)[0]) for one in (a, b))
    assert sorted(first + second) == sorted(f"evt-{n}" for n in range(500))
    assert history.outbox.counts() == {"pending": 250, "delivered": 250, "dead": 0}
    assert len(history.outbox.lease(NOON + 30, "me", 1000, 30)) == 250


FILLS_THE_DISK = """
    import logging, resource, sys
    from tests.incident.history.keeping import incident, opened_history
    from looptrap.incident.history import WriteBatch, HistoryWriter
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    numbers = iter(range(100))
    now = 0.0
    history = opened_history(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    writer = HistoryWriter(
        history,
        lambda _: WriteBatch([incident(100 * n + i) for n in [next(numbers)] for i in range(100)]),
        monotonic=lambda: now,
    )
    while not writer.failed:
        writer.run_once()
        now += 1
    before = writer.written
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    now += 2
    writer.run_once()
    print(before, writer.written, writer.waiting, len(history.incidents(limit=10_000).items))
"""


def test_a_full_disk_loses_nothing(keep, tmp_path):
    with child(FILLS_THE_DISK, tmp_path / "looptrap.db") as process:
        out, _ = process.communicate(timeout=TIME_OUT)
    trouble, result = out.splitlines()
    before, written, waiting, there = map(int, result.split())
    assert trouble.startswith("the history is not written: ")
    assert (written, waiting, there) == (before + 200, 0, written)
    assert ok(keep())


@pytest.mark.parametrize("left", ["-wal", "-shm"])
def test_what_a_deleted_history_left_behind_does_no_harm(keep, tmp_path, left):
    path = tmp_path / "looptrap.db"
    with child(WRITES_UNTIL_KILLED, path) as process:
        for _ in range(50):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait(TIME_OUT)
    assert (tmp_path / f"looptrap.db{left}").exists()
    path.unlink()
    history = keep()
    assert history.incidents().items == []
    history.put([incident(1)])
    assert ok(history)


def ok(history):
    with history._database.read() as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
