"""One view of many gateways: is each page of the dashboard quick in 90 days of 50 of them?

python -m bench.view [--incidents N] [--spending N] [--calls N] [--times 20] [--json FILE]

Fills a temporary PostgreSQL with what 50 gateways leave in 90 days (10 GB, about ten minutes),
starts a gateway on it, and asks for what the pages of the dashboard ask for. Needs PostgreSQL.
Exits with 1 if the 95th percentile of a page is above 300 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg

from bench import postgres
from bench.history import incident
from bench.rig import PATIENCE, MissingPartError, PartFailedError
from looptrap.database.postgres import PostgresDatabase
from looptrap.incident.history.incident_table import PART_COLUMNS, incident_row, part_row
from looptrap.usage.call_log import CallRow
from looptrap.usage.table import SPENDING_COLUMNS

INSTANCES, DAYS, CALLERS = 50, 90, 2_000

OPEN = 200
"""Incidents that are open."""

HOUR_S, DAY_S = 3_600, 86_400

LIMIT_MS = 300
"""The 95th percentile that a page may take."""

SERVER = (
    "shared_buffers=1GB", "maintenance_work_mem=512MB", "effective_cache_size=4GB",
    "max_wal_size=4GB", "checkpoint_timeout=30min", "random_page_cost=1.1", "fsync=off",
)  # fmt: skip
"""Settings for a machine with fast disks and some memory; fsync does not matter to reads."""


def fill(client: psycopg.Connection, wanted: argparse.Namespace, now: int) -> dict[str, int]:
    """Make the rows; return how many of each table."""
    # Indexes made at the end are made faster, and are as dense as those of a table that has grown.
    indexes = client.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
        " AND tablename IN ('call_log', 'part', 'incident') AND indexname NOT LIKE '%pkey'"
    ).fetchall()
    for name, _ in indexes:
        client.execute(f"DROP INDEX {name}")
    made = {
        "incident": timed("incidents", lambda: fill_incidents(client, wanted.incidents, now)),
        "spending": timed("spending", lambda: fill_spending(client, wanted.spending, now)),
        "call_log": timed("calls", lambda: fill_calls(client, wanted.calls, now)),
    }
    timed("indexes", lambda: [client.execute(definition) for _, definition in indexes])
    timed("statistics", lambda: client.execute("VACUUM ANALYZE"))
    return made


def timed(what: str, action: Any) -> Any:
    """Do it, and say how long it took."""
    began = time.monotonic()
    done = action()
    print(f"  {what}: {time.monotonic() - began:.0f} s", flush=True)
    return done


def fill_incidents(client: psycopg.Connection, number: int, now: int) -> int:
    """Make incidents as a gateway writes them, of all times, models and callers."""
    chance = random.Random(1)
    names = ", ".join(f'"{one}"' for one in PART_COLUMNS)
    rows = []
    with client.cursor() as cursor:
        with cursor.copy(f"COPY part ({names}) FROM STDIN") as copy:
            for n in range(number):
                one = incident(n, "ordered")
                opened = now - DAYS * DAY_S * (1 - (n + 1) / number)
                last = min(opened + chance.expovariate(1 / 300), now - 1.0)
                one.id = f"{int(opened * 1000):011x}{one.id[-13:]}"
                one.instance = f"{n % INSTANCES:016x}.1"
                one.opened, one.last = opened, last
                one.closed = None if n >= number - OPEN else last + 300
                one.caller, one.model = f"key-{int(chance.paretovariate(1)) % CALLERS}", model(n)
                one.project = f"project-{n % 20}"
                one.rule = f"rule-{n % 12}"
                one.calls, one.refused = 8, n % 40
                copy.write_row(part_row(one))
                rows.append(incident_row([one]))
        names = (
            "id, caller, project, session, rule, model, rules, opened, last, closed, hits, calls,"
            " refused, cost, saved"
        )
        with cursor.copy(f"COPY incident ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    return number


def model(number: int) -> str:
    return f"model-{number % 8}"


_FIGURES = (
    "1 + n % 7, n % 2, 0, 0, 12000 + n % 900, 800 + n % 90,"
    " (40000000 + n * 7919 % 9000000)::bigint, 0, 0, (n % 2) * 30000000::bigint, 0"
)


def fill_spending(client: psycopg.Connection, number: int, now: int) -> int:
    """Make a row for each key and hour, and for the last two days for each minute and process."""
    columns = ", ".join(SPENDING_COLUMNS)
    since = (now - 2 * DAY_S) // HOUR_S * HOUR_S
    hours = (DAYS - 2) * 24
    keys = int(number * 0.64 / hours)
    minutes = (now - since) // 60
    each = max(1, round(number * 0.36 / minutes / INSTANCES))
    callers = min(CALLERS, max(keys // 3, 1))

    def key(n: str) -> str:
        return (
            f"'key-' || ({n}) % {callers}, 'project-' || ({n}) % 20,"
            f" 'provider-' || ({n}) / {callers} % 3, 'model-' || ({n}) / {callers} % 8"
        )

    client.execute(
        f"INSERT INTO spending ({columns}) SELECT {since} - hour * {HOUR_S}, '', {key('n')},"
        f" {_FIGURES} FROM generate_series(1, {hours}) hour, generate_series(0, {keys - 1}) n"
        " ORDER BY 1"
    )
    spread = f"(minute * 7919 + instance * 104729 + k * 15485863) % {keys}"
    client.execute(
        f"INSERT INTO spending ({columns}) SELECT {since} + minute * 60,"
        f" lpad(to_hex(instance), 16, '0'), {key('n')}, {_FIGURES} FROM (SELECT minute, instance,"
        f" {spread} AS n FROM generate_series(0, {minutes - 1}) minute,"
        f" generate_series(1, {INSTANCES}) instance, generate_series(1, {each}) k) made"
        " ON CONFLICT DO NOTHING"
    )
    [(made,)] = client.execute("SELECT count(*) FROM spending").fetchall()
    return int(made)


def fill_calls(client: psycopg.Connection, number: int, now: int) -> int:
    """Make logged calls, one in two hundred refused."""
    values = {
        "time": f"{now} - {DAYS * DAY_S}.0 * (1 - (n + 1.0) / {number})",
        "weight": "1", "caller": f"'key-' || n * 7919 % {CALLERS}",
        "project": "'project-' || n % 20", "session": "'session-' || n / 40",
        "agent": "'claude-code'", "model": "'model-' || n % 8", "provider":
        "CASE WHEN n % 200 = 0 THEN '' ELSE 'provider-' || n % 3 END", "dialect": "'openai_chat'",
        "status": "CASE WHEN n % 200 = 0 THEN 429 WHEN n % 97 = 0 THEN 502 ELSE 200 END",
        "verdict": "CASE WHEN n % 200 = 0 THEN 'block' ELSE 'allow' END", "shadow": "''",
        "reason": "CASE WHEN n % 200 = 0 THEN 'recursive_loop_detected' ELSE '' END",
        "policy": "''", "rule": "CASE WHEN n % 200 = 0 THEN 'rule-' || n / 200 % 12 ELSE '' END",
        "input_tokens": "12000 + n % 900", "output_tokens": "800 + n % 90", "cached_tokens": "0",
        "is_estimated": "false", "cost": "40000000 + n * 7919 % 9000000",
        "latency": "1 + n % 50 / 10.0", "first_byte": "0.4", "is_stream": "true",
        "is_cut_off": "false", "request_id": "'req-' || n",
    }  # fmt: skip
    assert tuple(values) == CallRow._fields
    client.execute(
        f"INSERT INTO call_log ({', '.join(values)}) SELECT {', '.join(values.values())}"
        f" FROM generate_series(0::bigint, {number - 1}) n"
    )
    return number


def pages(client: psycopg.Connection, now: int) -> dict[str, str]:
    """Return the path of each thing that pages ask for."""
    [(incident_id,)] = client.execute("SELECT id FROM incident ORDER BY opened DESC LIMIT 1")
    [(session, caller)] = client.execute(
        "SELECT session, caller FROM call_log ORDER BY number DESC LIMIT 1"
    )

    def ago(seconds: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - seconds))

    def path(place: str, **query: Any) -> str:
        return f"/api/v1/{place}?{urlencode(query)}"

    hour, day, week, month = HOUR_S, DAY_S, 7 * DAY_S, 30 * DAY_S
    found = {
        "overview: 1 h": path("stats", since=ago(hour), step=60),
        "overview: 24 h": path("stats", since=ago(day), step=300),
        "overview: 7 d": path("stats", since=ago(week), step=3600),
        "overview: open incidents": path("incidents", state="open", limit=100),
        "caller: 7 d": path("stats", caller=caller, since=ago(week), step=3600),
        "caller: its models, 7 d": path("spending", by="model", caller=caller, since=ago(week)),
        "caller: its incidents": path("incidents", caller=caller, state="all", limit=8),
        "caller: its calls": path("calls", caller=caller, limit=8),
        "session: its calls": path("calls", session=session, limit=8),
    }
    for by in ("caller", "project", "model", "provider"):
        for name, seconds, step in (
            ("24 h", day, 1800),
            ("7 d", week, 10800),
            ("30 d", month, day),
        ):
            query = {"by": by, "since": ago(seconds), "step": step, "utc_offset": 7200}
            found[f"spending: by {by}, {name}"] = path("spending", **query)
    found |= {
        "spending: by caller, 90 d": path(
            "spending", by="caller", since=ago(90 * day), step=day, utc_offset=7200
        ),
        "incidents: list of open": path("incidents", state="open"),
        "incidents: sums of open": path("incidents", state="open", group="all"),
        "incidents: list of all": path("incidents", state="all"),
        "incidents: sums of all": path("incidents", state="all", group="all"),
        "incidents: 7 d, sums": path("incidents", state="all", group="all", since=ago(week)),
        "incidents: the costliest of all": path("incidents", state="all", order="cost"),
        "incidents: by caller, all": path("incidents", state="all", group="caller", limit=100),
        "incidents: by rule, 7 d": path("incidents", state="all", group="rule", since=ago(week)),
        "incidents: of a caller": path("incidents", state="all", caller=caller),
        "incidents: of a rule": path("incidents", state="all", rule="rule-3"),
        "incidents: search, found": path("incidents", state="all", q="key-1"),
        "incidents: search, not found": path("incidents", state="all", q="nobody"),
        "incident": f"/api/v1/incidents/{incident_id}",
        "calls: list, 1 h": path("calls", since=ago(hour)),
        "calls: chart, 1 h": path("calls/series", since=ago(hour), step=60),
        "calls: list, 24 h": path("calls", since=ago(day)),
        "calls: chart, 24 h": path("calls/series", since=ago(day), step=300),
        "calls: chart, 7 d": path("calls/series", since=ago(week), step=3600),
        "calls: refused, 7 d": path("calls", since=ago(week), verdict="refused"),
        "calls: chart of refused, 7 d": path(
            "calls/series", since=ago(week), step=3600, verdict="refused"
        ),
        "calls: of a model, 24 h": path("calls", since=ago(day), model="model-3"),
        "calls: of a model that is not there, 24 h": path("calls", since=ago(day), model="x"),
        "alerts": path("alerts"),
        "breaches": path("breaches"),
        "audit": path("audit"),
        "status": path("status"),
    }  # fmt: skip
    return found


@contextmanager
def gateway(url: str, folder: Path) -> Iterator[int]:
    """Run a gateway on that history; yield the port of its admin address."""
    (folder / "looptrap.toml").write_text(
        "[gateway]\nallow_anonymous = true\n"
        f"[incidents]\nkeep = {(DAYS + 5) * DAY_S}\nmax_size = {1 << 40}\n"
        f"[call_log]\nkeep = {(DAYS + 5) * DAY_S}\nmax_rows = 100000000\n"
    )
    command = [
        str(Path(sys.executable).with_name("looptrap")), "serve", "--config", "looptrap.toml",
        "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--history", url,
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log,
            env={**os.environ, "LOOPTRAP_HISTORY_TIMEOUT": "60"},
        )  # fmt: skip
    try:
        until = time.monotonic() + PATIENCE
        while True:
            said = (folder / "log").read_text()
            if found := re.search(r"Dashboard +http://127\.0\.0\.1:([0-9]+)", said):
                break
            if process.poll() is not None or time.monotonic() > until:
                raise PartFailedError(f"the gateway did not start:\n{said}")
            time.sleep(0.05)
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(PATIENCE)


def until_rolled_up(client: psycopg.Connection) -> None:
    """Wait until the gateway has rolled up everything."""
    count = "SELECT count(*) FROM rollup WHERE dimension IN ('usage', 'calls')"
    before = -1
    while before != (number := client.execute(count).fetchall()[0][0]):
        before = number
        time.sleep(12)  # it looks every ten seconds


def ask(port: int, path: str) -> tuple[float, int]:
    """Return the milliseconds and bytes of an answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    began = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    took = (time.perf_counter() - began) * 1000
    connection.close()
    if answer.status != 200:
        raise PartFailedError(f"{path}: {answer.status} {body[:200]!r}")
    return took, len(body)


