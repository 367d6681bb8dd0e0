"""Listens, bounds and sweeps: the HTTP/1.1 server as a whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from ssl import SSLContext

from looptrap.wire.exchange import Exchange, Handler
from looptrap.wire.head import HeadReader
from looptrap.wire.limits import ServerLimits
from looptrap.wire.refusal import RefusalBuilder, RequestRefused, json_refusal, overloaded
from looptrap.wire.server_connection import ServerConnection

SWEEP_INTERVAL_S = 0.5
MAX_REFUSED_CONNECTIONS = 256
"""How many connections beyond the cap are told so; any more are closed without a word."""
LOOKED_AT = 64
"""Connections that are looked at to make room for one more."""
_BACKLOG = 4096


class Server:
    """Serves `handler` on any number of addresses; its counters are plain attributes."""

    def __init__(
        self,
        handler: Handler,
        limits: ServerLimits | None = None,
        *,
        refuse: RefusalBuilder = json_refusal,
        on_error: Callable[[Exception], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.handler = handler
        self.limits = limits or ServerLimits()
        self.heads = HeadReader(self.limits)
        self.make_refusal = refuse
        self.clock = clock
        self.now = clock()  # as of the last sweep
        self.draining = False

        self.connections = 0
        self.requests = 0
        self.buffered_bytes = 0
        self.refused_connections = 0
        self.bad_requests = 0
        self.overloads = 0
        self.handler_errors = 0
        self.disconnects = 0

        self._on_error = on_error
        self._open: set[ServerConnection] = set()
        self._admitted: dict[str, dict[ServerConnection, None]] = {}  # by network
        self._emptied = asyncio.Event()
        self._listeners: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None

    async def listen(
        self, host: str, port: int, *, ssl: SSLContext | None = None, reuse_port: bool = False
    ) -> list[tuple[str, int]]:
        """Accept connections at `host`; return the addresses bound, with the port found for 0."""
        loop = asyncio.get_running_loop()
        secure = ssl is not None
        listener = await loop.create_server(
            lambda: ServerConnection(self, secure),
            host,
            port,
            ssl=ssl,
            reuse_port=reuse_port or None,
            backlog=_BACKLOG,
            ssl_handshake_timeout=self.limits.head_timeout if secure else None,
            ssl_shutdown_timeout=self.limits.head_timeout if secure else None,
        )
        self._listeners.append(listener)
        if self._timer is None:
            self._tick()
        return [sock.getsockname()[:2] for sock in listener.sockets]

    async def close(self, grace: float) -> None:
        """Stop accepting, let requests in flight finish within `grace` seconds, then cut."""
        self.draining = True
        for listener in self._listeners:
            listener.close()
        for connection in list(self._open):
            connection.close_if_idle()
        await self._empty(grace)
        for connection in list(self._open):
            connection.cut()
        await self._empty(1.0)
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
        # First the next one: whatever goes wrong with one connection, all have their time-outs.
        self._timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._tick)
        self.sweep()

    async def _empty(self, seconds: float) -> None:
        if self._open:
            self._emptied.clear()
            try:
                await asyncio.wait_for(self._emptied.wait(), seconds)
            except TimeoutError:
                return

    # What connections report

    def welcome(self, connection: ServerConnection) -> None:
        """Take in a new connection, or turn it away at the cap."""
        self._open.add(connection)
        if self.connections >= self.limits.max_connections:
            self._make_room(connection.network)
        if self.connections < self.limits.max_connections:
            self.connections += 1
            self._admitted.setdefault(connection.network, {})[connection] = None
        else:
            why = overloaded("The server has too many connections already.")
            self._turn_away(connection, partial(connection.refuse, why))

    def forget(self, connection: ServerConnection) -> None:
        """Drop a connection that is no more."""
        self._open.discard(connection)
        self._dismiss(connection)
        if not self._open:
            self._emptied.set()

    def _make_room(self, network: str) -> None:
        """End a connection of the network that holds most, if a newcomer's would still hold fewer.

        Only one for which no answer is under way; the oldest are looked at first.
        """
        most = max(self._admitted.values(), key=len)
        if len(most) <= len(self._admitted.get(network, ())) + 1:
            return
        for connection in list(islice(most, LOOKED_AT)):
            if connection.is_waiting:
                self._dismiss(connection)  # now: its socket may take a while to close
                self._turn_away(connection, connection.evict)
                return
            most[connection] = most.pop(connection)  # the next look begins behind it

    def _turn_away(self, connection: ServerConnection, politely: Callable[[], None]) -> None:
        """End a connection for want of room; at once where too many are ending already."""
        self.refused_connections += 1
        if len(self._open) > self.limits.max_connections + MAX_REFUSED_CONNECTIONS:
            connection.cut()
        else:
            politely()

    def _dismiss(self, connection: ServerConnection) -> None:
        """Give the place of a connection to others, if it has one."""
        admitted = self._admitted.get(connection.network, {})
        if connection in admitted:
            self.connections -= 1
            del admitted[connection]
            if not admitted:
                del self._admitted[connection.network]

    def lose(self, exchange: Exchange) -> None:
        """Tell the handler that the client of an unfinished exchange is gone."""
        self.disconnects += 1
        self._give_up(exchange)

    def fail(self, exchange: Exchange, error: Exception) -> None:
        """Answer for a handler that raised: 500, or a cut where its answer had begun."""
        self._report(error)
        if exchange.is_open:
            self._give_up(exchange)
            exchange.fail(
                RequestRefused(500, "internal_error", "The server failed to handle this request.")
            )

    def _give_up(self, exchange: Exchange) -> None:
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
