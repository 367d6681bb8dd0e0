"""What does a fleet that brings 10,000 calls a second cost PostgreSQL, and each gateway?

python -m bench.written [--gateways 10] [--rate 10000] [--seconds 20] [--per-second 100]

Each gateway is a process that records calls as a gateway does, without judging or forwarding them:
usage of each, a row in the log for each or for some, incidents of a few. Needs PostgreSQL.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

import psycopg

from bench import postgres
from bench.history import incident
from bench.rig import PATIENCE, MissingPartError
from looptrap.dialect.model import Outcome, Usage
from looptrap.incident.history import HistoryWriter, IncidentHistory, WriteBatch
from looptrap.incident.history.history import SpoolSettings
from looptrap.incident.model import Incident
from looptrap.incident.setting import IncidentSettings
from looptrap.usage.call_log import CallLogSettings, CallRow, CallSampler
from looptrap.usage.model import UsageBatch
from looptrap.usage.recorder import UsageAccumulator

TICK = 0.01
"""Seconds between two lots of calls."""

FLUSH_S = 1.0
"""Seconds between two flushes of usage, as in the gateway."""

CALLERS, SESSIONS, MODELS = 500, 2_000, 4

INCIDENT_EVERY = 500
"""One incident for so many calls."""

OUTCOME = Outcome(200, Usage(12_000, 800), False, 43_000_000)


class Recorder:
    """Records calls, and hands them to the writer's thread."""

    def __init__(self, per_second: int, number: int) -> None:
        self._usage = UsageAccumulator()
        self._sampler = CallSampler(per_second, Random(number))
        self._random = Random(number)
        self._number = number * 100_000_000
        self._calls: deque[CallRow] = deque()
        self._usages: deque[UsageBatch] = deque()
        self._incidents: deque[Incident] = deque()
        self._next_flush = 0.0

    def record(self, now: float) -> None:
        """Record a call."""
        self._number += 1
        run = self._random.randrange(SESSIONS)
        caller, session = f"key-{run % CALLERS}", f"session-{run}"
        model = f"model-{run % MODELS}"
        self._usage.add(now, caller, "project", "openai", model, OUTCOME, session)
        if weight := self._sampler.take(now):
            self._calls.append(CallRow(
                now, weight, caller, "project", session, "claude-code", model, "openai",
                "openai_chat", 200, "allow", "", "", "", "", 12_000, 800, 0, False, 43_000_000,
                1.5, 0.4, True, False, f"req-{self._number}",
            ))  # fmt: skip
        if not self._number % INCIDENT_EVERY:
            one = incident(self._number, "random")
            one.opened = one.last = now
            self._incidents.append(one)
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_S
            self._usages.append(self._usage.take())

    def flush(self) -> None:
        """Hand over the usage that is left."""
        self._usages.append(self._usage.take())

    def work(self, _now: float) -> WriteBatch:
        """Return what was recorded since the last time."""
        usage = UsageBatch()
        for _ in range(len(self._usages)):
            usage.add(self._usages.popleft())
        incidents = [self._incidents.popleft() for _ in range(len(self._incidents))]
        calls = [self._calls.popleft() for _ in range(len(self._calls))]
        return WriteBatch(incidents, spending=usage, calls=calls)


def play(url: str, number: int, rate: float, seconds: float, per_second: int) -> dict[str, Any]:
    """Record calls at a rate; return what it took."""
    with tempfile.TemporaryDirectory(prefix="written-") as folder:
        history = IncidentHistory(
            url,
            IncidentSettings(),
            CallLogSettings(per_second=per_second, max_rows=100_000_000),
            spool=SpoolSettings(folder),
        )
        history.open()
        recorder = Recorder(per_second, number)
        writer = HistoryWriter(history, recorder.work)
        writer.start()
        print("ready", flush=True)
        sys.stdin.readline()
        began, done, most = time.monotonic(), 0, 0
        began_all, began_own = time.process_time(), time.thread_time()
        while (passed := time.monotonic() - began) < seconds:
            now = time.time()
            for _ in range(int(rate * passed) - done):
                recorder.record(now)
                done += 1
            most = max(most, history.spool.waiting if history.spool else 0)
            time.sleep(TICK)
        recorder.flush()
        writer.stop()
        took = time.monotonic() - began
        used = (time.process_time() - began_all) - (time.thread_time() - began_own)
        history.close()
        return {
            "calls": done, "seconds": took, "cpu": used, "most": most,
            "lost": writer.lost + (history.spool.lost if history.spool else 0),
            "failed": writer.failed,
        }  # fmt: skip


def written(client: psycopg.Connection) -> dict[str, int]:
    """Return how many rows were inserted or changed in each table."""
    tables = ["call_log", "spending", "session", "part", "incident"]
    return dict(
        client.execute(
            "SELECT relname::text, n_tup_ins + n_tup_upd FROM pg_stat_user_tables"
            " WHERE relname = ANY(%s)",
            (tables,),
        ).fetchall()
    )


def run(server: postgres.Postgres, options: argparse.Namespace) -> None:
    """Let all gateways record at once; print what came of it."""
    command = [sys.executable, "-m", "bench.written", "--play"]
    rate = options.rate / options.gateways
    processes = [
        subprocess.Popen(
            [*command, json.dumps([server.url, n, rate, options.seconds, options.per_second])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for n in range(options.gateways)
    ]  # fmt: skip
    for one in processes:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    with server.client() as client:
        before, began_cpu, began = written(client), server.cpu(), time.monotonic()
        for one in processes:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        time.sleep(options.seconds)
        cpu = server.cpu() - began_cpu  # before the connections end, whose time it would lose
        found = [json.loads(one.communicate(timeout=4 * PATIENCE)[0]) for one in processes]
        took = time.monotonic() - began
        after = written(client)
        [(spent,)] = client.execute("SELECT sum(calls) FROM spending").fetchall()
    report(found, {name: after[name] - before[name] for name in after}, cpu, took, int(spent))


def report(
    found: Sequence[dict[str, Any]], made: dict[str, int], cpu: float, took: float, spent: int
) -> None:
    """Print the figures."""
    calls = sum(one["calls"] for one in found)
    rate = sum(one["calls"] / one["seconds"] for one in found)
    print(f"{len(found)} gateways, {rate:,.0f} calls a second, {calls:,} calls in {took:.1f} s")
    for table, number in made.items():
        print(f"{table + ', rows a second':<44}{number / took:>10,.0f}")
    used = sum(one["cpu"] for one in found)
    print(f"{'CPU of the gateways, to write, µs a call':<44}{1e6 * used / calls:>10.1f}")
    print(f"{'CPU of PostgreSQL, µs a call':<44}{1e6 * cpu / calls:>10.1f}")
    print(f"{'most batches that waited in one spool':<44}{max(one['most'] for one in found):>10}")
    for what in ("lost", "failed"):
        print(f"{what:<44}{sum(one[what] for one in found):>10}")
    print(f"{'calls missing in the sums':<44}{calls - spent:>10}")


def main() -> int:
    """Run, print the figures, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gateways", type=int, default=10)
    parser.add_argument("--rate", type=float, default=10_000, help="calls a second of all")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--per-second", type=int, default=100, help="`call_log.per_second`")
    parser.add_argument("--play", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        print(json.dumps(play(*json.loads(options.play))))
        return 0
    try:
        with postgres.running() as server:
            run(server, options)
    except MissingPartError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
