"""The deliverer: takes letters that are due from the outbox, and brings them to their channels."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from random import Random
from typing import Any, TypeVar

from looptrap.incident.alert.backoff import delay, is_over
from looptrap.incident.alert.channel import Channel
from looptrap.incident.alert.failure import DeliveryError
from looptrap.incident.alert.lane import Lane
from looptrap.incident.history.letter import Letter
from looptrap.incident.history.outbox import Outbox

LEASE = 30.0
"""Seconds for which letters are ours alone; when we are gone, they are others' after that."""
LONGEST_SEND = 16.0
"""Seconds for one attempt, whatever the channel is; more than channels allow themselves."""
BATCH = 100
"""Letters of channels that are no longer there, at a time."""
LOOK = 5.0
"""Seconds between two looks at the outbox, where nobody says that there is something new."""
SHORTEST_LOOK = 0.5
GRACE = 2.0
"""Seconds for attempts under way when the gateway stops."""
GONE = "none"
"""Stands for channels that are no longer there, in counts."""

log = logging.getLogger("looptrap")

T = TypeVar("T")


class Deliverer:
    """Delivers at least once; one channel that is slow or away never holds up another."""

    def __init__(
        self,
        outbox: Outbox,
        channels: Sequence[Channel],
        *,
        owner: str,
        clock: Callable[[], float] = time.time,
        rng: Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`owner` is a name that no other deliverer of this outbox has."""
        self.deliveries: dict[tuple[str, str], int] = {
            (channel.name, outcome): 0
            for channel in channels
            for outcome in ("attempts", "delivered", "failed", "dead")
        }
        """How many, by channel and outcome."""
        self._outbox = outbox
        self._lanes = {channel.name: Lane(channel) for channel in channels}
        self._owner = owner
        self._clock = clock
        self._rng = rng or Random()
        self._sleep = sleep
        # One thread: whatever the disk does, the loop goes on; and calls stay in order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="looptrap-outbox")
        self._gone = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._under_way: dict[asyncio.Task[None], Letter] = {}

    def start(self) -> None:
        """Begin with what is there; needs a running loop."""
        loop = asyncio.get_running_loop()
        lanes = [self._serve(lane) for lane in self._lanes.values()]
        self._tasks = [loop.create_task(task) for task in (*lanes, self._bury_gone())]

    def wake(self) -> None:
        """Look at the outbox at once; to be called on the loop's own thread."""
        self._gone.set()
        for lane in self._lanes.values():
            lane.stirred.set()

    async def close(self) -> None:
        """Give what is under way a moment, and end; what is not delivered stays in the outbox."""
        await _ended(self._tasks)
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=GRACE)
        cut = list(self._under_way.values())
        await _ended(list(self._under_way))
        now = self._clock()
        with suppress(TimeoutError):  # then their leases end by themselves
            async with asyncio.timeout(GRACE):
                for letter in cut:
                    failed = partial(self._outbox.failed, letter, "cut short by a stop", now)
                    await self._record(failed)
        # A disk that hangs must not keep the gateway from ending.
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, lane: Lane) -> None:
        """Send off the letters of one channel, for ever."""
        others = [name for name in self._lanes if name != lane.channel.name]
        while True:
            lane.stirred.clear()
            now = self._clock()
            room, look_at = lane.room(now), lane.rests_until if now < lane.rests_until else inf
            if room > 0:
                letters, look_at = await self._take(now, room, others)
                for letter in letters:
                    await self._send_off(lane, letter)
            await self._wait(lane.stirred, look_at - self._clock())

    async def _bury_gone(self) -> None:
        """Give up what is for channels that are no longer there, for ever."""
        while True:
            self._gone.clear()
            letters, look_at = await self._take(self._clock(), BATCH, self._lanes)
            for letter in letters:
                await self._bury(letter, GONE, f"there is no channel {letter.channel!r} any more")
            await self._wait(self._gone, look_at - self._clock())

    async def _wait(self, stirred: asyncio.Event, seconds: float) -> None:
        """Wait so long, or until something happens."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(stirred.wait())]
        if seconds < inf:
            waits.append(asyncio.ensure_future(self._sleep(max(seconds, 0.0))))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def _take(
        self, now: float, most: int, without: Collection[str]
    ) -> tuple[list[Letter], float]:
        """Take what is due; return it, and when to look again."""
        try:
            # To look is to read; only what is there to be taken is worth a turn at writing.
            due = await self._in_thread(partial(self._outbox.next_due, without=without))
            if due is None or due > now:
                return [], min(now + LOOK, due or inf)
            lease = partial(self._outbox.lease, without=without)
            letters = await self._in_thread(partial(lease, now, self._owner, most, LEASE))
        except Exception as error:  # noqa: BLE001 - a disk that fails is no reason to stop trying
            log.error("the outbox cannot be read: %s", _what(error))
            return [], now + LOOK
        return letters, now if letters else now + SHORTEST_LOOK

    async def _send_off(self, lane: Lane, letter: Letter) -> None:
        if letter.channel != lane.channel.name:
            await self._bury(letter, GONE, f"there is no channel {letter.channel!r} any more")
            return
        lane.under_way += 1
        attempt = asyncio.get_running_loop().create_task(self._attempt(lane, letter))
        self._under_way[attempt] = letter
        attempt.add_done_callback(self._under_way.pop)

    async def _attempt(self, lane: Lane, letter: Letter) -> None:
        name = lane.channel.name
        self._count(name, "attempts")
        try:
            await self._deliver(lane.channel, letter)
        except DeliveryError as error:
            await self._failed(lane, letter, error)
        else:
            lane.succeeded()
            self._count(name, "delivered")
            await self._record(partial(self._outbox.delivered, letter, self._clock()))
        finally:
            lane.under_way -= 1
            lane.stirred.set()

    async def _deliver(self, channel: Channel, letter: Letter) -> None:
        try:
            async with asyncio.timeout(LONGEST_SEND):
                await channel.send(letter.event)
        except DeliveryError:
            raise
        except TimeoutError:
            raise DeliveryError(f"took more than {LONGEST_SEND:g} s") from None
        except Exception as error:  # a letter that cannot be written must not stop the others
            log.exception("channel %s", channel.name)
            raise DeliveryError(f"internal error ({type(error).__name__})") from None

    async def _failed(self, lane: Lane, letter: Letter, error: DeliveryError) -> None:
        name, now = lane.channel.name, self._clock()
        self._count(name, "failed")
        wait = max(delay(letter.attempts, self._rng), error.retry_after or 0.0)
        if error.is_final or is_over(letter.created, now + wait):
            await self._bury(letter, name, error.reason)
            return
        lane.failed(error, now, self._rng)
        log.warning(
            "alert %s is not delivered: channel %s: %s; tried again in %.0f s",
            *(letter.event.id, name, error.reason, wait),
        )
        await self._record(partial(self._outbox.failed, letter, error.reason, now + wait))

    async def _bury(self, letter: Letter, channel: str, reason: str) -> None:
        self._count(channel, "dead")
        log.error("alert %s is given up: channel %s: %s", letter.event.id, channel, reason)
        await self._record(partial(self._outbox.bury, letter, reason))

    async def _record(self, change: Callable[[], object]) -> None:
        """Tell the outbox; what cannot be told is sent again, which receivers know by its id."""
        try:
            await self._in_thread(change)
        except Exception as error:  # noqa: BLE001 - see above
            log.error("the outbox cannot be written: %s", _what(error))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _count(self, channel: str, outcome: str) -> None:
        key = (channel, outcome)
        self.deliveries[key] = self.deliveries.get(key, 0) + 1


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _what(error: Exception) -> str:
    return str(error) or type(error).__name__
