"""What a shared store costs: gateways on a Valkey, compared with one that counts in memory."""

from __future__ import annotations

import http.client
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.request import urlopen

from bench import rig, valkey
from bench.bodies import alike, encoded, small
from bench.rig import PartFailedError, Proxy
from bench.table import Round
from bench.valkey import Valkey

AIMED_RATIO = 1.5
"""The most CPU time of a request with a shared store, as a multiple of that with memory."""
TIMEOUT = "5"
"""Time-out of the store in seconds: gateways must not count alone even on a busy machine."""
MANY = 32
"""Connections of the parallel load."""
EQUAL_CALLS = 2_000
CLIENTS = 4
"""Connections to each instance for the test of exactness."""

LoadRound = Callable[[Proxy, str, int], Round]
"""Loads a proxy with a body over that many connections, and measures its CPU time."""


BODIES: dict[str, Callable[[], dict[str, Any]]] = {"alike": alike, "small": small}
"""Prompts with equal ends, of which a store keeps the latest, and with different ends."""


class Cost(NamedTuple):
    """One round, and what it cost the store's servers: CPU microseconds and scripts a request."""

    round: Round
    server_us: float
    commands: float


@dataclass(slots=True)
class Line:
    """All rounds with one store and one load."""

    store: str
    body: str
    connections: int
    costs: list[Cost] = field(default_factory=list)

    @property
    def cpu_us(self) -> float:
        return min(cost.round.cpu_us for cost in self.costs)

    @property
    def spread(self) -> float:
        return median(cost.round.cpu_us for cost in self.costs) / self.cpu_us - 1

    def render(self, beside: Line) -> str:
        """Return the line as text, its CPU time compared with another's."""
        loads = [cost.round.load for cost in self.costs]
        p50 = min(load.p50 for load in loads)
        if failed := sum(load.refused + load.broken for load in loads):
            raise PartFailedError(f"INVALID: {failed} failed requests with {self.store}")
        rate = max(load.requests / load.seconds for load in loads)
        server = min(cost.server_us for cost in self.costs)
        commands = median(cost.commands for cost in self.costs)
        ratio = self.cpu_us / beside.cpu_us
        aim = ""
        if self.store == "valkey" and self.connections == MANY:
            aim = f"  {'reached' if ratio <= AIMED_RATIO else 'MISSED'} (≤ {AIMED_RATIO} ×)"
        return (
            f"{self.body:<9}{self.store:<9}{self.connections:>6}{rate:>9.0f}{p50:>9}"
            f"{self.cpu_us:>9.1f}{self.spread:>8.0%}{ratio:>10.2f}"
            f"{commands:>10.2f}{server:>11.1f}{aim}"
        )


HEAD = (
    f"{'body':<9}{'store':<9}{'conns':>6}{'req/s':>9}{'p50 µs':>9}"
    f"{'CPU µs':>9}{'spread':>8}{'× memory':>10}{'scripts':>10}{'server µs':>11}"
)


@contextmanager
def gateway(folder: Path, provider: Proxy, name: str, store: str, **env: str) -> Iterator[Proxy]:
    """Run a gateway with a store, set in its environment; fail if it ever counted alone."""
    told = {"LOOPTRAP_STORE": store, "LOOPTRAP_STORE_TIMEOUT": TIMEOUT, **env}
    own = folder / f"gateway-{name}"
    own.mkdir(parents=True)
    before = os.environ.copy()
    os.environ.update(told)
    with ExitStack() as stack:
        try:
            proxy = stack.enter_context(rig.looptrap(own, provider.port))
        finally:
            for variable in told:
                os.environ.pop(variable)
            os.environ.update({name: before[name] for name in told if name in before})
        yield proxy
        if errors := counter(proxy, "looptrap_store_errors_total"):
            raise PartFailedError(f"INVALID: {name} could not reach its store {errors:.0f} times")


def counter(proxy: Proxy, name: str) -> float:
    """Return a counter of a gateway."""
    with urlopen(f"http://127.0.0.1:{proxy.admin}/metrics", timeout=10) as metrics:
        for line in metrics.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    raise PartFailedError(f"the gateway has no metric {name}")


def compare(
    folder: Path,
    provider: Proxy,
    load: LoadRound,
    loads: Sequence[tuple[str, int]],
    rounds: int,
) -> Iterator[str]:
    """Measure a gateway with each store in turns; yield the results, line by line."""
    with ExitStack() as stack:
        servers: dict[str, Valkey | None] = {"memory": None}
        servers["valkey"] = stack.enter_context(valkey.single(folder))
        servers["cluster"] = stack.enter_context(valkey.cluster(folder))
        proxies = {
            name: stack.enter_context(
                gateway(folder, provider, name, server.url if server else "memory")
            )
            for name, server in servers.items()
        }
        yield from _footprint(proxies["valkey"], servers["valkey"], load)
        for proxy in proxies.values():
            load(proxy, *loads[0])  # what is made on first use is no request's cost
        lines = [Line(name, *one) for one in loads for name in servers]
        for _ in range(rounds):
            for line in lines:
                line.costs.append(_cost(proxies[line.store], servers[line.store], load, line))
        yield "CPU µs a request of the gateway: the least of the rounds, and how far the median is"
        yield "above; scripts a request, and the CPU µs of the servers that carry them out"
        yield HEAD
        beside = {(line.body, line.connections): line for line in lines if line.store == "memory"}
        for line in lines:
            yield line.render(beside[line.body, line.connections])


