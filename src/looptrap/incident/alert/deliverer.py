"""AlertDeliverer: sends due deliveries of the outbox through their channels."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from random import Random
from typing import Any, TypeVar, TypeVarTuple

from looptrap.incident.alert.channel import AlertChannel
from looptrap.incident.alert.webhook import DeliveryError
from looptrap.incident.history.outbox import Delivery, Outbox

FIRST_DELAYS_S = (1.0, 3.0, 10.0, 30.0)
"""Seconds before the first retries: most failures are short."""
GROWTH_BASE_S = 60.0
MAX_DELAY_S = 3_600.0
MAX_EVENT_AGE_S = 72 * 3_600.0
"""Seconds for which an event is tried: a receiver may be down for a weekend."""
MAX_CHANNEL_PAUSE_S = 60.0
"""Seconds for which a failing channel is paused; then one delivery probes it."""


def retry_delay(failures: int, rng: Random) -> float:
    """Return the seconds to wait after a number of failures in a row, the first being 1."""
    if failures <= len(FIRST_DELAYS_S):
        base = FIRST_DELAYS_S[max(failures, 1) - 1]
    else:
        base = min(MAX_DELAY_S, GROWTH_BASE_S * 2.0 ** min(failures - len(FIRST_DELAYS_S) - 1, 16))
    return min(MAX_DELAY_S, base * rng.uniform(0.8, 1.2))


def is_expired(created: float, due: float) -> bool:
    """Return whether an event is too old to be tried at the time `due`."""
    return due - created > MAX_EVENT_AGE_S


LEASE_S = 30.0
"""Seconds of a lease; afterwards another process may take the delivery over."""
SEND_TIMEOUT_S = 16.0
"""Seconds for one attempt; more than the channels' own timeouts."""
REMOVED_BATCH_SIZE = 100
"""Deliveries of removed channels ended at a time."""
POLL_INTERVAL_S = 5.0
"""Seconds between two reads of the outbox without a wake-up."""
MIN_POLL_INTERVAL_S = 0.5
STOP_GRACE_S = 2.0
"""Seconds for attempts in flight when the gateway stops."""
REMOVED_CHANNEL = "none"
"""The channel name of removed channels in counters."""

