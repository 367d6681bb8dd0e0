"""Server: listens, bounds connections, and ends what has timed out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from ssl import SSLContext
from typing import Any, cast

from looptrap.wire.exchange import Exchange, Handler
from looptrap.wire.limits import ServerLimits
from looptrap.wire.request import (
    HeadReader,
    RefusalBuilder,
    RequestRefused,
    json_refusal,
    overloaded,
)
from looptrap.wire.server_connection import ServerConnection
from looptrap.wire.write_queue import WriteQueue

SWEEP_INTERVAL_S = 0.5
MAX_REFUSED_CONNECTIONS = 256
"""Connections beyond the cap that get a 503; any more are closed at once."""
MAX_EVICTION_CANDIDATES = 64
"""Connections checked to make room for one more."""
_BACKLOG = 4096


class Server:
    """Serves `handler` on any number of addresses; its counters are plain attributes."""

    def __init__(
        self,
        handler: Handler[Any],
        limits: ServerLimits | None = None,
        *,
        refuse: RefusalBuilder = json_refusal,
        on_error: Callable[[Exception], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.handler = handler
        self.limits = limits or ServerLimits()
        self.heads = HeadReader(self.limits)
        self.writes = WriteQueue()
        self.make_refusal = refuse
        self.clock = clock
        self.now = clock()  # as of the last sweep
        self.draining = False

        self.connections = 0
        self.requests = 0
        self.open_exchanges = 0  # requests whose answers are not complete
        self.buffered_bytes = 0
        self.refused_connections = 0
        self.bad_requests = 0
        self.overloads = 0
        self.handler_errors = 0
        self.disconnects = 0

        self._on_error = on_error
        self._open: set[ServerConnection] = set()
        self._admitted: dict[str, dict[ServerConnection, None]] = {}  # by network
        self._all_closed = asyncio.Event()
        self._listeners: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None

    async def listen(
        self, host: str, port: int, *, ssl: SSLContext | None = None, reuse_port: bool = False
    ) -> list[tuple[str, int]]:
        """Accept connections at `host`; return the addresses bound, with the port found for 0."""
        loop = asyncio.get_running_loop()
        handshake_timeout = None if ssl is None else self.limits.head_timeout
        # uvloop's has a list of sockets, where asyncio declares a tuple.
        listener: Any = await loop.create_server(
            lambda: cast(asyncio.Protocol, ServerConnection(self)),
            host,
            port,
            ssl=ssl,
            reuse_port=reuse_port or None,
            backlog=_BACKLOG,
            ssl_handshake_timeout=handshake_timeout,
            ssl_shutdown_timeout=handshake_timeout,
        )
        self._listeners.append(listener)
        if self._timer is None:
            self._tick()
        return [sock.getsockname()[:2] for sock in listener.sockets]

    def drain(self) -> None:
        """End each connection with its next answer from now on; new ones are accepted."""
        self.draining = True

    async def close(self, grace: float) -> None:
        """Stop accepting, let requests in flight finish within `grace` seconds, then cut."""
        self.drain()
        for listener in self._listeners:
            listener.close()
        for connection in list(self._open):
            connection.close_if_idle()
        await self._wait_until_empty(grace)
        for connection in list(self._open):
            connection.cut()
        await self._wait_until_empty(1.0)
        for listener in self._listeners:
            await listener.wait_closed()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def sweep(self) -> None:
        """End what has passed its deadline; called every half second."""
        self.now = now = self.clock()
        for connection in list(self._open):
            if connection.deadline <= now:
                connection.expire(now)

    def _tick(self) -> None:
        # Scheduled first: an error in one connection must not end all timeouts.
        self._timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._tick)
        self.sweep()

    async def _wait_until_empty(self, seconds: float) -> None:
        if self._open:
            self._all_closed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), seconds)

    # Called by connections

    def admit(self, connection: ServerConnection) -> None:
        """Admit a new connection, or reject it at the cap."""
        self._open.add(connection)
        if self.connections >= self.limits.max_connections:
            self._make_room(connection.network)
        if self.connections < self.limits.max_connections:
            self.connections += 1
            self._admitted.setdefault(connection.network, {})[connection] = None
        else:
            why = overloaded("The server has too many connections already.")
            self._reject(connection, partial(connection.refuse, why))

    def remove(self, connection: ServerConnection) -> None:
        """Remove a closed connection."""
        self._open.discard(connection)
        self._release_slot(connection)
        if not self._open:
            self._all_closed.set()

    def _make_room(self, network: str) -> None:
        """Close a connection of the network with the most, if the newcomer's still has fewer.

        Only one without a pending answer; the oldest are checked first.
        """
        largest = max(self._admitted.values(), key=len)
        if len(largest) <= len(self._admitted.get(network, ())) + 1:
            return
        for connection in list(islice(largest, MAX_EVICTION_CANDIDATES)):
            if connection.is_waiting:
                self._release_slot(connection)  # now, because its socket may take a while to close
                self._reject(connection, connection.evict)
                return
            largest[connection] = largest.pop(connection)  # the next check begins behind it

    def _reject(self, connection: ServerConnection, close: Callable[[], None]) -> None:
        """Close a connection for lack of room; at once if too many are closing already."""
        self.refused_connections += 1
        if len(self._open) > self.limits.max_connections + MAX_REFUSED_CONNECTIONS:
            connection.cut()
        else:
            close()

    def _release_slot(self, connection: ServerConnection) -> None:
        admitted = self._admitted.get(connection.network, {})
        if connection in admitted:
            self.connections -= 1
            del admitted[connection]
            if not admitted:
                del self._admitted[connection.network]

    def on_client_gone(self, exchange: Exchange[Any]) -> None:
        """Notify the handler that the client of an unfinished exchange is gone."""
        self.disconnects += 1
        self._notify_disconnect(exchange)

    def fail(self, exchange: Exchange[Any], error: Exception) -> None:
        """Answer for a handler that raised: with a 500, or a reset if its answer had begun."""
        self._report(error)
        if exchange.is_open:
            self._notify_disconnect(exchange)
            message = "The server failed to handle this request."
            exchange.fail(RequestRefused(500, "internal_error", message))

    def _notify_disconnect(self, exchange: Exchange[Any]) -> None:
        try:
            self.handler.on_disconnect(exchange)
        except Exception as error:  # noqa: BLE001 - a handler's fault must not end the server
            self._report(error)

    def count_refusal(self, status: int) -> None:
        """Count a request that the server itself refused."""
        if status < 500:
            self.bad_requests += 1
        elif status == 503:
            self.overloads += 1

    def _report(self, error: Exception) -> None:
        self.handler_errors += 1
        if self._on_error is not None:
            self._on_error(error)
