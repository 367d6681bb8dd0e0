"""IncidentSharing: instances with one store agree on incident ids and on who sends each alert.

The first instance to open an incident sets its id, and the first to claim an event sends it. Each
instance publishes its parts in a stream that all read. Without the store, each works alone.
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
"""Latest changes, about, that an instance finds when it starts."""

STREAM_KEEP_S = 7 * 86_400

CLAIM_S = 60
"""Seconds for which a claim holds: by then all instances have read that the event was sent."""

POLL_INTERVAL_S = 0.25
"""Seconds between two reads of the stream."""

MAX_CONCURRENT_REQUESTS = 200
"""Requests to the store in flight at the same time."""

MAX_QUEUED = 10_000

T = TypeVar("T")

ANNOTATION_PREFIX = b"remark:"
"""Prefix of annotations in the stream; incidents are plain JSON."""

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Incident).decode
_decode_annotation = msgspec.json.Decoder(Annotation).decode


class IncidentSharing:
    """Claims ids and alerts of this instance, and reads what the others publish.

    Questions and answers are queued, so that the recorder's thread never waits for the store; it
    drains the queues of answers.
    """

    def __init__(self, store: RedisStore, history_id: str, *, quiet: float) -> None:
        self.ignored = 0
        """Entries of the stream that could not be decoded."""
        self._configuration = store.configuration
        self._stream = SharedStream(
            store.configuration, STREAM_KEY, max_entries=MAX_STREAM_ENTRIES, seconds=STREAM_KEEP_S
        )
        self._history_id = history_id
        self._open_for = int(quiet) + 60
        self._to_agree: deque[tuple[str, str]] = deque()
        self._to_claim: deque[AlertEvent] = deque()
        self._to_publish: deque[Incident | Annotation] = deque(maxlen=MAX_QUEUED)
        self.agreed_ids: deque[tuple[str, str]] = deque()
        """Keys agreed on, with their shared ids."""
        self.claims: deque[tuple[AlertEvent, bool]] = deque()
        """Events decided, and whether this instance sends them."""
        self.incidents: deque[Incident] = deque(maxlen=MAX_QUEUED)
        """Parts that other instances published …"""
        self.annotations: deque[Annotation] = deque(maxlen=MAX_QUEUED)
        """… and their annotations."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # On the recorder's thread

    def ask(self, opened: Iterable[tuple[str, str]]) -> set[str]:
        """Ask for the shared ids of incidents opened here, given as keys and ids.

        Return the keys that were queued; the rest did not fit and can be asked again.
        """
        asked = list(islice(opened, MAX_QUEUED - len(self._to_agree)))
        self._to_agree.extend(asked)
        self._wake()
        return {key for key, _ in asked}

    def claim(self, events: Sequence[AlertEvent]) -> Sequence[AlertEvent]:
        """Ask whether this instance may send these events; return those that did not fit."""
        free = MAX_QUEUED - len(self._to_claim)
        self._to_claim.extend(events[:free])
        self._wake()
        return events[free:]

    def publish(self, changes: Iterable[Incident | Annotation]) -> None:
        """Publish incidents and annotations to the other instances."""
        self._to_publish.extend(changes)
        self._wake()

    # On the event loop

    def start(self) -> None:
        """Start to share."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._follow())

    async def stop(self) -> None:
        """Publish what is queued, and stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._share()

    def is_of_this_history(self, part: Incident) -> bool:
        """Return whether a part is written to the same history file by its own instance."""
        return part.instance.startswith(self._history_id)

    async def _follow(self) -> None:
        while True:
            await self._share()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await self._wakeup.wait()
            self._wakeup.clear()

    async def _share(self) -> None:
        """Process all queues and read the stream; without the store, decide alone."""
        # First what was closed, so that a loop that goes on does not get its id again.
        await _run_all(self._to_publish, self._push)
        await _run_all(self._to_agree, self._agree_on_id)
        await _run_all(self._to_claim, self._agree_on_sender)
        with suppress(OSError):  # the next round tries again
            async for text in self._stream.pull():
                self._receive(text)

    async def _agree_on_id(self, opened: tuple[str, str]) -> None:
        key, chosen = opened
        agreed = await self._agree(OPEN_KEY_PREFIX + key.encode(), chosen, self._open_for)
        self.agreed_ids.append((key, agreed))

    async def _agree_on_sender(self, event: AlertEvent) -> None:
        key, ours = CLAIM_KEY_PREFIX + event.id.encode(), self._history_id
        self.claims.append((event, await self._agree(key, ours, _claim_seconds(event)) == ours))

    async def _agree(self, key: bytes, ours: str, seconds: int) -> str:
        """Return the value that all instances use; without the store, ours."""
        try:
            return await self._configuration.set_if_absent(key, ours, seconds)
        except OSError:
            return ours

    async def _push(self, change: Incident | Annotation) -> None:
        prefix = ANNOTATION_PREFIX if isinstance(change, Annotation) else b""
        with suppress(OSError):  # the next change of an incident publishes the whole part
            await self._stream.push(prefix + _encode(change))
            if isinstance(change, Incident):
                await self._keep_id(change)

    async def _keep_id(self, part: Incident) -> None:
        """Keep the id of an open incident; one that is closed has no more calls under its id."""
        open_key = OPEN_KEY_PREFIX + part.key.encode()
        if part.closed is None:
            await self._configuration.command(b"EXPIRE", open_key, self._open_for)
        elif await self._configuration.command(b"GET", open_key) == part.id.encode():
            await self._configuration.command(b"DEL", open_key)

    def _receive(self, text: bytes) -> None:
        try:
            if text.startswith(ANNOTATION_PREFIX):
                self.annotations.append(_decode_annotation(text.removeprefix(ANNOTATION_PREFIX)))
            else:
                self.incidents.append(_decode(text))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.ignored += 1

    def _wake(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wakeup.set)


def _claim_seconds(event: AlertEvent) -> int:
    """Return how long a claim holds; that of a budget until its period ends."""
    if not event.name.startswith("budget."):
        return CLAIM_S
    ends = event.data["resets_at"]
    return STREAM_KEEP_S if ends is None else max(int(ends - event.time), CLAIM_S)


async def _run_all(waiting: deque[T], do: Callable[[T], Awaitable[None]]) -> None:
    """Run `do` for everything queued, a bounded number at a time."""
    while waiting:
        some = [waiting.popleft() for _ in range(min(len(waiting), MAX_CONCURRENT_REQUESTS))]
        await asyncio.gather(*map(do, some))


def drain(waiting: deque[T]) -> list[T]:
    """Remove and return everything queued by now."""
    return [waiting.popleft() for _ in range(len(waiting))]
