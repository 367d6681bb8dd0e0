"""RedisNode: one server, its breaker, and the memory that counts while it is away."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from looptrap.detect.window import Window
from looptrap.store.memory import MemoryStore
from looptrap.store.redis.address import StoreAddress
from looptrap.store.redis.connection import (
    Argument,
    RedisConnection,
    StoreError,
    connect,
    ignore,
    pack_command,
)
from looptrap.store.redis.request import (
    MAX_OPERATIONS,
    SCRIPT,
    SCRIPT_SHA1,
    RequestBatch,
    StoreRequest,
    encode_hit,
    record_key,
)

if TYPE_CHECKING:
    from looptrap.store.redis.topology import RedisCluster

READ_GRACE_S = 0.002
"""Seconds for a late event loop to read replies that have arrived, before a timeout counts."""


class DeadlineTimer:
    """Calls `on_timeout` when the earliest deadline has passed without an answer.

    Deadlines are of `time.monotonic`: a loop's own time does not advance within a turn.
    """

    def __init__(
        self, earliest: Callable[[], float | None], on_timeout: Callable[[], None]
    ) -> None:
        self._earliest = earliest
        self._on_timeout = on_timeout
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = 0.0

    def set(self, deadline: float) -> None:
        """Check at this time at the latest."""
        if self._timer is not None and self._fires_at <= deadline:
            return
        self._arm(deadline, False)

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, fires_at: float, is_second: bool) -> None:
        self.cancel()
        self._fires_at = fires_at
        delay = max(0.0, fires_at - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._check, is_second)

    def _check(self, is_second: bool) -> None:
        self._timer = None
        deadline, now = self._earliest(), time.monotonic()
        if deadline is None:
            return
        if deadline > now:
            self._arm(deadline, False)
        elif not is_second:
            self._arm(now + READ_GRACE_S, True)
        else:
            self._on_timeout()


log = logging.getLogger("looptrap")

LOG_INTERVAL_S = 1.0
"""Seconds between two log lines."""


class StoreErrorLog:
    """Counts the errors of a store for metrics, and logs at most one a second."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.errors = 0
        self._monotonic = monotonic
        self._quiet_until = float("-inf")
        self._suppressed = 0

    def report(self, where: object, reason: str) -> None:
        """Count an error, and log it unless another was logged just before."""
        self.errors += 1
        now = self._monotonic()
        if now < self._quiet_until:
            self._suppressed += 1
            return
        self._quiet_until = now + LOG_INTERVAL_S
        more = f" ({self._suppressed} more errors since the last line)" if self._suppressed else ""
        self._suppressed = 0
        log.error("store %s: %s; counting locally%s", where, reason, more)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """Options of all servers of a store."""

    timeout: float
    """Seconds after which a batch is answered from memory."""
    probe_every: float
    """Seconds between two attempts to reach a server that is away."""
    max_fingerprints: int
    """Maximum keys of the local memory that is used while a server is away."""
    clock: Callable[[], float]
    """The clock of local counts."""
    error_log: StoreErrorLog = field(default_factory=lambda: StoreErrorLog(time.monotonic))


CONNECT_TIMEOUT_S = 1.0
MAX_HOPS = 4

LOAD_SCRIPT_COMMAND = pack_command((b"SCRIPT", b"LOAD", SCRIPT))
PROBE_WINDOW = Window(1.0)


