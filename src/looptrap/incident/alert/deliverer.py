"""The deliverer: takes due deliveries from the outbox, and sends them through their channels."""

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

from looptrap.incident.alert.address import DeliveryError
from looptrap.incident.alert.channel import AlertChannel
from looptrap.incident.history.outbox import Delivery, Outbox

FIRST_DELAYS_S = (1.0, 3.0, 10.0, 30.0)
"""Seconds before the first tries again: most failures are over in a moment."""
GROWTH_BASE_S = 60.0
MAX_DELAY_S = 3_600.0
MAX_EVENT_AGE_S = 72 * 3_600.0
"""Seconds for which an event is tried; receivers that are away for a weekend miss nothing."""
MAX_CHANNEL_PAUSE_S = 60.0
"""Seconds for which a channel that fails rests: then one letter finds out whether it is back."""


def retry_delay(failures: int, rng: Random) -> float:
    """Return the seconds to wait after so many failures in a row, the first being 1."""
    if failures <= len(FIRST_DELAYS_S):
        base = FIRST_DELAYS_S[max(failures, 1) - 1]
    else:
        base = min(MAX_DELAY_S, GROWTH_BASE_S * 2.0 ** min(failures - len(FIRST_DELAYS_S) - 1, 16))
    return min(MAX_DELAY_S, base * rng.uniform(0.8, 1.2))


def is_expired(created: float, due: float) -> bool:
    """Tell whether an event is too old to be tried at that time."""
    return due - created > MAX_EVENT_AGE_S


LEASE_S = 30.0
"""Seconds for which letters are ours alone; when we are gone, they are others' after that."""
SEND_TIMEOUT_S = 16.0
"""Seconds for one attempt, whatever the channel is; more than channels allow themselves."""
ORPHAN_BATCH_SIZE = 100
"""Letters of channels that are no longer there, at a time."""
POLL_INTERVAL_S = 5.0
"""Seconds between two looks at the outbox, where nobody says that there is something new."""
MIN_POLL_INTERVAL_S = 0.5
STOP_GRACE_S = 2.0
"""Seconds for attempts under way when the gateway stops."""
REMOVED_CHANNEL = "none"
"""Stands for channels that are no longer there, in counts."""

log = logging.getLogger("looptrap")

T = TypeVar("T")


