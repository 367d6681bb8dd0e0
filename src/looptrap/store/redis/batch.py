"""Asks that arrive in one turn of the loop, and the one command that carries them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from looptrap.store.memory import MemoryStore
from looptrap.store.redis.ask import Ask
from looptrap.store.redis.connection import pack
from looptrap.store.redis.operation import DIGEST, time_of

MAX_OPERATIONS = 256
"""From so many on, the next ask begins another command: a server does one at a time."""

log = logging.getLogger("looptrap")


class Batch:
    """Operations that one command carries: of one time and, in a cluster, of one slot."""

    __slots__ = ("_ends", "asks", "deadline", "hops", "now", "operations", "prefaces", "records")

    def __init__(self, now: float | None) -> None:
        self.now = now
        self.records: list[bytes] = []
        self.operations: list[bytes] = []
        self.asks: list[Ask] = []
        self._ends: list[int] = []  # how many operations there are up to the end of each ask
        self.deadline = 0.0
        """When it is answered from memory instead; zero until it is first sent."""
        self.prefaces: list[bytes] = []
        """Packed commands that go right before it."""
        self.hops = 0
        """How often a server could not carry it out, and said what to do about it."""

    def add(self, ask: Ask) -> None:
        """Take one ask more."""
        ask.write(self.records, self.operations)
        self.asks.append(ask)
        self._ends.append(len(self.records))

    def command(self) -> bytes:
        """Return the packed command."""
        records = self.records
        return pack(
            (b"EVALSHA", DIGEST, len(records), *records, time_of(self.now), *self.operations)
        )

    def answer(self, replies: Sequence[Any]) -> None:
        """Hand each ask its replies."""
        start = 0
        for ask, end in zip(self.asks, self._ends, strict=True):
            # One caller's fault must not cost the others their answers.
            try:
                ask.answer(replies[start:end])
            except Exception:
                log.exception("an answer of the store could not be used")
            start = end

    def answer_locally(self, memory: MemoryStore, clock: Callable[[], float]) -> None:
        """Answer every ask from memory."""
        now = clock() if self.now is None else self.now
        for ask in self.asks:
            try:
                ask.answer_locally(memory, now)
            except Exception:
                log.exception("an answer of the store could not be used")

    def parts(self) -> list[Batch]:
        """Return a batch for each operation; answered, they answer this one."""
        gathering = _Gathering(self)
        parts = []
        for index in range(len(self.records)):
            part = Batch(self.now)
            part.add(_Part(gathering, index))
            part.deadline, part.hops = self.deadline, self.hops
            parts.append(part)
        return parts


class _Gathering:
    """Replies to the parts of a batch; complete, they are the batch's."""

    def __init__(self, whole: Batch) -> None:
        self.whole = whole
        self.replies: list[Any] = [None] * len(whole.records)
        self.missing = len(whole.records)
        self.failed: tuple[MemoryStore, float] | None = None

    def settle(self) -> None:
        """Note that one part more is answered."""
        self.missing -= 1
        if self.missing:
            return
        if self.failed is None:
            self.whole.answer(self.replies)
        else:
            memory, now = self.failed
            self.whole.answer_locally(memory, lambda: now)


class _Part:
    """One operation of a batch that had to be cut up."""

    __slots__ = ("_gathering", "_index")

    def __init__(self, gathering: _Gathering, index: int) -> None:
        self._gathering = gathering
        self._index = index

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        records.append(self._gathering.whole.records[self._index])
        operations.append(self._gathering.whole.operations[self._index])

    def answer(self, replies: Sequence[Any]) -> None:
        self._gathering.replies[self._index] = replies[0]
        self._gathering.settle()

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        self._gathering.failed = memory, now
        self._gathering.settle()