class RedisNode:
    """A server, in one of three states: connecting, where requests wait; shared; or away.

    While it is away, requests are answered at once from a memory that starts empty.
    """

    def __init__(
        self,
        address: StoreAddress,
        options: NodeOptions,
        cluster: RedisCluster | None = None,
        locate: Callable[[], Awaitable[StoreAddress]] | None = None,
    ) -> None:
        """`locate` returns where the server is, if that may change; every attempt asks it."""
        self.address = address
        self._locate = locate
        self.probe = b"\0\0"
        """A key in this server's slots, to probe whether it can write."""
        self.batches = 0
        self._options = options
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._connection: RedisConnection | None = None
        self._memory: MemoryStore | None = None
        self._open: RequestBatch | None = None
        self._pending: list[RequestBatch] = []
        self._in_flight: deque[RequestBatch] = deque()
        self._timer = DeadlineTimer(self._earliest, self._on_timeout)
        self._last_attempt = float("-inf")
        self._ready = asyncio.Event()
        self._recovery: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def is_degraded(self) -> bool:
        """Whether it is away, so that this process counts locally."""
        return self._memory is not None

    async def start(self) -> None:
        """Connect; return when that has succeeded or first failed."""
        self.recover()
        await self._ready.wait()

    async def stop(self) -> None:
        """Close the connection; pending requests are answered from memory."""
        self._is_stopped = True
        self._go_local()
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)

    # Requests

    def take(self, request: StoreRequest, now: float | None) -> None:
        """Add a request to the batch of this turn of the loop."""
        if self._memory is not None:
            request.answer_locally(self._memory, self._options.clock() if now is None else now)
            return
        batch = self._open
        if batch is None or batch.now != now or len(batch.keys) >= MAX_OPERATIONS:
            batch = self._open = RequestBatch(now)
            self.submit(batch)
        batch.add(request)

    def submit(self, batch: RequestBatch) -> None:
        """Send a batch at the end of this turn of the loop."""
        if self._memory is not None:
            batch.answer_locally(self._memory, self._options.clock)
            return
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(batch)

    async def call(self, _slot: int, *command: Argument) -> Any:
        """Send one command and return its reply; raise StoreError if there is none in time."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._ready.wait()
                if self._connection is None:
                    raise StoreError(f"the store {self.address} cannot be reached")
                return await self._connection.call(*command)
        except TimeoutError:
            raise StoreError(f"the store {self.address} does not answer") from None

    def _flush(self) -> None:
        batches = self._pending
        if not batches:
            return
        self._open = None
        deadline = time.monotonic() + self._options.timeout
        for batch in batches:
            batch.deadline = batch.deadline or deadline
        self._timer.set(min(batch.deadline for batch in batches))
        if self._connection is None:
            return
        self._pending = []
        self.batches += len(batches)
        self._in_flight.extend(batches)
        commands: list[bytes] = []
        waiting: list[Callable[[Any], None]] = []
        for batch in batches:
            commands += batch.preceding
            waiting += [ignore] * len(batch.preceding)
            commands.append(batch.command(self._cluster is not None))
            waiting.append(partial(self._replied, batch))
        self._connection.send(commands[0] if len(commands) == 1 else b"".join(commands), *waiting)

    def _replied(self, batch: RequestBatch, reply: Any) -> None:
        if not self._in_flight or self._in_flight[0] is not batch:
            return  # already answered from memory; the connection is being closed
        self._in_flight.popleft()
        if type(reply) is list:
            batch.answer(reply)
        elif not self._resend(batch, str(reply)):
            self._in_flight.appendleft(batch)
            self._fail(str(reply))

    def _resend(self, batch: RequestBatch, error: str) -> bool:
        """Send a failed batch again if its error can be resolved; return whether it can."""
        batch.hops += 1
        if batch.hops > MAX_HOPS:
            return False
        if error.startswith("NOSCRIPT"):
            batch.preceding = [LOAD_SCRIPT_COMMAND, *batch.preceding]
            self.submit(batch)
            return True
        return self._cluster is not None and self._cluster.redirect(self, batch, error)

    def _earliest(self) -> float | None:
        """Return the earliest deadline of the batches without an answer."""
        waiting = chain(self._in_flight, self._pending)
        return min((batch.deadline for batch in waiting if batch.deadline), default=None)

    def _on_timeout(self) -> None:
        self._fail(f"no answer within {self._options.timeout * 1000:.0f} ms")

    # Away and back

    def _lost(self, reason: str) -> None:
        if self._connection is None:
            return
        is_idle = not self._in_flight and not self._pending
        if is_idle and time.monotonic() > self._last_attempt + self._options.probe_every:
            # Servers may close idle connections. New requests wait for the next connection.
            self._connection = None
            self._ready.clear()
            self.recover()
        else:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        self._options.error_log.report(self.address, reason)
        self._go_local()
        self.recover()

    def _go_local(self) -> None:
        """Count in this process from now on, and answer all pending batches."""
        self._ready.set()
        if self._cluster is not None and not self._is_stopped:
            self._cluster.refresh()
        if self._memory is None:
            self._memory = MemoryStore(self._options.max_fingerprints)
        connection, self._connection = self._connection, None
        batches = [*self._in_flight, *self._pending]
        self._in_flight.clear()
        self._pending.clear()
        self._open = None
        self._timer.cancel()
        if connection is not None:
            connection.close()
        for batch in batches:
            batch.answer_locally(self._memory, self._options.clock)

    def recover(self) -> None:
        """Try to reach the server until it is back."""
        if self._recovery is None and not self._is_stopped:
            self._recovery = self._loop.create_task(self._recover())

    async def _recover(self) -> None:
        while True:
            pause = self._last_attempt + self._options.probe_every - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            self._last_attempt = time.monotonic()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    if self._locate is not None:
                        self.address = await self._locate()
                    connection = await connect(self.address, self._lost, prepare=self._prepare)
            except OSError as error:
                reason = str(error) or "no answer while connecting"
                self._options.error_log.report(self.address, reason)
                self._go_local()
                continue
            self._recovery = None
            self._go_shared(connection)
            return

    def _go_shared(self, connection: RedisConnection) -> None:
        """Count in the server again; local counts are dropped."""
        self._connection = connection
        if self._memory is not None:
            self._memory = None
            log.info("store %s: counting is shared again", self.address)
        self._ready.set()
        self._flush()

    async def _prepare(self, connection: RedisConnection) -> None:
        """Load the script, and record a hit: a full server, or a replica, would answer a PING."""
        await connection.call(b"SCRIPT", b"LOAD", SCRIPT)
        record, operation = record_key(self.probe), encode_hit(PROBE_WINDOW, False)
        try:
            async with asyncio.timeout(self._options.timeout):
                await connection.call(b"EVALSHA", SCRIPT_SHA1, 1, record, b"", operation)
        except StoreError as error:
            # A redirect shows that a cluster's server works.
            if not str(error).startswith(("MOVED ", "ASK ")):
                raise
