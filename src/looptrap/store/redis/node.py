"""One server: batches to it, a breaker before it, and the memory that counts while it is away."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

from looptrap.detect.scope import Window
from looptrap.store.memory import MemoryStore
from looptrap.store.redis.address import StoreAddress
from looptrap.store.redis.connection import (
    Argument,
    RedisConnection,
    StoreError,
    connect,
    pack_command,
)
from looptrap.store.redis.request import MAX_OPERATIONS, RequestBatch, StoreRequest
from looptrap.store.redis.script import SCRIPT, SCRIPT_SHA1, encode_hit, record_key

READ_GRACE_S = 0.002
"""Seconds in which a loop that was itself late reads what has come, before it blames a server."""


class DeadlineTimer:
    """Calls `overdue` when the earliest deadline of all has passed, and nobody has answered.

    Deadlines are of `time.monotonic`: the time of a loop stands still while a turn lasts.
    """

    def __init__(self, earliest: Callable[[], float | None], overdue: Callable[[], None]) -> None:
        self._earliest = earliest
        self._overdue = overdue
        self._timer: asyncio.TimerHandle | None = None
        self._goes_off = 0.0

    def set(self, deadline: float) -> None:
        """See to it that somebody looks at this time, or sooner."""
        if self._timer is not None and self._goes_off <= deadline:
            return
        self._arm(deadline, False)

    def cancel(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, goes_off: float, is_second: bool) -> None:
        self.cancel()
        self._goes_off = goes_off
        delay = max(0.0, goes_off - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._look, is_second)

    def _look(self, is_second: bool) -> None:
        self._timer = None
        deadline, now = self._earliest(), time.monotonic()
        if deadline is None:
            return
        if deadline > now:
            self._arm(deadline, False)
        elif not is_second:
            self._arm(now + READ_GRACE_S, True)
        else:
            self._overdue()


log = logging.getLogger("looptrap")

LOG_INTERVAL_S = 1.0
"""Seconds between two lines of the log."""


class StoreErrorLog:
    """Errors of a store, as plain numbers for metrics and as few lines for the log."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.errors = 0
        self._monotonic = monotonic
        self._quiet_until = float("-inf")
        self._unsaid = 0

    def report(self, where: object, reason: str) -> None:
        """Count an error, and say it unless another was said just before."""
        self.errors += 1
        now = self._monotonic()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        self._quiet_until = now + LOG_INTERVAL_S
        more = f" ({self._unsaid} more errors since the last line)" if self._unsaid else ""
        self._unsaid = 0
        log.error("store %s: %s; counting locally%s", where, reason, more)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The same for all servers of a store."""

    timeout: float
    """Seconds after which a batch is answered from memory."""
    probe_every: float
    """Seconds from one look at a server that is away to the next."""
    max_fingerprints: int
    """How many keys the memory tracks that counts while a server is away."""
    clock: Callable[[], float]
    """The time of what is counted here."""
    trouble: StoreErrorLog


CONNECT_TIMEOUT_S = 1.0
MAX_HOPS = 4

LOAD_SCRIPT_COMMAND = pack_command((b"SCRIPT", b"LOAD", SCRIPT))
PROBE_WINDOW = Window(1.0)


class ClusterRouting(Protocol):
    """The servers beside this one, where there are any."""

    def redirect(self, node: RedisNode, batch: RequestBatch, error: str) -> bool:
        """Send a batch where its server says; say whether that can be done."""
        ...

    def refresh(self) -> None:
        """Find out who does what now that a server is away."""
        ...


class RedisNode:
    """A server, in one of three states: connecting, where asks wait; shared; or away.

    While it is away asks are answered at once, from a memory that was empty when it went.
    """

    def __init__(
        self, address: StoreAddress, terms: NodeOptions, others: ClusterRouting | None = None
    ) -> None:
        self.address = address
        self.probe = b"\0\0"
        """A key whose record this server may write, to see whether it can."""
        self.batches = 0
        self._terms = terms
        self._others = others
        self._loop = asyncio.get_running_loop()
        self._connection: RedisConnection | None = None
        self._memory: MemoryStore | None = None
        self._open: dict[int, RequestBatch] = {}
        self._pending: list[RequestBatch] = []
        self._in_flight: deque[RequestBatch] = deque()
        self._alarm = DeadlineTimer(self._earliest, self._overdue)
        self._tried = float("-inf")
        self._settled = asyncio.Event()
        self._recovery: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def is_degraded(self) -> bool:
        """Whether it is away, and this process counts alone."""
        return self._memory is not None

    async def start(self) -> None:
        """Connect; return when that is done, or has failed and is being tried again."""
        self.recover()
        await self._settled.wait()

    async def stop(self) -> None:
        """Close the connection; whoever still waits is answered from memory."""
        self._is_stopped = True
        self._leave()
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)

    # Asking

    def take(self, ask: StoreRequest, now: float | None, slot: int = 0) -> None:
        """Carry out an ask with whatever else arrives in this turn of the loop."""
        if self._memory is not None:
            ask.answer_locally(self._memory, self._terms.clock() if now is None else now)
            return
        batch = self._open.get(slot)
        if batch is None or batch.now != now or len(batch.records) >= MAX_OPERATIONS:
            batch = self._open[slot] = RequestBatch(now)
            self.submit(batch)
        batch.add(ask)

    def submit(self, batch: RequestBatch) -> None:
        """Send a batch at the end of this turn of the loop."""
        if self._memory is not None:
            batch.answer_locally(self._memory, self._terms.clock)
            return
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(batch)

    async def call(self, _slot: int, *command: Argument) -> Any:
        """Send one command and return its reply; a `StoreError` where there is none in time."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._settled.wait()
                if self._connection is None:
                    raise StoreError(f"the store {self.address} cannot be reached")
                return await self._connection.call(*command)
        except TimeoutError:
            raise StoreError(f"the store {self.address} does not answer") from None

    def _flush(self) -> None:
        batches = self._pending
        if not batches:
            return
        self._open.clear()
        deadline = time.monotonic() + self._terms.timeout
        for batch in batches:
            batch.deadline = batch.deadline or deadline
        self._alarm.set(min(batch.deadline for batch in batches))
        if self._connection is None:
            return
        self._pending = []
        self.batches += len(batches)
        self._in_flight.extend(batches)
        commands: list[bytes] = []
        waiting: list[Callable[[Any], None]] = []
        for batch in batches:
            commands += batch.prefaces
            waiting += [_ignore_reply] * len(batch.prefaces)
            commands.append(batch.command())
            waiting.append(partial(self._replied, batch))
        self._connection.send(commands[0] if len(commands) == 1 else b"".join(commands), *waiting)

    def _replied(self, batch: RequestBatch, reply: Any) -> None:
        if not self._in_flight or self._in_flight[0] is not batch:
            return  # it was answered from memory, and the connection is being closed
        self._in_flight.popleft()
        if type(reply) is list:
            batch.answer(reply)
        elif not self._is_helped(batch, str(reply)):
            self._in_flight.appendleft(batch)
            self._fail(str(reply))

    def _is_helped(self, batch: RequestBatch, error: str) -> bool:
        """Send a batch again, as its error says, unless there is nothing to be done about it."""
        batch.hops += 1
        if batch.hops > MAX_HOPS:
            return False
        if error.startswith("NOSCRIPT"):
            batch.prefaces = [LOAD_SCRIPT_COMMAND, *batch.prefaces]
            self.submit(batch)
            return True
        return self._others is not None and self._others.redirect(self, batch, error)

    def _earliest(self) -> float | None:
        """Return when the first of the batches that wait for an answer is overdue."""
        waiting = chain(self._in_flight, self._pending)
        return min((batch.deadline for batch in waiting if batch.deadline), default=None)

    def _overdue(self) -> None:
        self._fail(f"no answer within {self._terms.timeout * 1000:.0f} ms")

    # Away and back

    def _lost(self, reason: str) -> None:
        if self._connection is None:
            return
        is_idle = not self._in_flight and not self._pending
        if is_idle and time.monotonic() > self._tried + self._terms.probe_every:
            # Servers may end what nobody uses. Whoever asks now waits for the next connection.
            self._connection = None
            self._settled.clear()
            self.recover()
        else:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        self._terms.trouble.report(self.address, reason)
        self._leave()
        self.recover()

    def _leave(self) -> None:
        """Count in this process from now on."""
        self._settled.set()
        if self._others is not None and not self._is_stopped:
            self._others.refresh()
        if self._memory is None:
            self._memory = MemoryStore(self._terms.max_fingerprints)
        connection, self._connection = self._connection, None
        batches = [*self._in_flight, *self._pending]
        self._in_flight.clear()
        self._pending.clear()
        self._open.clear()
        self._alarm.cancel()
        if connection is not None:
            connection.close()
        for batch in batches:
            batch.answer_locally(self._memory, self._terms.clock)

    def recover(self) -> None:
        """Look after a server that is away until it is back."""
        if self._recovery is None and not self._is_stopped:
            self._recovery = self._loop.create_task(self._recover())

    async def _recover(self) -> None:
        while True:
            pause = self._tried + self._terms.probe_every - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            self._tried = time.monotonic()
            try:
                connection = await self._connect()
            except OSError as error:
                self._terms.trouble.report(self.address, str(error) or "no answer while connecting")
                self._leave()
                continue
            self._recovery = None
            self._return(connection)
            return

    def _return(self, connection: RedisConnection) -> None:
        """Count in the server again; what was counted here meanwhile is dropped."""
        self._connection = connection
        if self._memory is not None:
            self._memory = None
            log.info("store %s: counting is shared again", self.address)
        self._settled.set()
        self._flush()

    async def _connect(self) -> RedisConnection:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            connection = await connect(self.address, self._lost)
            try:
                await connection.call(b"SCRIPT", b"LOAD", SCRIPT)
                async with asyncio.timeout(self._terms.timeout):
                    await self._prove(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    async def _prove(self, connection: RedisConnection) -> None:
        """See that the server can record a hit: one that is full, or a replica, answers a PING."""
        record, operation = record_key(self.probe), encode_hit(PROBE_WINDOW, False)
        try:
            await connection.call(b"EVALSHA", SCRIPT_SHA1, 1, record, b"", operation)
        except StoreError as error:
            if not str(error).startswith(("MOVED ", "ASK ")):  # of a cluster, and well
                raise


def _ignore_reply(_reply: Any) -> None:
    """Take the reply to a command whose failure shows in the next one."""
