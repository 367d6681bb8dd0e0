"""What fleets of 10 and 100 gateways need: the whole is simulated, by measured figures of parts.

python -m bench.scale [--measure] [--seconds 0.5] [--seed 1]

Each gateway is one event loop: it takes all calls and replies that have come, works on them, and
sends one script to each shard at the end of its turn. Each shard is one thread that runs scripts in
their order. `--measure` first measures what scripts and connections cost a Valkey on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from pathlib import Path
from random import Random

import uvloop

from bench import store, valkey
from looptrap.store.redis import RedisStore

TIMEOUT = 0.05
"""Seconds after which a gateway counts alone: the default of `store_timeout`."""
CONNECT_TIMEOUT = 1.0
"""Seconds for a gateway to connect again, and between two attempts."""
PAYERS = 2_000
FULLEST = 0.6
"""The load at which gateways and shards are planned."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What the parts cost, in seconds: docs/scale.md says how each was measured."""

    gateway: float = 130e-6
    """CPU of a gateway for a call, half of it before the store is asked."""
    script: float = 45e-6
    """CPU of a shard for a script, without its operations, and …"""
    call: float = 30e-6
    """… for the operations of one call."""
    connect: float = 150e-6
    """CPU of a shard for a connection: the script, and a hit to see that it counts."""
    wire: float = 250e-6
    """One way between gateway and shard, in one zone."""


@dataclass
class Shard:
    """One thread, which is free again at some time."""

    free: float = 0.0
    busy: float = 0.0

    def run(self, at: float, seconds: float) -> float:
        """Run something that arrives at a time; return when it is done."""
        self.free = max(self.free, at) + seconds
        self.busy += seconds
        return self.free