log = logging.getLogger("looptrap")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class AlertDeliverer:
    """Delivers at least once; a slow or failing channel never delays another."""

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
        """`owner` is unique among the deliverers of this outbox."""
        outcomes = ("attempts", "delivered", "failed", "dead")
        names = [channel.name for channel in channels]
        self.deliveries = Counter({(name, outcome): 0 for name in names for outcome in outcomes})
        """By channel and outcome."""
        self._outbox = outbox
        self._queues = {channel.name: ChannelQueue(channel) for channel in channels}
        self._owner = owner
        self._clock = clock
        self._rng = rng or Random()
        self._sleep = sleep
        # One thread: a slow disk does not block the loop, and calls stay in order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="looptrap-outbox")
        self._removed = ChannelQueue(None)
        """Deliveries of removed channels, which are ended."""
        self._tasks: list[asyncio.Task[None]] = []
        self._in_flight: dict[asyncio.Task[None], Delivery] = {}

    def start(self) -> None:
        """Start; needs a running loop."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run_queue(queue)) for queue in self._all_queues()]

    def wake(self) -> None:
        """Read the outbox at once; call it on the loop's thread."""
        for queue in self._all_queues():
            queue.wakeup.set()

    async def close(self) -> None:
        """Give attempts in flight a moment, and stop; the rest stays in the outbox."""
        await _cancel_all(self._tasks)
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=STOP_GRACE_S)
        interrupted = list(self._in_flight.values())
        await _cancel_all(list(self._in_flight))
        now = self._clock()
        with suppress(TimeoutError):  # then their leases end by themselves
            async with asyncio.timeout(STOP_GRACE_S):
                for delivery in interrupted:
                    reason = "interrupted by a stop"
                    await self._record(self._outbox.reschedule, delivery, reason, now)
        # A disk that hangs must not keep the gateway from stopping.
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _all_queues(self) -> list[ChannelQueue]:
        return [*self._queues.values(), self._removed]

    async def _run_queue(self, queue: ChannelQueue) -> None:
        """Send the deliveries of one channel, or end those of removed ones, for ever."""
        others = [name for name, other in self._queues.items() if other is not queue]
        while True:
            queue.wakeup.clear()
            now = self._clock()
            next_check = queue.paused_until if now < queue.paused_until else inf
            if (free := queue.free_slots(now)) > 0:
                deliveries, next_check = await self._lease(now, free, others)
                for delivery in deliveries:
                    await self._start_attempt(queue, delivery)
            await self._wait(queue.wakeup, next_check - self._clock())

    async def _wait(self, wakeup: asyncio.Event, seconds: float) -> None:
        """Wait for the event, at most this long."""
        waiters: list[asyncio.Future[Any]] = [asyncio.ensure_future(wakeup.wait())]
        if seconds < inf:
            waiters.append(asyncio.ensure_future(self._sleep(max(seconds, 0.0))))
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiters:
                one.cancel()

    async def _lease(
        self, now: float, limit: int, without: Collection[str]
    ) -> tuple[list[Delivery], float]:
        """Lease what is due; return it, and when to look again."""
        try:
            # A read comes first: only a due delivery is worth taking the write lock.
            due = await self._in_thread(self._outbox.next_due, without)
            if due is None or due > now:
                return [], min(now + POLL_INTERVAL_S, due or inf)
            lease = now, self._owner, limit, LEASE_S, without
            deliveries = await self._in_thread(self._outbox.lease, *lease)
        except Exception as error:  # noqa: BLE001 - the next look tries again
            log.error("the outbox cannot be read: %s", _reason(error))
            return [], now + POLL_INTERVAL_S
        return deliveries, now if deliveries else now + MIN_POLL_INTERVAL_S

    async def _start_attempt(self, queue: ChannelQueue, delivery: Delivery) -> None:
        channel = queue.channel
        if channel is None or channel.name != delivery.channel:
            reason = f"channel {delivery.channel!r} no longer exists"
            await self._mark_dead(delivery, REMOVED_CHANNEL, reason)
            return
        queue.in_flight += 1
        attempt = asyncio.get_running_loop().create_task(self._attempt(queue, channel, delivery))
        self._in_flight[attempt] = delivery
        attempt.add_done_callback(self._in_flight.pop)

    async def _attempt(
        self, queue: ChannelQueue, channel: AlertChannel, delivery: Delivery
    ) -> None:
        self.deliveries[channel.name, "attempts"] += 1
        try:
            await self._deliver(channel, delivery)
        except DeliveryError as error:
            await self._failed(queue, delivery, error)
        else:
            queue.succeeded()
            self.deliveries[channel.name, "delivered"] += 1
            await self._record(self._outbox.mark_delivered, delivery, self._clock())
        finally:
            queue.in_flight -= 1
            queue.wakeup.set()

    async def _deliver(self, channel: AlertChannel, delivery: Delivery) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await channel.send(delivery.event)
        except DeliveryError:
            raise
        except TimeoutError:
            raise DeliveryError(f"took more than {SEND_TIMEOUT_S:g} s") from None
        except Exception as error:  # a delivery that cannot be sent must not stop the others
            log.exception("channel %s", channel.name)
            raise DeliveryError(f"internal error ({type(error).__name__})") from None

    async def _failed(self, queue: ChannelQueue, delivery: Delivery, error: DeliveryError) -> None:
        name, now = delivery.channel, self._clock()
        self.deliveries[name, "failed"] += 1
        wait = max(retry_delay(delivery.attempts, self._rng), error.retry_after or 0.0)
        if error.is_final or is_expired(delivery.created, now + wait):
            await self._mark_dead(delivery, name, error.reason)
            return
        queue.failed(error, now, self._rng)
        log.warning(
            "alert %s was not delivered: channel %s: %s; next try in %.0f s",
            *(delivery.event.id, name, error.reason, wait),
        )
        await self._record(self._outbox.reschedule, delivery, error.reason, now + wait)

    async def _mark_dead(self, delivery: Delivery, channel: str, reason: str) -> None:
        self.deliveries[channel, "dead"] += 1
        log.error("alert %s is dead: channel %s: %s", delivery.event.id, channel, reason)
        await self._record(self._outbox.mark_dead, delivery, reason)

    async def _record(self, change: Callable[[*Ts], object], *args: *Ts) -> None:
        """Update the outbox; if that fails the alert is sent again under the same id."""
        try:
            await self._in_thread(change, *args)
        except Exception as error:  # noqa: BLE001 - see above
            log.error("the outbox cannot be written: %s", _reason(error))

    async def _in_thread(self, call: Callable[[*Ts], T], *args: *Ts) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)


async def _cancel_all(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


class ChannelQueue:
    """The state of one channel; after a failure it pauses, and then one delivery probes it.

    Without a channel it is for the deliveries of removed channels.
    """

    def __init__(self, channel: AlertChannel | None) -> None:
        self.channel = channel
        self.in_flight = 0
        self.paused_until = 0.0
        self.wakeup = asyncio.Event()
        """Set when a delivery may have become possible."""
        self._failures = 0

    def free_slots(self, now: float) -> int:
        """Return how many deliveries may start now."""
        if now < self.paused_until:
            return 0
        if self.channel is None:
            return REMOVED_BATCH_SIZE
        return (1 if self._failures else self.channel.max_in_flight) - self.in_flight

    def succeeded(self) -> None:
        """End the pause."""
        self._failures = 0
        self.paused_until = 0.0

    def failed(self, error: DeliveryError, now: float, rng: Random) -> None:
        """Pause for a while, and at least for as long as the receiver asks."""
        if now >= self.paused_until:  # deliveries that fail side by side are one failure
            self._failures += 1
        pause = max(
            min(retry_delay(self._failures, rng), MAX_CHANNEL_PAUSE_S), error.retry_after or 0.0
        )
        self.paused_until = max(self.paused_until, now + pause)