def measure(
    port: int, wanted: dict[str, str], times: int, cpu: Callable[[], float]
) -> dict[str, dict[str, float]]:
    """Return the median and the 95th percentile of each, in turns, and its mean CPU time.

    `cpu` returns the CPU seconds that PostgreSQL has used.
    """
    taken: dict[str, list[float]] = {name: [] for name in wanted}
    used = dict.fromkeys(wanted, 0.0)
    for turn in range(times + 1):
        for name, path in wanted.items():
            before = cpu()
            took, _ = ask(port, path)
            if turn:  # the first fills the caches
                taken[name].append(took)
                used[name] += cpu() - before
            if took > 20 * LIMIT_MS and turn:
                taken[name] += [took] * (times - len(taken[name]))
    return {
        name: {
            "p50": sorted(some)[len(some) // 2],
            "p95": sorted(some)[int(len(some) * 0.95)],
            "cpu": 1000 * used[name] / len(some),
        }
        for name, some in taken.items()
    }


def main() -> int:
    """Run, print the table, and return the exit status: 1 if a page is too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--incidents", type=int, default=1_000_000)
    parser.add_argument("--spending", type=int, default=15_000_000, help="rows of spending")
    parser.add_argument("--calls", type=int, default=10_000_000, help="rows of the log of calls")
    parser.add_argument("--times", type=int, default=20, help="how often each page is asked for")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    now = int(time.time())
    try:
        with (
            postgres.running(*SERVER) as server,
            tempfile.TemporaryDirectory(prefix="view-") as folder,
            server.client() as client,
        ):
            database = PostgresDatabase(server.url, "view", timeout=60)
            database.open()
            database.close()
            print(f"{DAYS} days of {INSTANCES} gateways:", flush=True)
            client.execute("SET synchronous_commit = off")
            made = fill(client, given, now)
            with gateway(server.url, Path(folder)) as port:
                timed("rollups", lambda: until_rolled_up(client))
                client.execute("VACUUM ANALYZE")
                [(made["rollup"],)] = client.execute("SELECT count(*) FROM rollup")
                found = measure(port, pages(client, now), given.times, server.cpu)
                load = os.getloadavg()[1]
            sizes = dict(
                client.execute(
                    "SELECT relname::text, pg_total_relation_size(oid) FROM pg_class WHERE relkind"
                    " = 'r' AND relnamespace = 'public'::regnamespace"
                ).fetchall()
            )
    except MissingPartError as error:
        print(error, file=sys.stderr)
        return 2
    for table, size in sorted(sizes.items(), key=lambda one: -one[1])[:6]:
        print(f"  {table:<12}{made.get(table, 0):>14,} rows{size / 1e6:>10,.0f} MB")
    print(f"\nload {load:.1f}\n{'page':<46}{'p50 ms':>9}{'p95 ms':>9}{'CPU ms':>9}")
    for name, one in found.items():
        figures = "".join(f"{one[what]:>9.0f}" for what in ("p50", "p95", "cpu"))
        print(f"{name:<46}{figures}{' !' * (one['p95'] > LIMIT_MS)}")
    if given.json:
        given.json.write_text(json.dumps({"made": made, "sizes": sizes, "pages": found}, indent=1))
    return int(any(one["p95"] > LIMIT_MS for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
