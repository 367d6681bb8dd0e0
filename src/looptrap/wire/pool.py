"""Pool: the connections to one origin, reused last in, first out, with a bounded queue."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from ssl import SSLContext
from typing import cast

from looptrap.wire.dial import dial
from looptrap.wire.exchange import AnswerSink, UpstreamError, UpstreamErrorKind, UpstreamExchange
from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.origin import Origin, Proxy, ProxyEnvironment
from looptrap.wire.upstream_connection import UpstreamConnection
from looptrap.wire.write_queue import WriteQueue

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
        self.writes = WriteQueue()
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
        # For `close` to wait for: also discarded connections and cancelled dials.
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

        Method, target and fields are sent as given: they must come from parsed parts, without line
        ends of their own. A `fresh` one gets a connection that nothing was sent over before.
        """
        if self._prefix:
            target = self._prefix + target
        if body or method in METHODS_WITH_BODY:
            head = b"%b %b%b%d\r\n%b\r\n" % (method, target, self._sized, len(body), fields)
        else:
            head = b"%b %b%b%b\r\n" % (method, target, self._unsized, fields)
        exchange = UpstreamExchange(self, head, body, sink, method == b"HEAD")
        self.in_flight += 1
        idle = self._idle
        if fresh and idle and not self._has_room():
            self.discard(idle[0])
        while idle and not fresh:
            connection = idle.pop()
            if not connection.transport.is_closing():
                self.reused += 1
                connection.start(exchange, self.clock())
                return exchange
        self._wait_for_connection(exchange)
        return exchange

    def sweep(self) -> None:
        """End every exchange and idle connection that has passed its deadline."""
        now = self.clock()
        for connection in [one for one in self._connections if one.deadline <= now]:
            connection.expire()
        wait = f"{self.limits.connect_timeout:g} s"
        for exchange in [one for one in self._queue if one.deadline <= now]:
            self._fail(exchange, self._error("busy", f"all connections busy for {wait}"))
        for exchange in [one for one in self._dialling if one.deadline <= now]:
            self._fail(exchange, self._error("connect_timeout", f"no connection within {wait}"))

    async def close(self) -> None:
        """Close every connection; exchanges in flight fail with a reset."""
        for exchange in [*self._queue, *self._dialling]:
            self._fail(exchange, self._error("reset", "closed on our side"))
        for connection in list(self._connections):
            connection.fail("reset", "closed on our side")
            self.discard(connection)
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._sockets:
            self._all_closed = asyncio.Event()
            await self._all_closed.wait()

    # Called by exchanges

    def cancel(self, exchange: UpstreamExchange) -> None:
        """End an exchange at any stage, without a call to its sink."""
        self.finish(exchange)
        self._queue.pop(exchange, None)
        if exchange in self._dialling:
            self._dialling.pop(exchange).cancel()
            self._serve_queue()
        elif exchange.connection is not None:
            self.discard(exchange.connection)

    # Called by connections

    def on_connected(self, connection: UpstreamConnection) -> None:
        """Record that a connection has a socket."""
        self._sockets.add(connection)

    def on_closed(self, connection: UpstreamConnection) -> None:
        """Record that a connection's socket is closed."""
        self._sockets.discard(connection)
        if not self._sockets and self._all_closed is not None:
            self._all_closed.set()

    def finish(self, exchange: UpstreamExchange) -> None:
        """Record that an exchange is over, however it ended."""
        exchange.is_over = True
        self.in_flight -= 1

    def release(self, connection: UpstreamConnection, exchange: UpstreamExchange) -> None:
        """Record that an exchange is over, and reuse its connection."""
        exchange.is_over = True
        self.in_flight -= 1
        now = self.clock()
        if self._queue:
            self.reused += 1
            connection.start(self._next_queued(), now)
        else:
            connection.deadline = now + self.limits.keepalive
            self._idle.append(connection)

    def discard(self, connection: UpstreamConnection) -> None:
        """Close a connection and serve the queue."""
        connection.detach()
        if connection in self._connections:
            self._connections.discard(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._serve_queue()

    def retry(self, exchange: UpstreamExchange, stale: UpstreamConnection) -> None:
        """Send an exchange again, over a new connection in place of the stale one."""
        self.retried_stale += 1
        self._connections.discard(stale)
        stale.detach()
        exchange.connection = None
        self._dial(exchange)

    def _wait_for_connection(self, exchange: UpstreamExchange) -> None:
        if self._has_room():
            self._dial(exchange)
        elif len(self._queue) < self.limits.max_queued:
            exchange.deadline = self.clock() + self.limits.connect_timeout
            self._queue[exchange] = None
        else:
            connections, waiting = self.limits.max_connections, len(self._queue)
            message = f"all {connections} connections busy and {waiting} requests waiting"
            error = self._error("busy", message)
            asyncio.get_running_loop().call_soon(self._fail, exchange, error)

    def _has_room(self) -> bool:
        return len(self._connections) + len(self._dialling) < self.limits.max_connections

    def _serve_queue(self) -> None:
        while self._queue and self._has_room():
            self._dial(self._next_queued())

    def _next_queued(self) -> UpstreamExchange:
        exchange = next(iter(self._queue))
        del self._queue[exchange]
        return exchange

    def _dial(self, exchange: UpstreamExchange) -> None:
        exchange.deadline = self.clock() + self.limits.connect_timeout
        task = asyncio.get_running_loop().create_task(self._connect(exchange))
        self._dialling[exchange] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, exchange: UpstreamExchange) -> None:
        connection = UpstreamConnection(self)
        try:
            await dial(
                lambda: cast(asyncio.Protocol, connection), self.origin, self._proxy, self._ssl
            )
            if connection.transport.is_closing():
                raise self._error("reset", "closed the connection as soon as it was open")
        except UpstreamError as error:
            self._discard_unused(connection)
            del self._dialling[exchange]
            self._serve_queue()
            # Its traceback holds this frame, and so the exchange: a sink that keeps the error would
            # keep itself alive.
            self._fail(exchange, error.with_traceback(None))
        except BaseException:
            self._discard_unused(connection)
            raise
        else:
            del self._dialling[exchange]
            self.opened += 1
            self._connections.add(connection)
            connection.start(exchange, self.clock())

    def _discard_unused(self, connection: UpstreamConnection) -> None:
        # The loop need not report the loss of a connection whose set-up failed.
        if connection in self._sockets:
            connection.detach()
            self.on_closed(connection)

    def _fail(self, exchange: UpstreamExchange, error: UpstreamError) -> None:
        if not exchange.is_over:
            self.cancel(exchange)
            exchange.sink.on_error(error)

    def _error(self, kind: UpstreamErrorKind, what: str) -> UpstreamError:
        return UpstreamError(kind, f"{self.origin}: {what}")


SWEEP_INTERVAL_S = 0.5


class Pools:
    """Makes a pool for each origin on first use, and sweeps them all."""

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
                self._tick()
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

    def _tick(self) -> None:
        # Scheduled first: a sink that raises must not end all timeouts.
        self._timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._tick)
        self.sweep()
