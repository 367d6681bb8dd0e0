"""What judging a call costs (read + plan + hit + judge), compared with `json.loads` of its body;
and what pricing its usage costs, compared with `json.loads` of a small body.

python -m bench.core [--preset default] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from bench.bodies import BODIES, UNIQUE, agent_run, encoded
from bench.figure import Figure
from looptrap.detect.window import Window
from looptrap.dialect.model import Request, Usage
from looptrap.dialect.registry import read
from looptrap.engine import Guard, Transaction
from looptrap.money.price import Prices
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Hit

HEADERS = [
    (b"host", b"127.0.0.1:4100"),
    (b"content-type", b"application/json"),
    (b"accept", b"*/*"),
    (b"user-agent", b"OpenAI/Python 3.49.0"),
    (b"authorization", b"Bearer sk-caller-001"),
    (b"x-stainless-retry-count", b"0"),
]


def judge_all(preset: str, bodies: list[bytes]) -> Callable[[], None]:
    """Return a run over the bodies, in order, as the gateway would make it."""

    def run() -> None:
        guard = Guard.from_preset(preset, secret=b"bench")
        now = 1_800_000_000.0
        for body in bodies:
            now += 0.001
            request = Request("POST", "/v1/chat/completions", "", HEADERS, body, "caller")
            guard.settle(Transaction(guard, read(request)).judge_by(guard.store, now))

    return run


def rounds_us(
    runs: Sequence[Callable[[], None]], calls: int, rounds: int = 7
) -> list[tuple[float, ...]]:
    """Return the CPU microseconds of a call for each run, in turns, so that noise affects all."""
    found = []
    for _ in range(rounds):
        times = []
        for run in runs:
            started = time.process_time()
            run()
            times.append((time.process_time() - started) / calls * 1e6)
        found.append(tuple(times))
    return found


def cpu_us(run: Callable[[], None], calls: int, rounds: int = 7) -> float:
    """Return the least CPU microseconds of a call over several rounds: the rest is noise."""
    return min(time for (time,) in rounds_us([run], calls, rounds))


def loads_all(bodies: list[bytes]) -> Callable[[], None]:
    def run() -> None:
        for body in bodies:
            json.loads(body)

    return run


USAGES = {"plain": Usage(1200, 340), "cached": Usage(48_000, 900, 40_000, 400, 2_000)}


def price_all(usage: Usage, calls: int) -> Callable[[], None]:
    """Return a run that looks up the price of a call and computes its cost."""
    prices, now = Prices(), 1_800_000_000.0

    def run() -> None:
        for _ in range(calls):
            price = prices.of("gpt-5.4-mini", "openai", now)
            assert price is not None
            price.cost(usage)

    return run


def bytes_a_fingerprint(keys: int = 500_000) -> float:
    """Return the bytes of memory that one fingerprint takes in this process."""
    made = [number.to_bytes(16, "big") for number in range(keys)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    store, window = MemoryStore(), Window(60)
    for key in made:
        store.hit([Hit(bytes(bytearray(key)), window)], 1_800_000_000.0)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / keys


class Judged(NamedTuple):
    """The cost to judge and to decode one body."""

    body: str
    size: int
    judged: float
    loaded: float
    spread: float
    judge: Callable[[], None]


AGENT_RUNS = 8


def samples() -> Iterator[tuple[str, list[bytes]]]:
    """Yield kinds of bodies, each with bodies to judge in order.

    Each body is new, except in agent runs: there a request continues the one before.
    """
    for name, make in BODIES.items():
        body = make()
        calls = max(20, min(2_000, 20_000_000 // len(body)))
        yield name, [body.replace(UNIQUE.encode(), b"%016d" % n) for n in range(calls)]
    yield "agent run", [encoded(body) for seed in range(AGENT_RUNS) for body in agent_run(seed)]


def judged(preset: str) -> Iterator[Judged]:
    """Measure every kind of body."""
    for name, bodies in samples():
        calls = len(bodies)
        judge = judge_all(preset, bodies)
        rounds = rounds_us([judge, loads_all(bodies)], calls)
        best, loaded = (min(times) for times in zip(*rounds, strict=True))
        spread = median(times[0] for times in rounds) / best - 1
        yield Judged(name, sum(map(len, bodies)) // calls, best, loaded, spread, judge)


def figures() -> Iterator[Figure]:
    """Yield the figures of the report."""
    size = bytes_a_fingerprint()
    yield Figure(part="core", name="bytes a fingerprint", value=size, unit="B", aim=250)
    for one in judged("default"):
        ratio, name = one.judged / one.loaded, f"judging {one.body} ÷ json.loads of it"
        yield Figure(part="core", name=name, value=ratio, spread=one.spread, tolerance=0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    options = parser.parse_args()

    print(f"bytes a tracked fingerprint: {bytes_a_fingerprint():.0f}\n")
    print(f"preset {options.preset}; CPU µs a call, the least of 7 rounds")
    print(f"{'body':<10}{'bytes':>10}{'judged':>10}{'json.loads':>12}{'ratio':>8}")
    for one in judged(options.preset):
        ratio = one.judged / one.loaded
        print(f"{one.body:<10}{one.size:>10}{one.judged:>10.1f}{one.loaded:>12.1f}{ratio:>8.2f}")
        if options.profile:
            profile = cProfile.Profile()
            profile.runcall(one.judge)
            pstats.Stats(profile).sort_stats("tottime").print_stats(14)

    calls, small = 20_000, BODIES["small"]()
    loaded = cpu_us(loads_all([small] * calls), calls)
    print(f"\n{'usage':<18}{'priced':>10}{'json.loads':>12}{'ratio':>8}")
    for name, usage in USAGES.items():
        priced = cpu_us(price_all(usage, calls), calls)
        print(f"{name:<18}{priced:>10.2f}{loaded:>12.2f}{priced / loaded:>8.2f}")


if __name__ == "__main__":
    main()