def _cost(proxy: Proxy, server: Valkey | None, load: LoadRound, line: Line) -> Cost:
    if server is None:
        return Cost(load(proxy, line.body, line.connections), 0.0, 0.0)
    cpu, commands = server.cpu(), server.commands()
    one = load(proxy, line.body, line.connections)
    requests = max(one.load.requests, 1)
    server_us = (server.cpu() - cpu) / requests * 1e6
    return Cost(one, server_us, (server.commands() - commands) / requests)


def _footprint(proxy: Proxy, server: Valkey | None, load: LoadRound) -> Iterator[str]:
    """Return what calls leave in a new server."""
    assert server is not None
    memory, keys = server.memory(), server.keys()
    requests = load(proxy, "small", MANY).load.requests
    memory, keys = server.memory() - memory, server.keys() - keys
    yield (
        f"memory: {memory / keys:.0f} bytes a key, {keys / requests:.2f} keys and"
        f" {memory / requests:.0f} bytes a call that was like no other ({requests:,} calls)"
    )


def together(
    folder: Path, provider: Proxy, load: LoadRound, instances: int, rounds: int
) -> Iterator[str]:
    """Measure several instances on one Valkey and a single one; yield the results, line by line."""
    with valkey.single(folder) as server, ExitStack() as stack:
        proxies = [
            stack.enter_context(gateway(folder, provider, f"instance-{number}", server.url))
            for number in range(instances)
        ]
        for proxy in proxies:
            os.sched_setaffinity(proxy.process.pid, rig.cores())  # each where there is room
        alone: list[tuple[float, float]] = []
        all_of_them: list[tuple[float, float]] = []
        for _ in range(rounds):
            alone.append(_rate(proxies[:1], load))
            all_of_them.append(_rate(proxies, load))
        for name, found in (("1", alone), (f"{instances}", all_of_them)):
            rate, cpu_us = max(one[0] for one in found), min(one[1] for one in found)
            yield f"{name:>3} process(es): {rate:>8.0f} req/s {cpu_us:>8.1f} CPU µs a request"
        pairs = zip(alone, all_of_them, strict=True)
        ratios = [both[0] / one[0] for one, both in pairs]
        yield (
            f"throughput of {instances} beside 1, round by round: {min(ratios):.2f} to"
            f" {max(ratios):.2f} × ({len(rig.cores())} cores for load, provider, store and all)"
        )
    with valkey.single(folder / "exact") as server:
        yield _exactness(folder, provider, server, instances)


def _rate(proxies: Sequence[Proxy], load: LoadRound) -> tuple[float, float]:
    """Load all at once over many connections; return requests a second, and CPU µs for each."""
    with ThreadPoolExecutor(len(proxies)) as pool:
        rounds = list(pool.map(lambda proxy: load(proxy, "small", MANY // len(proxies)), proxies))
    requests = sum(one.load.requests for one in rounds)
    seconds = max(one.load.seconds for one in rounds)
    cpu = sum(one.user + one.system for one in rounds)
    return requests / seconds, cpu / requests * 1e6


def _exactness(folder: Path, provider: Proxy, server: Valkey, instances: int) -> str:
    """Send one call over and over to all instances: the one after the last to pass is refused."""
    each = EQUAL_CALLS // (instances * CLIENTS)
    passing = each * instances * CLIENTS
    told = {"LOOP_GUARD_MAX_HITS": str(passing), "LOOP_GUARD_WINDOW_SECONDS": "600"}
    with ExitStack() as stack:
        proxies = [
            stack.enter_context(gateway(folder, provider, f"exact-{number}", server.url, **told))
            for number in range(instances)
        ]
        with ThreadPoolExecutor(instances * CLIENTS) as pool:
            sent = pool.map(lambda proxy: _send(proxy, each), proxies * CLIENTS)
            refused = sum(status != 200 for statuses in sent for status, _ in statuses)
        answers = [_send(proxy, 1)[0] for proxy in proxies]
    expected = [(429, str(passing + 1 + number)) for number in range(instances)]
    if refused or answers != expected:
        raise PartFailedError(f"WRONG: {refused} refused of {passing}, then {answers}")
    return f"{passing:,} equal calls to {instances} instances: all passed, {passing + 1:,} refused"


def _send(proxy: Proxy, times: int) -> list[tuple[int, str | None]]:
    """Send the same call that many times; return the statuses and the reported counts."""
    body, headers = encoded(small()), {"Authorization": "Bearer sk-x"}
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
    found = []
    for _ in range(times):
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        answer.read()
        found.append((answer.status, answer.getheader("X-Looptrap-Count")))
    connection.close()
    return found
