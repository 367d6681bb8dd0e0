"""Strips of incidents: drawn beside the loop, some of them, so that nothing else has to wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from looptrap.detect.strip import strip
from looptrap.detect.trajectory import Trajectory
from looptrap.engine import Ticket
from looptrap.incident.model import NO_STRIP, Sighting, Strip, compact_strip
from looptrap.incident.tracker import COUNTED_SIGNALS, CorrelationKey, sighting_keys

REDRAW_INTERVAL_S = 1.0
"""Seconds after which the strip of an incident that goes on is drawn again."""

THREAD_TIME_SHARE = 0.05
"""Of its time that the writer's thread spends on this: it takes the interpreter from calls."""

MAX_BURST_S = 0.05
"""Seconds of it that may come at once."""

MAX_WAITING_HISTORIES = 64
MAX_WAITING_BYTES = 32 << 20
"""So many histories, and so much of their requests, wait to be drawn; another is left out."""

MAX_REMEMBERED_STRIPS = 1_000
"""Incidents of which it is known when they were drawn."""

log = logging.getLogger("looptrap")


class StripBuilder:
    """Remembers the latest history of what loops, and draws it when there is time."""

    def __init__(self, secret: bytes, *, timer: Callable[[], float] = time.perf_counter) -> None:
        self.secret = secret
        self._timer = timer
        self._waiting: dict[CorrelationKey, tuple[Sequence[CorrelationKey], Trajectory, int]] = {}
        self._taken = self._given = 0
        """Bytes of requests: each is changed by one thread only."""
        self._drawn: dict[CorrelationKey, float] = {}
        self._left = MAX_BURST_S
        self._looked = timer()

    # On the loop

    def take(self, seen: Sighting, ticket: Ticket) -> None:
        """Take the history of a call on which a rule acted that reads histories."""
        trajectory, size = ticket.trajectory, len(ticket.call.request.body)
        if trajectory is None or seen.signal in COUNTED_SIGNALS:
            return
        held = self._taken - self._given
        if len(self._waiting) >= MAX_WAITING_HISTORIES or held + size > MAX_WAITING_BYTES:
            return
        marks = sighting_keys(seen)
        before = self._waiting.pop(marks[0], None)
        self._taken += size - (before[2] if before is not None else 0)
        self._waiting[marks[0]] = marks, trajectory, size

    # On the writer's thread

    def waiting(self) -> list[CorrelationKey]:
        """Return what there is to be drawn: of all this, sightings have come before."""
        return list(self._waiting)

    def draw(
        self, waiting: Iterable[CorrelationKey]
    ) -> Iterator[tuple[Sequence[CorrelationKey], Strip]]:
        """Yield what of it is due, with the marks of the incident that it is of; the rest waits."""
        began = self._timer()
        self._left = min(self._left + (began - self._looked) * THREAD_TIME_SHARE, MAX_BURST_S)
        self._looked = began
        for mark in waiting:
            if self._left <= 0:
                return
            if began - self._drawn.get(mark, -REDRAW_INTERVAL_S) < REDRAW_INTERVAL_S:
                continue
            found = self._waiting.pop(mark, None)
            if found is None:
                continue  # a later one is just being put in its place
            marks, trajectory, size = found
            self._given += size
            self._remember(mark, began)
            before = self._timer()
            drawn = self._drawn_of(trajectory)
            self._left -= self._timer() - before
            if drawn.order:
                yield marks, drawn

    def _drawn_of(self, trajectory: Trajectory) -> Strip:
        try:
            return compact_strip(strip(trajectory, self.secret))
        except Exception:
            log.exception("an incident goes without its strip")
            return NO_STRIP

    def _remember(self, mark: CorrelationKey, now: float) -> None:
        self._drawn.pop(mark, None)
        self._drawn[mark] = now
        if len(self._drawn) > MAX_REMEMBERED_STRIPS:
            del self._drawn[next(iter(self._drawn))]
