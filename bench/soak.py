"""Memory and descriptors over very many requests, all allowed and no two alike.

python -m bench.soak [--requests 1000000] [--fingerprints N] [--json FILE]

The gateway is run as users run it. Its memory grows while its store fills, which holds what was
sent in the last minute; after that it has to be flat. With `--fingerprints` the store may hold so
many only, and is full at once. Needs `wrk` and a C compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench import rig
from bench.bodies import UNIQUE, encoded, small
from bench.figure import Figure
from bench.rig import MissingPartError, PartFailedError, Proxy
from bench.watch import MB, Holding, holding, slope

LEG = 100_000
"""Requests between two rows of the report."""
SECONDS = 5
"""How long each run of the load generator is, and so how often memory is looked at."""
MINUTES = 40
CONNECTIONS = 32
STEEPEST = 5.0
"""Megabytes for each 100,000 requests by which memory may grow in the second half."""
SPARE_FDS = 8
FEW = 20_000
"""Fingerprints that fill a store in the first leg, whatever the rate."""


class Sample(NamedTuple):
    """What the gateway held after so many requests."""

    sent: int
    held: Holding


def samples(requests: int, max_fingerprints: int | None = None) -> list[Sample]:
    """Send so many requests; return what the gateway held before, and all along."""
    with tempfile.TemporaryDirectory(prefix="looptrap-soak-") as name:
        folder = Path(name)
        body = folder / "small.json"
        body.write_bytes(encoded(small()))
        with (
            rig.provider(folder) as provider,
            rig.looptrap(folder, provider.port, max_fingerprints=max_fingerprints) as gateway,
        ):
            found = list(_soak(gateway, body, requests))
            if acted_on := gateway.acted_on():
                raise PartFailedError(f"{acted_on} requests were not simply allowed")
        return found


def _soak(gateway: Proxy, body: Path, requests: int) -> Iterator[Sample]:
    pid, sent, spent = gateway.process.pid, 0, 0.0
    yield Sample(0, holding(pid))
    for run in count(1):
        load = rig.load(gateway, body, UNIQUE, run, connections=CONNECTIONS, seconds=SECONDS)
        if load.refused or load.broken or not load.requests:
            raise PartFailedError(f"the soak failed: {load}")
        sent += load.requests
        spent += load.seconds
        yield Sample(sent, holding(pid))
        print(f"\r{sent:,} of {requests:,} requests", end="", file=sys.stderr, flush=True)
        if sent >= requests or spent > MINUTES * 60:
            break
    print(file=sys.stderr)


def steepness(found: Sequence[Sample]) -> float:
    """Return the megabytes by which memory grew for each 100,000 requests in the second half."""
    half = [one for one in found if one.sent >= found[-1].sent / 2]
    return slope([(one.sent / LEG, one.held.rss / MB) for one in half])


def problems(found: Sequence[Sample]) -> list[str]:
    """Return what is not as it should be."""
    told = []
    if (steep := steepness(found)) > STEEPEST:
        told.append(f"memory grows by {steep:.1f} MB for each 100,000 requests")
    most = found[0].held.fds + SPARE_FDS + 2 * CONNECTIONS
    if found[-1].held.fds > most:
        told.append(f"{found[-1].held.fds} descriptors are open, at most {most}")
    return told


def figures(requests: int) -> Iterator[Figure]:
    """Yield what a report shows of this, with a store that is full at once."""
    found = samples(requests, FEW)
    first = next(one for one in found if one.sent >= min(LEG, found[-1].sent))
    for name, one in (("idle", found[0]), ("after 100,000", first), ("at the end", found[-1])):
        size = round(one.held.rss / MB, 1)
        yield Figure(part="soak", name=f"RSS, {name}", value=size, unit="MB", is_compared=False)
    yield Figure(
        part="soak",
        name="growth for each 100,000 requests, second half",
        value=round(steepness(found), 2),
        unit="MB",
        aim=STEEPEST,
        is_compared=False,
    )


def render(found: Sequence[Sample]) -> str:
    """Return the samples as text, one for each leg."""
    lines = [f"{'requests':>12}{'RSS, MB':>10}{'fds':>6}{'sockets':>9}{'threads':>9}"]
    leg = 0
    for one in found:
        if one.sent >= leg or one is found[-1]:
            held = one.held
            sizes = f"{held.rss / MB:>10.1f}{held.fds:>6}{held.sockets:>9}{held.threads:>9}"
            lines.append(f"{one.sent:>12,}{sizes}")
            leg = one.sent // LEG * LEG + LEG
    lines.append(f"second half: {steepness(found):+.2f} MB for each 100,000 requests")
    return "\n".join(lines)


def main() -> int:
    """Soak, print what was found, and say whether all was well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--fingerprints", type=int, metavar="N", help="what the store may hold")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    try:
        found = samples(given.requests, given.fingerprints)
    except (MissingPartError, PartFailedError) as error:
        sys.exit(str(error))
    print(render(found))
    for problem in (told := problems(found)):
        print(f"VIOLATION {problem}")
    if given.json:
        rows = [{"requests": one.sent, **one.held._asdict()} for one in found]
        given.json.write_text(json.dumps({"samples": rows, "problems": told}, indent=1))
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