@dataclass
class Gateway:
    """One event loop, and what has come since its last turn."""

    calls: deque[tuple[float, int]] = field(default_factory=deque)
    """When each came, and the shard of its payer."""
    replies: int = 0
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulated fleet did."""

    gateways: int
    shards: int
    calls: int
    rate: float
    batch: float
    """Calls that shared a script, on average."""
    fullest_shard: float
    """The load of the busiest shard."""
    p50: float
    """Seconds that calls waited for the store, and …"""
    p99: float
    late: int
    """… how many waited longer than `store_timeout`."""


def simulate(
    figures: Figures, gateways: int, shards: int, rate: float, seconds: float, rng: Random
) -> Outcome:
    """Let a fleet serve calls at a rate, of payers that are spread over the shards."""
    homes = [rng.randrange(shards) for _ in range(PAYERS)]
    fleet, servers = [Gateway() for _ in range(gateways)], [Shard() for _ in range(shards)]
    events: list[tuple[float, int, int, tuple[float, ...]]] = []
    order = iter(range(1 << 60))
    waits: list[float] = []
    scripts = calls = 0

    def schedule(at: float, who: int, came: tuple[float, ...]) -> None:
        heappush(events, (at, next(order), who, came))

    def turn(who: int, now: float) -> None:
        nonlocal scripts
        gateway = fleet[who]
        if gateway.is_busy or not (gateway.calls or gateway.replies):
            return
        half = figures.gateway / 2
        ends = now + half * (len(gateway.calls) + gateway.replies)
        batches: dict[int, list[float]] = {}
        for _, home in gateway.calls:
            batches.setdefault(home, []).append(ends)
        gateway.calls.clear()
        gateway.replies, gateway.is_busy = 0, True
        for home, asked in batches.items():
            took = figures.script + figures.call * len(asked)
            done = servers[home].run(ends + figures.wire, took) + figures.wire
            waits.extend(done - at for at in asked)
            scripts += 1
            schedule(done, who, tuple(asked))
        schedule(ends, who, ())

    arrival = 0.0
    while (arrival := arrival + rng.expovariate(rate)) < seconds:
        calls += 1
        schedule(arrival, rng.randrange(gateways), (-1.0, rng.choice(homes)))
    while events:
        now, _, who, came = heappop(events)
        gateway = fleet[who]
        if not came:
            gateway.is_busy = False
        elif came[0] < 0:
            gateway.calls.append((now, int(came[1])))
        else:
            gateway.replies += len(came)
        turn(who, now)
    waits.sort()
    return Outcome(
        gateways=gateways,
        shards=shards,
        calls=calls,
        rate=rate,
        batch=calls / scripts,
        fullest_shard=max(one.busy for one in servers) / seconds,
        p50=waits[len(waits) // 2],
        p99=waits[len(waits) * 99 // 100],
        late=sum(wait > TIMEOUT for wait in waits),
    )


def planned_shards(figures: Figures, gateways: int) -> int:
    """Return how many shards a fleet needs, if no call shared a script."""
    rate = gateways * FULLEST / figures.gateway
    return max(1, -(-int(rate * (figures.script + figures.call) * 100) // int(FULLEST * 100)))


def fleets(figures: Figures, seconds: float, rng: Random) -> Iterator[str]:
    """Yield what fleets need, and how long calls wait in them."""
    yield (
        f"{'gateways':>8}{'calls/s':>10}{'shards':>8}{'calls a script':>16}"
        f"{'fullest shard':>15}{'p50 ms':>8}{'p99 ms':>8}{'alone':>8}"
    )
    for gateways in (2, 10, 100):
        rate = gateways * FULLEST / figures.gateway
        planned = planned_shards(figures, gateways)
        for shards in sorted({1, max(1, planned // 2), planned, 2 * planned}):
            if rate * figures.call / shards > 1:
                continue  # its queue would grow without end
            one = simulate(figures, gateways, shards, rate, seconds, rng)
            yield (
                f"{gateways:>8}{rate:>10.0f}{shards:>8}{one.batch:>16.2f}{one.fullest_shard:>15.0%}"
                f"{one.p50 * 1e3:>8.2f}{one.p99 * 1e3:>8.2f}{one.late / one.calls:>8.1%}"
            )


def reconnections(figures: Figures, gateways: int) -> tuple[int, float]:
    """Return in how many attempts all gateways reach a shard that is back, and after which time.

    All lost it at the same moment, so all attempts are made at the same moments.
    """
    each_attempt = int(CONNECT_TIMEOUT / figures.connect)
    attempts = -(-gateways // each_attempt)
    rest = gateways - (attempts - 1) * each_attempt
    return attempts, (attempts - 1) * CONNECT_TIMEOUT + rest * figures.connect


def storms(figures: Figures) -> Iterator[str]:
    """Yield how long it takes until all gateways count together again."""
    yield f"{'gateways':>8}{'attempts':>10}{'all are back after':>20}"
    for gateways in (10, 100, 1_000, 10_000):
        attempts, seconds = reconnections(figures, gateways)
        yield f"{gateways:>8}{attempts:>10}{seconds:>18.2f} s"


# Regions

TRAFFIC = {
    "even": ((1, 1, 1), (1, 1, 1)),
    "50, 30, 20 %": ((5, 3, 2), (5, 3, 2)),
    "90, 5, 5 %": ((90, 5, 5), (90, 5, 5)),
    "one region fails at half-time": ((1, 1, 1), (0, 1, 1)),
}
"""The calls of a payer by region, in the first and in the second half of a period."""


def spend(
    limits: Sequence[float], traffic: tuple[Sequence[int], Sequence[int]], calls: int, rng: Random
) -> float:
    """Make calls of 1 where regions keep budgets of their own; return how many passed."""
    used = [0.0] * len(limits)
    for number in range(calls):
        weights = traffic[2 * number // calls]
        region = rng.choices(range(len(limits)), weights)[0]
        if used[region] + 1 <= limits[region]:
            used[region] += 1
    return sum(used)


def regions(rng: Random, limit: int = 1_000) -> Iterator[str]:
    """Yield by how much budgets are passed, or refused too early, in three regions."""
    shares = {"whole budget in each": [limit] * 3, "a third in each": [limit / 3] * 3}
    yield f"{'':<24}{'traffic':<32}{'wanted 90 %':>12}{'wanted 300 %':>14}"
    for name, limits in shares.items():
        for kind, traffic in TRAFFIC.items():
            found = [spend(limits, traffic, int(limit * want), rng) / limit for want in (0.9, 3)]
            yield f"{name:<24}{kind:<32}{found[0]:>12.0%}{found[1]:>14.0%}"


# Measuring


def measured(figures: Figures, seconds: float = 1.5) -> Figures:
    """Return the figures with what a Valkey here takes for a script and a connection."""
    with tempfile.TemporaryDirectory() as folder, valkey.single(Path(folder)) as server:
        alone, together = (_hit_cost(server, in_flight, seconds) for in_flight in store.IN_FLIGHT)
        size = store.IN_FLIGHT[1]
        hit = (together * size - alone) / (size - 1)
        count, before = 200, server.cpu()
        uvloop.run(_connect(server.url, count))
        connect = (server.cpu() - before) / count
    return replace(figures, script=max(0.0, alone - hit), connect=connect)


def _hit_cost(server: valkey.Valkey, in_flight: int, seconds: float) -> float:
    """Return the least CPU seconds of a server for a hit, of three rounds."""
    costs = []
    for _ in range(3):
        before = server.cpu()
        done = uvloop.run(store.ours(server.url, in_flight, seconds))
        costs.append((server.cpu() - before) / done)
    return min(costs)


async def _connect(url: str, times: int) -> None:
    for _ in range(times):
        one = RedisStore(url, timeout=5)
        await one.start()
        await one.stop()
        await asyncio.sleep(0)


def main() -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="measure scripts and connections")
    parser.add_argument("--seconds", type=float, default=0.5, help="simulated time of a fleet")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    figures, rng = Figures(), Random(given.seed)
    if given.measure:
        figures = measured(figures)
    shown = (f"{name} {getattr(figures, name) * 1e6:.0f} µs" for name in Figures.__slots__)
    print(f"figures: {', '.join(shown)}")
    for title, lines in (
        ("fleets at 60 % of their CPU", fleets(figures, given.seconds, rng)),
        ("connections after a failover", storms(figures)),
        ("budgets in three regions: what passed, of the limit", regions(rng)),
    ):
        began = time.monotonic()
        print(f"\n{title}")
        for line in lines:
            print(line)
        print(f"(simulated in {time.monotonic() - began:.1f} s)")


if __name__ == "__main__":
    main()
