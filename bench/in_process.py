"""What the gateway's own code costs for an allowed call: no sockets, kernel or event loop.

python -m bench.in_process [--only BODY ...] [--profile]

Bytes are handed to the connections of a real gateway as an event loop would do it. On a busy
machine this is far more exact than `bench.gateway`: changes of 1 % can be seen.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import os
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from bench.bodies import BODIES, UNIQUE
from looptrap.config import load
from looptrap.gateway.app import App
from looptrap.wire.origin import Origin
from looptrap.wire.server_connection import ServerConnection
from looptrap.wire.upstream_connection import UpstreamConnection
from looptrap.wire.write_queue import QueuedConnection, WriteQueue

CALLERS = 100
UPSTREAM = "http://127.0.0.1:9"
"""The provider in the configuration; no connection is made."""

ANSWER_BODY = (
    b'{"id":"chatcmpl-bench","object":"chat.completion","created":1800000000,"model":"gpt-4o-mini",'
    b'"choices":[{"index":0,"message":{"role":"assistant","content":"%b"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":210,"completion_tokens":80,"total_tokens":290}}'
) % (b"invoice " * 45)
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"x-request-id: req_bench\r\n\r\n%b" % (len(ANSWER_BODY), ANSWER_BODY)
)


class FakeTransport(asyncio.Transport):
    """Keeps what is written, and is always ready for more."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000)})
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.written.append(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        raise RuntimeError("the gateway closed a connection")

    close = abort


class Unscheduled(WriteQueue):
    """Leaves it to the benchmark to flush: a busy loop schedules that once for many calls."""

    def add(self, connection: QueuedConnection) -> None:
        self._waiting.append(connection)


class Path:
    """One client, one gateway and one provider, connected by hand."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._client, self._provider = FakeTransport(), FakeTransport()
        self._inbound = ServerConnection(app.server)
        self._inbound.connection_made(self._client)
        pool = app.pools.pool(Origin.of(UPSTREAM)[0])
        app.server.writes = pool.writes = Unscheduled()
        app.server.open_exchanges = pool.in_flight = 1  # others are under way
        self._flush = pool.writes.flush
        self._outbound = UpstreamConnection(pool)
        self._outbound.connection_made(self._provider)
        pool._connections.add(self._outbound)
        pool._idle.append(self._outbound)

    def check(self, request: bytes) -> None:
        """Send one request, and check that it is forwarded and answered."""
        self.send([request])
        if not self._app.tally.requests:
            raise RuntimeError("the gateway did not settle a call")
        if any(kind[0] != "allow" or kind[5] != 200 for kind in self._app.tally.requests):
            raise RuntimeError(f"not simply allowed: {list(self._app.tally.requests)}")

    def send(self, requests: list[bytes]) -> None:
        """Send requests one after the other; each is answered at once."""
        receive, answer = self._inbound.data_received, self._outbound.data_received
        to_client, to_provider = self._client.written, self._provider.written
        flush = self._flush
        for request in requests:
            receive(request)
            flush()
            answer(ANSWER)
            flush()
            to_client.clear()
            to_provider.clear()


def requests(body: bytes, numbers: Iterator[int], calls: int) -> list[bytes]:
    """Return requests with bodies that were never sent before."""
    found = []
    for number in (next(numbers) for _ in range(calls)):
        unique = body.replace(UNIQUE.encode(), b"%016d" % number)
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:4100\r\n"
            b"Content-Type: application/json\r\nAuthorization: Bearer sk-caller-%03d\r\n"
            b"Content-Length: %d\r\n\r\n" % (number % CALLERS, len(unique))
        )
        found.append(head + unique)
    return found


def cpu_us(body: bytes, rounds: int, profile: bool) -> float:
    """Return the least CPU microseconds of a request over several rounds."""
    app = App(load(None, env={}, flags={"upstream": UPSTREAM, "state": "state"}), {})
    path, numbers = Path(app), count()
    calls = max(100, min(2_000, 20_000_000 // len(body)))
    path.check(requests(body, numbers, 1)[0])
    best = float("inf")
    for _ in range(rounds):
        made = requests(body, numbers, calls)
        gc.disable()  # a gateway collects seldom
        started = time.process_time()
        path.send(made)
        best = min(best, (time.process_time() - started) / calls * 1e6)
        gc.enable()
    if profile:
        profiler = cProfile.Profile()
        profiler.runcall(path.send, requests(body, numbers, calls))
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
    path.check(requests(body, numbers, 1)[0])
    return best


async def measure(names: list[str], rounds: int, profile: bool) -> None:
    for name in names:
        body: Callable[[], bytes] = BODIES[name]
        print(f"{name:<10}{cpu_us(body(), rounds, profile):>8.1f} µs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=BODIES, default=list(BODIES), metavar="BODY")
    parser.add_argument("--rounds", type=int, default=10, help="rounds; the least counts")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="looptrap-bench-") as folder:
        os.chdir(folder)
        asyncio.run(measure(options.only, options.rounds, options.profile))


if __name__ == "__main__":
    main()