class AlertDeliverer:
    """Delivers at least once; one channel that is slow or away never holds up another."""

    def __init__(
        self,
        outbox: Outbox,
        channels: Sequence[AlertChannel],
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
        self._lanes = {channel.name: ChannelQueue(channel) for channel in channels}
        self._owner = owner
        self._clock = clock
        self._rng = rng or Random()
        self._sleep = sleep
        # One thread: whatever the disk does, the loop goes on; and calls stay in order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="looptrap-outbox")
        self._gone = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._under_way: dict[asyncio.Task[None], Delivery] = {}

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
        await _cancel_all(self._tasks)
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=STOP_GRACE_S)
        cut = list(self._under_way.values())
        await _cancel_all(list(self._under_way))
        now = self._clock()
        with suppress(TimeoutError):  # then their leases end by themselves
            async with asyncio.timeout(STOP_GRACE_S):
                for letter in cut:
                    failed = partial(self._outbox.failed, letter, "cut short by a stop", now)
                    await self._record(failed)
        # A disk that hangs must not keep the gateway from ending.
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, lane: ChannelQueue) -> None:
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
            letters, look_at = await self._take(self._clock(), ORPHAN_BATCH_SIZE, self._lanes)
            for letter in letters:
                await self._bury(
                    letter, REMOVED_CHANNEL, f"there is no channel {letter.channel!r} any more"
                )
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
    ) -> tuple[list[Delivery], float]:
        """Take what is due; return it, and when to look again."""
        try:
            # To look is to read; only what is there to be taken is worth a turn at writing.
            due = await self._in_thread(partial(self._outbox.next_due, without=without))
            if due is None or due > now:
                return [], min(now + POLL_INTERVAL_S, due or inf)
            lease = partial(self._outbox.lease, without=without)
            letters = await self._in_thread(partial(lease, now, self._owner, most, LEASE_S))
        except Exception as error:  # noqa: BLE001 - a disk that fails is no reason to stop trying
            log.error("the outbox cannot be read: %s", _reason(error))
            return [], now + POLL_INTERVAL_S
        return letters, now if letters else now + MIN_POLL_INTERVAL_S

    async def _send_off(self, lane: ChannelQueue, letter: Delivery) -> None:
        if letter.channel != lane.channel.name:
            await self._bury(
                letter, REMOVED_CHANNEL, f"there is no channel {letter.channel!r} any more"
            )
            return
        lane.under_way += 1
        attempt = asyncio.get_running_loop().create_task(self._attempt(lane, letter))
        self._under_way[attempt] = letter
        attempt.add_done_callback(self._under_way.pop)

    async def _attempt(self, lane: ChannelQueue, letter: Delivery) -> None:
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

    async def _deliver(self, channel: AlertChannel, letter: Delivery) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await channel.send(letter.event)
        except DeliveryError:
            raise
        except TimeoutError:
            raise DeliveryError(f"took more than {SEND_TIMEOUT_S:g} s") from None
        except Exception as error:  # a letter that cannot be written must not stop the others
            log.exception("channel %s", channel.name)
            raise DeliveryError(f"internal error ({type(error).__name__})") from None

    async def _failed(self, lane: ChannelQueue, letter: Delivery, error: DeliveryError) -> None:
        name, now = lane.channel.name, self._clock()
        self._count(name, "failed")
        wait = max(retry_delay(letter.attempts, self._rng), error.retry_after or 0.0)
        if error.is_final or is_expired(letter.created, now + wait):
            await self._bury(letter, name, error.reason)
            return
        lane.failed(error, now, self._rng)
        log.warning(
            "alert %s is not delivered: channel %s: %s; tried again in %.0f s",
            *(letter.event.id, name, error.reason, wait),
        )
        await self._record(partial(self._outbox.failed, letter, error.reason, now + wait))

    async def _bury(self, letter: Delivery, channel: str, reason: str) -> None:
        self._count(channel, "dead")
        log.error("alert %s is given up: channel %s: %s", letter.event.id, channel, reason)
        await self._record(partial(self._outbox.bury, letter, reason))

    async def _record(self, change: Callable[[], object]) -> None:
        """Tell the outbox; what cannot be told is sent again, which receivers know by its id."""
        try:
            await self._in_thread(change)
        except Exception as error:  # noqa: BLE001 - see above
            log.error("the outbox cannot be written: %s", _reason(error))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _count(self, channel: str, outcome: str) -> None:
        key = (channel, outcome)
        self.deliveries[key] = self.deliveries.get(key, 0) + 1


async def _cancel_all(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


class ChannelQueue:
    """A channel that fails rests, and then one letter alone finds out whether it is back."""

    def __init__(self, channel: AlertChannel) -> None:
        self.channel = channel
        self.under_way = 0
        self.rests_until = 0.0
        self.stirred = asyncio.Event()
        """Something happened that may let a letter go."""
        self._failures = 0

    def room(self, now: float) -> int:
        """Return how many letters may go now."""
        if now < self.rests_until:
            return 0
        return (1 if self._failures else self.channel.at_once) - self.under_way

    def succeeded(self) -> None:
        """Send on at full speed."""
        self._failures = 0
        self.rests_until = 0.0

    def failed(self, error: DeliveryError, now: float, rng: Random) -> None:
        """Rest for a while, and for as long as the receiver asks."""
        if now >= self.rests_until:  # letters that fail side by side are one failure
            self._failures += 1
        pause = max(
            min(retry_delay(self._failures, rng), MAX_CHANNEL_PAUSE_S), error.retry_after or 0.0
        )
        self.rests_until = max(self.rests_until, now + pause)
