"""Results of the gateway's benchmark: rows, their ratios to nginx, and the aims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from bench.figure import Figure
from bench.rig import Load

NGINX, OURS, COMPILED = "nginx", "looptrap", "looptrap compiled"
MB = 1_000_000
AIMED_RATIO = {"small": 3.0, "large": 3.0, "agent": 4.0, "small_stream": 1.5}
"""CPU time of a request, as a multiple of nginx's, at most."""
AIMED_LATENCY = 120.0
"""Microseconds added to nginx's p50 at one connection, at most."""
AIMED_RSS = 80 * MB


class Round(NamedTuple):
    """One run of the load generator, and the CPU seconds it cost the proxy."""

    load: Load
    user: float
    system: float

    @property
    def cpu_us(self) -> float:
        """CPU microseconds a request."""
        return (self.user + self.system) / max(self.load.requests, 1) * 1e6


@dataclass(slots=True)
class Row:
    """All rounds of one proxy with one body."""

    body: str
    connections: int
    proxy: str
    is_looptrap: bool = False
    """Whether the aims are for it."""
    rounds: list[Round] = field(default_factory=list)

    @property
    def label(self) -> str:
        return f"{self.body} × {self.connections} through {self.proxy}"

    @property
    def errors(self) -> int:
        """Failed requests, and rounds without requests; either makes the row invalid."""
        return sum(
            one.load.refused + one.load.broken + (not one.load.requests) for one in self.rounds
        )

    @property
    def best(self) -> Round:
        """The round with the least CPU time for a request: the rest is noise."""
        return min(self.rounds, key=lambda one: one.cpu_us)

    @property
    def spread(self) -> float:
        """How far the median round is above the best, as a share."""
        best = self.best.cpu_us
        return median(one.cpu_us for one in self.rounds) / best - 1 if best else 0.0

    @property
    def rate(self) -> float:
        return max(one.load.requests / one.load.seconds for one in self.rounds)

    @property
    def p50(self) -> int:
        return min(one.load.p50 for one in self.rounds)

    @property
    def p99(self) -> int:
        return min(one.load.p99 for one in self.rounds)


def render(
    rows: Sequence[Row],
    idle: Mapping[str, int],
    loaded: Mapping[str, int],
    interpreters: Mapping[str, str],
) -> str:
    """Return everything as text; `interpreters` are the Pythons of all Looptraps."""
    width = max(len(name) for name in idle) + 2
    lines = [
        "CPU µs a request of the proxy: the least of the rounds, and how far the median is above;",
        "the best rate and latencies of any round",
        "",
        f"{'body':<14}{'conns':>6}  {'proxy':<{width}}{'req/s':>8}{'p50 µs':>9}{'p99 µs':>9}"
        f"{'CPU µs':>9}{'spread':>8}{'system':>8}{'× nginx':>9}  aim",
    ]
    lines += [_line(row, _beside(rows, row), width) for row in rows]
    lines += ["", f"{'memory, MB':<22}{'idle':>8}{'after':>8}  aim"]
    for name in idle:
        reached, aim = idle[name] <= AIMED_RSS, f"≤ {AIMED_RSS / MB:.0f} idle"
        aim = _met(reached, aim) if name in interpreters else ""
        lines.append(f"{name:<22}{idle[name] / MB:>8.1f}{loaded[name] / MB:>8.1f}  {aim}".rstrip())
    lines += ["", *(f"{name:<22}{python}" for name, python in interpreters.items())]
    return "\n".join(lines)


