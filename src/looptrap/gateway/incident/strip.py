"""Strips of incidents: drawn beside the loop, some of them, so that nothing else has to wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from looptrap.admission import Ticket
from looptrap.detect.strip import strip
from looptrap.detect.trajectory import Trajectory
from looptrap.incident.mark import COUNTED, Mark, marks_of
from looptrap.incident.model import Sighting
from looptrap.incident.strip import NO_STRIP, Strip, kept

AGAIN = 1.0
"""Seconds after which the strip of an incident that goes on is drawn again."""

SHARE = 0.05
"""Of its time that the writer's thread spends on this: it takes the interpreter from calls."""

BURST = 0.05
"""Seconds of it that may come at once."""

MOST_WAITING = 64
MOST_BYTES = 32 << 20
"""So many histories, and so much of their requests, wait to be drawn; another is left out."""

MOST_DRAWN = 1_000
"""Incidents of which it is known when they were drawn."""

log = logging.getLogger("looptrap")


class Strips:
    """Remembers the latest history of what loops, and draws it when there is time."""

    def __init__(self, secret: bytes, *, timer: Callable[[], float] = time.perf_counter) -> None:
        self.secret = secret
        self._timer = timer
        self._waiting: dict[Mark, tuple[Sequence[Mark], Trajectory, int]] = {}
        self._taken = self._given = 0
        """Bytes of requests: each is changed by one thread only."""
        self._drawn: dict[Mark, float] = {}
        self._left = BURST
        self._looked = timer()

    # On the loop

    def take(self, seen: Sighting, ticket: Ticket) -> None:
        """Take the history of a call on which a rule acted that reads histories."""
        trajectory, size = ticket.trajectory, len(ticket.call.request.body)
        if trajectory is None or seen.signal in COUNTED:
            return
        held = self._taken - self._given
        if len(self._waiting) >= MOST_WAITING or held + size > MOST_BYTES:
            return
        marks = marks_of(seen)
        before = self._waiting.pop(marks[0], None)
        self._taken += size - (before[2] if before is not None else 0)
        self._waiting[marks[0]] = marks, trajectory, size

    # On the writer's thread

    def waiting(self) -> list[Mark]:
        """Return what there is to be drawn: of all this, sightings have come before."""
        return list(self._waiting)

    def draw(self, waiting: Iterable[Mark]) -> Iterator[tuple[Sequence[Mark], Strip]]:
        """Yield what of it is due, with the marks of the incident that it is of; the rest waits."""
        began = self._timer()
        self._left = min(self._left + (began - self._looked) * SHARE, BURST)
        self._looked = began
        for mark in waiting:
            if self._left <= 0:
                return
            if began - self._drawn.get(mark, -AGAIN) < AGAIN:
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
            return kept(strip(trajectory, self.secret))
        except Exception:
            log.exception("an incident goes without its strip")
            return NO_STRIP

    def _remember(self, mark: Mark, now: float) -> None:
        self._drawn.pop(mark, None)
        self._drawn[mark] = now
        if len(self._drawn) > MOST_DRAWN:
            del self._drawn[next(iter(self._drawn))]
