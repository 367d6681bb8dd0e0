"""Memory and descriptors over many requests, all allowed and all different; or all refused.

python -m bench.soak [--requests 1000000] [--fingerprints N] [--json FILE]
python -m bench.soak --refusals [--json FILE]

The gateway runs as users run it. Its memory grows while its store fills with the requests of the
last minute; after that it must be flat. With `--fingerprints` the store holds only that many, and
is full at once. Needs `wrk` and a C compiler.

With `--refusals` all requests are one loop: 100,000 of 20 KB and 300 of 1 MB. The
memory at the end is compared with that after a tenth of them. Needs no other program.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench import rig
from bench.bodies import UNIQUE, encoded, small
from bench.client import chat, request
from bench.figure import Figure
from bench.rig import MissingPartError, PartFailedError, Proxy
from bench.watch import MB, Holding, holding, slope

LEG = 100_000
"""Requests between two rows of the report."""
SECONDS = 5
"""Seconds of each run of the load generator; memory is measured after each."""
MINUTES = 40
CONNECTIONS = 32
STEEPEST = 5.0
"""Megabytes for each 100,000 requests by which memory may grow in the second half."""
SPARE_FDS = 8
FEW = 20_000
"""Fingerprints that fill a store in the first run, whatever the rate."""

REFUSALS = ((100_000, 20_000), (300, 1_000_000))
"""The numbers of refused requests, and their sizes in bytes."""
MOST_GROWTH = 15.0
"""Megabytes by which memory may grow after the first tenth of them."""
REFUSING = 8
"""Connections over which they come."""
LOOP = """
[[policies]]
name = "soak"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  cooldown = 3600
"""


class Sample(NamedTuple):
    """The resources of the gateway after that many requests."""

    sent: int
    held: Holding


def samples(requests: int, max_fingerprints: int | None = None) -> list[Sample]:
    """Send that many requests; return the gateway's resources before and during the run."""
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


def refused(number: int, size: int) -> list[Sample]:
    """Send that many requests of a size, to be refused; return the resources at each tenth."""
    with tempfile.TemporaryDirectory(prefix="looptrap-soak-") as name:
        nowhere = rig.free_port()  # nothing that is refused is forwarded
        with (
            rig.looptrap(Path(name), nowhere, settings=LOOP) as gateway,
            closing(_Looping(gateway.port, size)) as agent,
        ):
            agent.ask(REFUSING)  # until it is a loop
            found = [Sample(0, holding(gateway.process.pid))]
            for tenth in range(1, 11):
                agent.be_refused(number // 10)
                found.append(Sample(number * tenth // 10, holding(gateway.process.pid)))
        return found


class _Looping:
    """Sends one request repeatedly, over several connections at once."""

    def __init__(self, port: int, size: int) -> None:
        body = chat("Again? " + "x" * size)
        self._request = request(body, {"Content-Type": "application/json"})
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(REFUSING)]

    def ask(self, number: int) -> list[bytes]:
        """Send it that many times at once, at most once for each connection."""
        asked = self._sockets[:number]
        for one in asked:
            one.sendall(self._request)
        return [_status(one) for one in asked]

    def be_refused(self, number: int) -> None:
        """Send it so many times."""
        for at in range(0, number, REFUSING):
            statuses = set(self.ask(min(REFUSING, number - at)))
            if statuses != {b"429"}:
                raise PartFailedError(f"not refused: {statuses}")

    def close(self) -> None:
        """End every connection."""
        for one in self._sockets:
            one.close()


def _status(one: socket.socket) -> bytes:
    """Read one answer; return its status."""
    answer = b""
    while (end := answer.find(b"\r\n\r\n")) < 0 and (more := one.recv(65_536)):
        answer += more
    length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
    left = end + 4 + length - len(answer)
    while left > 0 and (more := one.recv(left)):
        left -= len(more)
    return answer[9:12]


def growth(found: Sequence[Sample]) -> float:
    """Return the megabytes by which memory grew after the first tenth."""
    return (found[-1].held.rss - found[1].held.rss) / MB


def outgrown(found: Sequence[Sample]) -> list[str]:
    """Return the violations after refusals."""
    if growth(found) <= MOST_GROWTH:
        return []
    return [f"memory grew by {growth(found):.1f} MB over {found[-1].sent:,} refusals"]


def steepness(found: Sequence[Sample]) -> float:
    """Return the megabytes by which memory grew for each 100,000 requests in the second half."""
    half = [one for one in found if one.sent >= found[-1].sent / 2]
    return slope([(one.sent / LEG, one.held.rss / MB) for one in half])


def problems(found: Sequence[Sample]) -> list[str]:
    """Return the violations."""
    told = []
    if (steep := steepness(found)) > STEEPEST:
        told.append(f"memory grows by {steep:.1f} MB for each 100,000 requests")
    most = found[0].held.fds + SPARE_FDS + 2 * CONNECTIONS
    if found[-1].held.fds > most:
        told.append(f"{found[-1].held.fds} descriptors are open, at most {most}")
    return told


def figures(requests: int) -> Iterator[Figure]:
    """Yield the figures of the report, with a store that is full at once."""
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


def render(found: Sequence[Sample], leg: int = LEG) -> str:
    """Return the samples as text, one for each run."""
    lines = [f"{'requests':>12}{'RSS, MB':>10}{'fds':>6}{'sockets':>9}{'threads':>9}"]
    due = 0
    for one in found:
        if one.sent >= due or one is found[-1]:
            held = one.held
            sizes = f"{held.rss / MB:>10.1f}{held.fds:>6}{held.sockets:>9}{held.threads:>9}"
            lines.append(f"{one.sent:>12,}{sizes}")
            due = one.sent // leg * leg + leg
    return "\n".join(lines)


def main() -> int:
    """Run the soak, print its results, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--fingerprints", type=int, metavar="N", help="the size of the store")
    parser.add_argument("--refusals", action="store_true", help="all refused, instead")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    try:
        if given.refusals:
            runs = [refused(number, size) for number, size in REFUSALS]
        else:
            runs = [samples(given.requests, given.fingerprints)]
    except (MissingPartError, PartFailedError) as error:
        sys.exit(str(error))
    told = []
    for found in runs:
        print(render(found, found[-1].sent // 10 if given.refusals else LEG))
        if given.refusals:
            print(f"after the first tenth: {growth(found):+.1f} MB")
            told += outgrown(found)
        else:
            print(f"second half: {steepness(found):+.2f} MB for each 100,000 requests")
            told += problems(found)
    for problem in told:
        print(f"VIOLATION {problem}")
    if given.json:
        rows = [{"requests": one.sent, **one.held._asdict()} for found in runs for one in found]
        given.json.write_text(json.dumps({"samples": rows, "problems": told}, indent=1))
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