def as_json(
    rows: Sequence[Row],
    idle: Mapping[str, int],
    loaded: Mapping[str, int],
    interpreters: Mapping[str, str],
) -> dict[str, Any]:
    """Return everything as plain values, every round included."""
    return {
        "rows": [
            {
                "body": row.body,
                "connections": row.connections,
                "proxy": row.proxy,
                "valid": not row.errors,
                "requests_per_second": row.rate,
                "p50_us": row.p50,
                "p99_us": row.p99,
                "cpu_us": row.best.cpu_us,
                "cpu_us_spread": row.spread,
                "cpu_ratio_to_nginx": _ratio(row, _beside(rows, row)),
                "rounds": [{**one._asdict(), "load": one.load._asdict()} for one in row.rounds],
            }
            for row in rows
        ],
        "rss_idle": dict(idle),
        "rss_after": dict(loaded),
        "interpreters": dict(interpreters),
    }


def figures(rows: Sequence[Row], idle: Mapping[str, int]) -> Iterator[Figure]:
    """Yield the figures of the report: CPU time compared with nginx, latency, memory."""
    for row in rows:
        nginx = _beside(rows, row)
        ratio = _ratio(row, nginx)
        if nginx is None or ratio is None or row.proxy == NGINX:
            continue
        if row.connections > 1:
            name = f"{row.proxy}, {row.body}: CPU ÷ nginx's"
            aim, spread = AIMED_RATIO[row.body] if row.is_looptrap else None, row.spread
            is_ours = row.proxy == OURS
            yield Figure(
                part="gateway", name=name, value=ratio, spread=spread, aim=aim, is_compared=is_ours
            )
        else:
            added = row.p50 - nginx.p50
            aim = AIMED_LATENCY if row.is_looptrap else None
            name = f"{row.proxy}, {row.body}: p50 added to nginx's, one connection"
            yield Figure(
                part="gateway", name=name, value=added, unit="µs", aim=aim, is_compared=False
            )
    for proxy, size in idle.items():
        if proxy != "direct":
            aim = AIMED_RSS / MB if proxy in (OURS, COMPILED) else None
            is_ours = proxy == OURS
            yield Figure(
                part="gateway",
                name=f"{proxy}: resident memory, idle",
                value=size / MB,
                unit="MB",
                aim=aim,
                tolerance=0.1,
                is_compared=is_ours,
            )


def _line(row: Row, nginx: Row | None, width: int) -> str:
    start = f"{row.body:<14}{row.connections:>6}  {row.proxy:<{width}}"
    if row.errors:
        return f"{start}  INVALID: {row.errors} failed requests, or rounds without any"
    line = f"{start}{row.rate:>8.0f}{row.p50:>9}{row.p99:>9}"
    if row.proxy == "direct":
        return line
    best = row.best
    system = best.system / ((best.user + best.system) or 1)
    line += f"{best.cpu_us:>9.1f}{row.spread:>8.0%}{system:>8.0%}"
    ratio = _ratio(row, nginx)
    line += f"{ratio:>9.2f}" if ratio is not None else f"{'–':>9}"
    return f"{line}  {_aim(row, nginx, ratio)}".rstrip()


def _aim(row: Row, nginx: Row | None, ratio: float | None) -> str:
    if not row.is_looptrap or nginx is None or ratio is None:
        return ""
    if row.connections == 1:
        added = row.p50 - nginx.p50
        return _met(added <= AIMED_LATENCY, f"p50 {added:+} µs, ≤ +{AIMED_LATENCY:.0f}")
    aimed = AIMED_RATIO[row.body]
    return _met(ratio <= aimed, f"≤ {aimed:g} ×")


def _beside(rows: Sequence[Row], row: Row) -> Row | None:
    """Return nginx's row with the same load, if it is valid."""
    for one in rows:
        same = (one.body, one.connections) == (row.body, row.connections)
        if one.proxy == NGINX and same and not one.errors:
            return one
    return None


def _ratio(row: Row, nginx: Row | None) -> float | None:
    if nginx is None or row.errors or row.proxy == "direct" or not nginx.best.cpu_us:
        return None
    return row.best.cpu_us / nginx.best.cpu_us


def _met(reached: bool, aim: str) -> str:
    return f"{'reached' if reached else 'MISSED'} ({aim})"
