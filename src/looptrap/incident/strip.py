"""StripBuilder: builds strips of incidents on the writer's thread, within a share of its time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from looptrap.bounded import LruMap
from looptrap.detect.strip import strip
from looptrap.detect.trajectory import Trajectory
from looptrap.engine import Ticket
from looptrap.incident.model import NO_STRIP, Sighting, Strip, compact_strip
from looptrap.incident.tracker import COUNTED_SIGNALS, CorrelationKey, sighting_keys

REDRAW_INTERVAL_S = 1.0
"""Seconds after which the strip of an open incident is built again."""

THREAD_TIME_SHARE = 0.05
"""Share of the writer thread's time for this: it holds the interpreter lock that calls need."""

MAX_BURST_S = 0.05
"""Seconds of that share that can be saved up."""

MAX_WAITING_HISTORIES = 64
MAX_WAITING_BYTES = 32 << 20
"""Histories, and bytes of their requests, that wait; a further one is left out."""

MAX_REMEMBERED_STRIPS = 1_000
"""Incidents whose last build time is remembered."""

log = logging.getLogger("looptrap")


class StripBuilder:
    """Queues the latest history of each loop, and builds strips when there is time."""

    def __init__(self, secret: bytes, *, timer: Callable[[], float] = time.perf_counter) -> None:
        self.secret = secret
        self._timer = timer
        self._waiting: dict[CorrelationKey, tuple[Sequence[CorrelationKey], Trajectory, int]] = {}
        self._enqueued_bytes = self._built_bytes = 0
        """Bytes of requests; two counters, because each is written by one thread only."""
        self._built_at: LruMap[CorrelationKey, float] = LruMap(MAX_REMEMBERED_STRIPS)
        self._seconds_left = MAX_BURST_S
        self._last_refill = timer()

    # On the event loop

    def enqueue(self, sighting: Sighting, ticket: Ticket) -> None:
        """Queue the history of a call if the rule that acted on it reads histories."""
        trajectory, size = ticket.trajectory, len(ticket.call.request.body)
        if trajectory is None or sighting.signal in COUNTED_SIGNALS:
            return
        held = self._enqueued_bytes - self._built_bytes
        if len(self._waiting) >= MAX_WAITING_HISTORIES or held + size > MAX_WAITING_BYTES:
            return
        correlations = sighting_keys(sighting)
        before = self._waiting.pop(correlations[0], None)
        self._enqueued_bytes += size - (before[2] if before is not None else 0)
        self._waiting[correlations[0]] = correlations, trajectory, size

    # On the writer's thread

    def waiting(self) -> list[CorrelationKey]:
        """Return the queued keys: the sightings of all of these were queued before."""
        return list(self._waiting)

    def build(
        self, waiting: Iterable[CorrelationKey]
    ) -> Iterator[tuple[Sequence[CorrelationKey], Strip]]:
        """Yield the strips that are due, with the keys of their incidents; the rest waits."""
        began = self._timer()
        self._seconds_left = min(
            self._seconds_left + (began - self._last_refill) * THREAD_TIME_SHARE, MAX_BURST_S
        )
        self._last_refill = began
        for key in waiting:
            if self._seconds_left <= 0:
                return
            if began - self._built_at.get(key, -REDRAW_INTERVAL_S) < REDRAW_INTERVAL_S:
                continue
            found = self._waiting.pop(key, None)
            if found is None:
                continue  # a later one is just being queued in its place
            correlations, trajectory, size = found
            self._built_bytes += size
            self._built_at[key] = began
            before = self._timer()
            built = self._strip_of(trajectory)
            self._seconds_left -= self._timer() - before
            if built.order:
                yield correlations, built

    def _strip_of(self, trajectory: Trajectory) -> Strip:
        try:
            return compact_strip(strip(trajectory, self.secret))
        except Exception:
            log.exception("the strip of an incident could not be built")
            return NO_STRIP
