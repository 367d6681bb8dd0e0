"""Do calls wait for a history in PostgreSQL that is away, hangs, or has a full spool before it?

python -m bench.outage [--rounds 8] [--seconds 3] [--connections 1] [--json FILE]

One gateway under load, all calls allowed and logged. The states of the database take turns, so that
other load of the machine affects all of them. It needs what `bench.gateway` needs, and PostgreSQL.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

from bench import postgres, rig
from bench.bodies import UNIQUE, encoded, small
from bench.rig import Load, MissingPartError, Proxy

FULL_SPOOL_MB = 1
"""The size of the spool of the gateway whose spool is full."""

ALMOST_FULL = (FULL_SPOOL_MB << 20) // 2
"""Bytes from which the batch of a second hardly fits."""

SETTLING_S = 1.0
"""Seconds of load in a state before it is measured."""


class State(NamedTuple):
    """What the database does, and which gateway is loaded meanwhile."""

    name: str
    gateway: str
    begin: Callable[[postgres.Postgres], None]
    end: Callable[[postgres.Postgres], None]


def nothing(_server: postgres.Postgres) -> None:
    """Leave it as it is."""


STATES = (
    State("there", "roomy", nothing, nothing),
    State(
        "hanging", "roomy",
        lambda server: server.send(signal.SIGSTOP), lambda server: server.send(signal.SIGCONT),
    ),
    State("away", "roomy", postgres.Postgres.kill, postgres.Postgres.start),
    State("away, spool full", "narrow", postgres.Postgres.kill, postgres.Postgres.start),
)  # fmt: skip


@contextmanager
def gateways(folder: Path, url: str, provider: Proxy) -> Iterator[dict[str, Proxy]]:
    """Run a gateway with a large spool and one with a small one."""
    found: dict[str, Proxy] = {}
    settings = (
        'history = "{url}"\nhistory_timeout = 2\nhistory_spool = "{spool}"\n'
        "history_spool_size = {size}\n[call_log]\nper_second = 100000\n"
    )
    places = {"roomy": 256 << 20, "narrow": FULL_SPOOL_MB << 20}
    for name in places:
        (folder / name).mkdir()
    texts = {
        name: settings.format(url=url, spool=folder / name / "spool", size=size)
        for name, size in places.items()
    }
    with (
        rig.looptrap(folder / "roomy", provider.port, settings=texts["roomy"]) as found["roomy"],
        rig.looptrap(folder / "narrow", provider.port, settings=texts["narrow"]) as found["narrow"],
    ):
        yield found


def metric(proxy: Proxy, name: str) -> float:
    """Return a metric of a gateway."""
    with urlopen(f"http://127.0.0.1:{proxy.admin}/metrics", timeout=10) as metrics:
        lines = metrics.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def until_drained(proxy: Proxy) -> None:
    """Wait until nothing waits any more."""
    until = time.monotonic() + 10 * rig.PATIENCE
    while metric(proxy, "looptrap_history_spool_batches ") and time.monotonic() < until:
        time.sleep(0.2)


def measure(
    folder: Path,
    server: postgres.Postgres,
    found: Mapping[str, Proxy],
    options: argparse.Namespace,
) -> dict[str, list[Load]]:
    """Load in each state, in turns."""
    body, runs = folder / "body.json", count(1)
    body.write_bytes(encoded(small()))
    taken: dict[str, list[Load]] = {state.name: [] for state in STATES}

    def load(proxy: Proxy, seconds: int) -> Load:
        return rig.load(
            proxy, body, UNIQUE, next(runs), connections=options.connections, seconds=seconds
        )

    for proxy in found.values():
        load(proxy, 2)
    for turn in range(options.rounds):
        # In another order each time: what the round before has left behind affects all.
        for state in (*STATES[turn % len(STATES) :], *STATES[: turn % len(STATES)]):
            proxy = found[state.gateway]
            until_drained(proxy)
            state.begin(server)
            try:
                load(proxy, max(1, round(SETTLING_S)))
                while (
                    "full" in state.name
                    and metric(proxy, "looptrap_history_spool_bytes ") < ALMOST_FULL
                ):
                    load(proxy, 1)
                taken[state.name].append(load(proxy, options.seconds))
            finally:
                state.end(server)
        print(f"\rround {turn + 1} of {options.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return taken


def render(taken: Mapping[str, Sequence[Load]]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        f"{'the database is':<20}{'calls/s':>10}{'p50 µs':>9}{'p99 µs':>9}{'p99 ×':>8}"
        f"{'least p99 ×':>13}{'failed':>8}"
    )
    base = taken[STATES[0].name]
    for name, loads in taken.items():
        p50, p99 = (median(getattr(one, what) for one in loads) for what in ("p50", "p99"))
        ratio = median(one.p99 / there.p99 for one, there in zip(loads, base, strict=True))
        least = min(one.p99 for one in loads) / min(one.p99 for one in base)
        rate = median(one.requests / one.seconds for one in loads)
        failed = sum(one.refused + one.broken for one in loads)
        yield (
            f"{name:<20}{rate:>10,.0f}{p50:>9.0f}{p99:>9.0f}{ratio:>8.2f}{least:>13.2f}{failed:>8}"
        )


def main() -> int:
    """Run, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="outage-") as name,
            postgres.running() as server,
            rig.provider(Path(name)) as provider,
            gateways(Path(name), server.url, provider) as found,
        ):
            taken = measure(Path(name), server, found, options)
    except MissingPartError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(render(taken)))
    if options.json:
        options.json.write_text(
            json.dumps({name: [one._asdict() for one in loads] for name, loads in taken.items()})
        )
    return int(any(one.refused + one.broken for loads in taken.values() for one in loads))


if __name__ == "__main__":
    sys.exit(main())
