"""All connections to one origin: reused last in, first out; queued for when all are busy."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from ssl import SSLContext

from looptrap.wire.dial import dial
from looptrap.wire.origin import Origin
from looptrap.wire.proxy import Proxy, ProxyEnvironment
from looptrap.wire.upstream_connection import UpstreamConnection
from looptrap.wire.upstream_exchange import (
    AnswerSink,
    UpstreamError,
    UpstreamErrorKind,
    UpstreamExchange,
    UpstreamLimits,
)

METHODS_WITH_BODY = frozenset((b"POST", b"PUT", b"PATCH"))


class Pool:
    """Sends requests to one origin, directly or through one proxy."""

    def __init__(
        self,
        origin: Origin,
        limits: UpstreamLimits,
        *,
        ssl: SSLContext | None = None,
        proxy: Proxy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if (origin.scheme == "https") != (ssl is not None):
            raise ValueError(f"{origin}: an https origin needs an SSLContext, an http origin none")
        self.origin = origin
        self.limits = limits
        self.clock = clock
        self.opened = 0
        self.reused = 0
        self.retried_stale = 0
        self.in_flight = 0
        self._ssl = ssl
        self._proxy = proxy
        self._idle: list[UpstreamConnection] = []
        self._connections: set[UpstreamConnection] = set()
        self._dialling: dict[UpstreamExchange, asyncio.Task[None]] = {}
        self._queue: dict[UpstreamExchange, None] = {}
        # What is not yet gone, for `close` to wait for: ended connections and cancelled dials too.
        self._sockets: set[UpstreamConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_closed: asyncio.Event | None = None

        authority = origin.authority.encode()
        is_forwarded = proxy is not None and ssl is None
        self._prefix = b"http://" + authority if is_forwarded else b""
        self._unsized = b" HTTP/1.1\r\nHost: " + authority + b"\r\n"
        if proxy is not None and is_forwarded:
            self._unsized += proxy.fields
        self._sized = self._unsized + b"Content-Length: "

    def send(
        self,
        method: bytes,
        target: bytes,
        fields: bytes,
        body: bytes,
        sink: AnswerSink,
        fresh: bool = False,
    ) -> UpstreamExchange:
        """Send a request; `fields` is its header block without Host and framing fields.

        Method, target and fields go out as given: they must come from parsed parts, free of
        stray line ends. A `fresh` one goes over a connection that nothing was sent over before.
        """
        if self._prefix:
            target = self._prefix + target
        if body or method in METHODS_WITH_BODY:
            head = b"%b %b%b%d\r\n%b\r\n" % (method, target, self._sized, len(body), fields)
        else:
            head = b"%b %b%b%b\r\n" % (method, target, self._unsized, fields)
        flight = UpstreamExchange(self, head, body, sink, method == b"HEAD")
        self.in_flight += 1
        idle = self._idle
        if fresh and idle and not self._has_room():
            self.drop(idle[0])
        while idle and not fresh:
            connection = idle.pop()
            if not connection.transport.is_closing():
                self.reused += 1
                connection.launch(flight, self.clock())
                return flight
        self._wait_for_connection(flight)
        return flight

    def sweep(self) -> None:
        """End every flight and idle connection that has passed its deadline."""
        now = self.clock()
        for connection in [c for c in self._connections if c.deadline <= now]:
            connection.expire()
        wait = f"{self.limits.connect_timeout:g} s"
        for flight in [f for f in self._queue if f.deadline <= now]:
            self._fail(flight, self._error("busy", f"all connections busy for {wait}"))
        for flight in [f for f in self._dialling if f.deadline <= now]:
            self._fail(flight, self._error("connect_timeout", f"no connection within {wait}"))

    async def close(self) -> None:
        """Close every connection; flights still under way hear a reset."""
        for flight in [*self._queue, *self._dialling]:
            self._fail(flight, self._error("reset", "closed on our side"))
        for connection in list(self._connections):
            connection.fail("reset", "closed on our side")
            self.drop(connection)
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._sockets:
            self._all_closed = asyncio.Event()
            await self._all_closed.wait()

    # for flights

    def cancel(self, flight: UpstreamExchange) -> None:
        """End a flight in whatever stage it is, without a word to its sink."""
        self.end(flight)
        self._queue.pop(flight, None)
        if flight in self._dialling:
            self._dialling.pop(flight).cancel()
            self._serve_queue()
        elif flight.connection is not None:
            self.drop(flight.connection)

    # for connections

    def track(self, connection: UpstreamConnection) -> None:
        """Note that a connection has a socket."""
        self._sockets.add(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        """Note that a connection's socket is closed."""
        self._sockets.discard(connection)
        if not self._sockets and self._all_closed is not None:
            self._all_closed.set()

    def end(self, flight: UpstreamExchange) -> None:
        """Note that a flight is over, however it ended."""
        flight.over = True
        self.in_flight -= 1

    def release(self, connection: UpstreamConnection, flight: UpstreamExchange) -> None:
        """Note that a flight is over and its connection fit for another."""
        flight.over = True
        self.in_flight -= 1
        now = self.clock()
        if self._queue:
            following = next(iter(self._queue))
            del self._queue[following]
            self.reused += 1
            connection.launch(following, now)
        else:
            connection.deadline = now + self.limits.keepalive
            self._idle.append(connection)

    def drop(self, connection: UpstreamConnection) -> None:
        """Close a connection and let the next flight in the queue have its place."""
        connection.detach()
        if connection in self._connections:
            self._connections.discard(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._serve_queue()

    def retry(self, flight: UpstreamExchange, dead: UpstreamConnection) -> None:
        """Send a flight again, on a fresh connection that takes the dead one's place."""
        self.retried_stale += 1
        self._connections.discard(dead)
        dead.detach()
        flight.connection = None
        self._dial(flight)

    def _wait_for_connection(self, flight: UpstreamExchange) -> None:
        if self._has_room():
            self._dial(flight)
        elif len(self._queue) < self.limits.max_queued:
            flight.deadline = self.clock() + self.limits.connect_timeout
            self._queue[flight] = None
        else:
            error = self._error(
                "busy",
                f"all {self.limits.max_connections} connections busy"
                f" and {len(self._queue)} requests waiting",
            )
            asyncio.get_running_loop().call_soon(self._fail, flight, error)

    def _has_room(self) -> bool:
        return len(self._connections) + len(self._dialling) < self.limits.max_connections

    def _serve_queue(self) -> None:
        while self._queue and self._has_room():
            flight = next(iter(self._queue))
            del self._queue[flight]
            self._dial(flight)

    def _dial(self, flight: UpstreamExchange) -> None:
        flight.deadline = self.clock() + self.limits.connect_timeout
        task = asyncio.get_running_loop().create_task(self._connect(flight))
        self._dialling[flight] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, flight: UpstreamExchange) -> None:
        connection = UpstreamConnection(self)
        try:
            await dial(lambda: connection, self.origin, self._proxy, self._ssl)
        except UpstreamError as error:
            self._abandon(connection)
            self._leave_dialling(flight)
            # Its traceback holds this frame, and so the flight: a sink that keeps the error would
            # keep itself.
            self._fail(flight, error.with_traceback(None))
        except BaseException:
            self._abandon(connection)
            raise
        else:
            self._board(flight, connection)

    def _board(self, flight: UpstreamExchange, connection: UpstreamConnection) -> None:
        if connection.transport.is_closing():
            self._leave_dialling(flight)
            self._fail(flight, self._error("reset", "closed the connection as soon as it was open"))
            return
        del self._dialling[flight]
        self.opened += 1
        self._connections.add(connection)
        connection.launch(flight, self.clock())

    def _leave_dialling(self, flight: UpstreamExchange) -> None:
        del self._dialling[flight]
        self._serve_queue()

    def _abandon(self, connection: UpstreamConnection) -> None:
        # The loop need not report the loss of a connection that was never handed over.
        if connection in self._sockets:
            connection.detach()
            self.forget(connection)

    def _fail(self, flight: UpstreamExchange, error: UpstreamError) -> None:
        if not flight.over:
            self.cancel(flight)
            flight.sink.on_error(error)

    def _error(self, kind: UpstreamErrorKind, what: str) -> UpstreamError:
        return UpstreamError(kind, f"{self.origin}: {what}")


