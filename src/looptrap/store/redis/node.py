"""One server: batches to it, a breaker before it, and the memory that counts while it is away."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, Protocol

from looptrap.detect.window import Window
from looptrap.store.memory import MemoryStore
from looptrap.store.redis.address import Address
from looptrap.store.redis.alarm import Alarm
from looptrap.store.redis.ask import Ask
from looptrap.store.redis.batch import MAX_OPERATIONS, Batch
from looptrap.store.redis.connection import Argument, Connection, StoreError, connect, pack
from looptrap.store.redis.operation import DIGEST, SCRIPT, counting, record_of
from looptrap.store.redis.terms import Terms
from looptrap.store.redis.trouble import log

CONNECT_TIMEOUT = 1.0
MAX_HOPS = 4

LOAD = pack((b"SCRIPT", b"LOAD", SCRIPT))
PROBE = Window(1.0)


class Others(Protocol):
    """The servers beside this one, where there are any."""

    def redirect(self, node: Node, batch: Batch, error: str) -> bool:
        """Send a batch where its server says; say whether that can be done."""
        ...

    def refresh(self) -> None:
        """Find out who does what now that a server is away."""
        ...


class Node:
    """A server, in one of three states: connecting, where asks wait; shared; or away.

    While it is away asks are answered at once, from a memory that was empty when it went.
    """

    def __init__(self, address: Address, terms: Terms, others: Others | None = None) -> None:
        self.address = address
        self.probe = b"\0\0"
        """A key whose record this server may write, to see whether it can."""
        self.batches = 0
        self._terms = terms
        self._others = others
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._memory: MemoryStore | None = None
        self._open: dict[int, Batch] = {}
        self._pending: list[Batch] = []
        self._in_flight: deque[Batch] = deque()
        self._alarm = Alarm(self._earliest, self._overdue)
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

    def take(self, ask: Ask, now: float | None, slot: int = 0) -> None:
        """Carry out an ask with whatever else arrives in this turn of the loop."""
        if self._memory is not None:
            ask.answer_locally(self._memory, self._terms.clock() if now is None else now)
            return
        batch = self._open.get(slot)
        if batch is None or batch.now != now or len(batch.records) >= MAX_OPERATIONS:
            batch = self._open[slot] = Batch(now)
            self.submit(batch)
        batch.add(ask)

    def submit(self, batch: Batch) -> None:
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
            async with asyncio.timeout(CONNECT_TIMEOUT):
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
            waiting += [_ignore] * len(batch.prefaces)
            commands.append(batch.command())
            waiting.append(partial(self._replied, batch))
        self._connection.send(commands[0] if len(commands) == 1 else b"".join(commands), *waiting)

    def _replied(self, batch: Batch, reply: Any) -> None:
        if not self._in_flight or self._in_flight[0] is not batch:
            return  # it was answered from memory, and the connection is being closed
        self._in_flight.popleft()
        if type(reply) is list:
            batch.answer(reply)
        elif not self._is_helped(batch, str(reply)):
            self._in_flight.appendleft(batch)
            self._fail(str(reply))

    def _is_helped(self, batch: Batch, error: str) -> bool:
        """Send a batch again, as its error says, unless there is nothing to be done about it."""
        batch.hops += 1
        if batch.hops > MAX_HOPS:
            return False
        if error.startswith("NOSCRIPT"):
            batch.prefaces = [LOAD, *batch.prefaces]
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

    def _return(self, connection: Connection) -> None:
        """Count in the server again; what was counted here meanwhile is dropped."""
        self._connection = connection
        if self._memory is not None:
            self._memory = None
            log.info("store %s: counting is shared again", self.address)
        self._settled.set()
        self._flush()

    async def _connect(self) -> Connection:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            connection = await connect(self.address, self._lost)
            try:
                await connection.call(b"SCRIPT", b"LOAD", SCRIPT)
                async with asyncio.timeout(self._terms.timeout):
                    await self._prove(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    async def _prove(self, connection: Connection) -> None:
        """See that the server can record a hit: one that is full, or a replica, answers a PING."""
        record, operation = record_of(self.probe), counting(PROBE, False)
        try:
            await connection.call(b"EVALSHA", DIGEST, 1, record, b"", operation)
        except StoreError as error:
            if not str(error).startswith(("MOVED ", "ASK ")):  # of a cluster, and well
                raise


def _ignore(_reply: Any) -> None:
    """Take the reply to a command whose failure shows in the next one."""
