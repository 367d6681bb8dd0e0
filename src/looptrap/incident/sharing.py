"""What instances with one store tell each other of incidents, so that each is told of once.

An incident is known under the id of whoever saw it first, and an event is told by whoever claims it
first. What an instance saw goes into a stream that all follow. While the store is away, each
instance goes on alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeVar

import msgspec

from looptrap.incident.model import AlertEvent, Annotation, Incident
from looptrap.store.redis import RedisStore
from looptrap.store.redis.shared_configuration import SharedStream

STREAM_KEY = b"lt:inc:log"
OPEN_KEY_PREFIX = b"lt:inc:open:"
CLAIM_KEY_PREFIX = b"lt:inc:told:"

MAX_STREAM_ENTRIES = 10_000
"""About so many of the latest changes are there for an instance that starts."""

STREAM_KEEP_S = 7 * 86_400

CLAIM_S = 60
"""Seconds in which nobody else tells an event: by then all have heard that it was told."""

POLL_INTERVAL_S = 0.25
"""Seconds between two looks at what others saw."""

MAX_CONCURRENT_REQUESTS = 200
"""Questions that wait for an answer at the same time."""

MAX_QUEUED = 10_000

T = TypeVar("T")

ANNOTATION_PREFIX = b"remark:"
"""How what people said begins in the stream; what was seen is JSON."""

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Incident).decode
_decode_remark = msgspec.json.Decoder(Annotation).decode


class IncidentSharing:
    """Claims what this instance opens and tells, and follows what the others see.

    What it is asked and what it found out wait in queues, so that the desk's thread never does.
    """

    def __init__(self, store: RedisStore, history_id: str, *, quiet: float) -> None:
        self.ignored = 0
        """Entries of the stream that could not be read."""
        self._configuration = store.configuration
        self._stream = SharedStream(
            store.configuration, STREAM_KEY, most=MAX_STREAM_ENTRIES, seconds=STREAM_KEEP_S
        )
        self._history_id = history_id
        self._open_for = int(quiet) + 60
        self._asked: deque[tuple[str, str]] = deque()
        self._to_claim: deque[AlertEvent] = deque()
        self._to_publish: deque[Incident | Annotation] = deque(maxlen=MAX_QUEUED)
        self._adopted: deque[tuple[str, str]] = deque()
        self._claimed: deque[tuple[AlertEvent, bool]] = deque()
        self._learned: deque[Incident] = deque(maxlen=MAX_QUEUED)
        self._remarked: deque[Annotation] = deque(maxlen=MAX_QUEUED)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    # Called on the thread of the desk

    def ask(self, opened: Iterable[tuple[str, str]]) -> set[str]:
        """Ask under which id incidents that were opened here are known: keys and ids.

        Return the keys that were asked about: the rest finds no room for now.
        """
        asked = list(islice(opened, MAX_QUEUED - len(self._asked)))
        self._asked.extend(asked)
        self._wake()
        return {key for key, _ in asked}

    def claim(self, events: Sequence[AlertEvent]) -> Sequence[AlertEvent]:
        """Ask whether these are this instance's to tell; return those that find no room."""
        room = MAX_QUEUED - len(self._to_claim)
        self._to_claim.extend(events[:room])
        self._wake()
        return events[room:]

    def publish(self, told: Iterable[Incident | Annotation]) -> None:
        """Tell the others what was seen here, or said."""
        self._to_publish.extend(told)
        self._wake()

    def adopted(self) -> list[tuple[str, str]]:
        """Return keys and the ids that all use for them."""
        return _drain(self._adopted)

    def claimed(self) -> list[tuple[AlertEvent, bool]]:
        """Return events, and whether they are this instance's to tell."""
        return _drain(self._claimed)

    def learned(self) -> list[Incident]:
        """Return what the others saw."""
        return _drain(self._learned)

    def remarked(self) -> list[Annotation]:
        """Return what people told them."""
        return _drain(self._remarked)

    # On the loop

    def start(self) -> None:
        """Begin to follow."""
        self._loop = asyncio.get_running_loop()
        self._following = self._loop.create_task(self._follow())

    async def stop(self) -> None:
        """Tell what is left to be told, and end."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            await self._share()

    def is_of_this_history(self, part: Incident) -> bool:
        """Say whether what was seen is in the same file already."""
        return part.instance.startswith(self._history_id)

    async def _follow(self) -> None:
        while True:
            await self._share()
            try:
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()

    async def _share(self) -> None:
        """Ask, claim, tell and hear what there is; alone where the store is away."""
        await _run_all(self._asked, self._agree_on_id)
        await _run_all(self._to_claim, self._agree_on_teller)
        await _run_all(self._to_publish, self._push)
        try:
            await self._pull()
        except OSError:
            return  # the next look tries again

    async def _agree_on_id(self, opened: tuple[str, str]) -> None:
        key, chosen = opened
        try:
            agreed = await self._configuration.first(
                OPEN_KEY_PREFIX + key.encode(), chosen, self._open_for
            )
        except OSError:
            agreed = chosen
        self._adopted.append((key, agreed))

    async def _agree_on_teller(self, event: AlertEvent) -> None:
        try:
            teller = await self._configuration.first(
                CLAIM_KEY_PREFIX + event.id.encode(), self._history_id, _claim_seconds(event)
            )
        except OSError:
            teller = self._history_id
        self._claimed.append((event, teller == self._history_id))

    async def _push(self, told: Incident | Annotation) -> None:
        try:
            if isinstance(told, Annotation):
                await self._stream.push(ANNOTATION_PREFIX + _encode(told))
                return
            await self._stream.push(_encode(told))
            if told.closed is None:
                open_key = OPEN_KEY_PREFIX + told.key.encode()
                await self._configuration.command(b"EXPIRE", open_key, self._open_for)
        except OSError:
            return  # the next change of it tells all

    async def _pull(self) -> None:
        """Hear what others saw since the last look."""
        async for text in self._stream.pull():
            self._learn(text)

    def _learn(self, text: bytes) -> None:
        try:
            if text.startswith(ANNOTATION_PREFIX):
                self._remarked.append(_decode_remark(text.removeprefix(ANNOTATION_PREFIX)))
            else:
                self._learned.append(_decode(text))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.ignored += 1

    def _wake(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._news.set)


def _claim_seconds(event: AlertEvent) -> int:
    """Return how long nobody else tells it; a budget stays where it is until its period ends."""
    if not event.name.startswith("budget."):
        return CLAIM_S
    ends = event.data["resets_at"]
    return STREAM_KEEP_S if ends is None else max(int(ends - event.time), CLAIM_S)


async def _run_all(waiting: deque[T], do: Callable[[T], Awaitable[None]]) -> None:
    """Do that for all that waits, some at the same time."""
    while waiting:
        some = [waiting.popleft() for _ in range(min(len(waiting), MAX_CONCURRENT_REQUESTS))]
        await asyncio.gather(*map(do, some))


def _drain(waiting: deque[T]) -> list[T]:
    return [waiting.popleft() for _ in range(len(waiting))]