SWEEP_INTERVAL_S = 0.5


class Pools:
    """Makes a pool for each origin on first use and sweeps them all while any exists."""

    def __init__(
        self,
        limits: UpstreamLimits,
        *,
        environ: Mapping[str, str],
        ca_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._proxies = ProxyEnvironment(environ)
        self._ca_file = ca_file
        self._clock = clock
        self._pools: dict[Origin, Pool] = {}
        self._timer: asyncio.TimerHandle | None = None

    def pool(self, origin: Origin) -> Pool:
        """Return the pool of an origin; called on the loop that will run it."""
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = Pool(
                origin,
                self._limits,
                ssl=self._tls if origin.scheme == "https" else None,
                proxy=self._proxies.choose(origin),
                clock=self._clock,
            )
            if self._timer is None:
                self._schedule_sweep()
        return pool

    def __iter__(self) -> Iterator[Pool]:
        return iter(self._pools.values())

    def sweep(self) -> None:
        """End what has passed its deadline, in every pool."""
        for pool in list(self._pools.values()):
            pool.sweep()

    async def close(self) -> None:
        """Close every connection of every pool."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.close()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Trust the system's authorities and those of `ca_file`."""
        context = ssl.create_default_context()
        if self._ca_file is not None:
            context.load_verify_locations(cafile=self._ca_file)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _schedule_sweep(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(
            SWEEP_INTERVAL_S, self._sweep_and_repeat
        )

    def _sweep_and_repeat(self) -> None:
        # First the next one: a sink that raises must not end all time-outs.
        self._schedule_sweep()
        self.sweep()
