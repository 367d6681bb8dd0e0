"""From sightings to incidents, and to what people are told of them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from looptrap.incident.entry import Entry, add, note
from looptrap.incident.event import detected, escalated, renamed, resolved
from looptrap.incident.mark import Mark, digest_of, marks_in, marks_of
from looptrap.incident.merge import merged
from looptrap.incident.model import Event, Incident, Sighting, Step
from looptrap.incident.strip import Strip

STAGES = (2, 10, 100)
"""People hear again of an incident that has grown to so many times its threshold."""

MOST_OPEN = 10_000
"""Beyond it, the incident that has been quiet longest is over."""

OWNER_GONE = 30.0
"""Seconds after which an incident is closed by others when who saw it does not."""


MOST_MARKS = 40
"""So many ways lead to one incident: sessions and fingerprints."""


class Tracker:
    """Gathers sightings into incidents; says what is new about them, and what people should hear.

    With `is_shared`, an incident opened here has to be `adopt`ed under the id that all instances
    use before anything about it is given out. Unless it `is_heard`, there is nobody to be told.
    """

    def __init__(
        self,
        instance: str,
        *,
        quiet: float,
        new_id: Callable[[], str],
        is_shared: bool = False,
        is_heard: bool = True,
        most_open: int = MOST_OPEN,
    ) -> None:
        self.opened = 0
        self.saved = 0
        """What each refused call would have cost, as known when it was refused: nano-dollars."""
        self._instance = instance
        self._quiet = quiet
        self._new_id = new_id
        self._is_shared = is_shared
        self._is_heard = is_heard
        self._most_open = most_open
        self._entries: OrderedDict[str, Entry] = OrderedDict()  # the longest quiet first
        self._marked: dict[Mark, str] = {}
        """The key of the open incident that a mark leads to."""
        self._changed: dict[tuple[str, str], Incident] = {}

    @property
    def open(self) -> int:
        """How many incidents are open, here or elsewhere."""
        return len(self._entries)

    def sight(self, seen: Sighting) -> list[Event]:
        """Take a sighting; return what people should hear of it now."""
        marks = marks_of(seen)
        key = self._found(marks)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry(is_settled=not self._is_shared)
        self._entries.move_to_end(key)
        self._remember(key, entry, marks)
        if entry.own is None:
            entry.own = self._begin(key, entry, seen)
        add(entry.own, seen)
        if seen.is_refused:
            self.saved += entry.saved_by(seen)
        self._touch(entry, entry.own)
        told = self._tell(entry, entry.own, seen)
        if len(self._entries) > self._most_open:
            told += self._close(next(iter(self._entries)), seen.time)
        return told

    def draw(self, marks: Sequence[Mark], strip: Strip) -> None:
        """Take the latest rounds of what has these marks; of what is over, they come too late."""
        entry = self._entries.get(self._found(marks))
        if entry is not None and entry.own is not None:
            entry.own.strip = strip
            self._touch(entry, entry.own)

    def learn(self, part: Incident) -> None:
        """Take what another instance saw, or this one before it was started anew."""
        if part.instance == self._instance:
            return
        entry = self._entries.get(part.key)
        if entry is not None and entry.own is not None and entry.own.id != part.id:
            return  # of the same kind, and over
        if part.closed is not None:
            if entry is not None:
                entry.others.pop(part.instance, None)
                if not entry.parts():
                    self._forget(part.key)
            return
        if entry is None:
            if len(self._entries) >= self._most_open:
                return
            entry = self._entries[part.key] = Entry()
        entry.others[part.instance] = part
        self._remember(part.key, entry, marks_in(part))

    def unsettled(self) -> dict[str, str]:
        """Return the ids that were chosen here and nobody has agreed to, by key."""
        return {
            key: entry.own.id
            for key, entry in self._entries.items()
            if not entry.is_settled and entry.own is not None
        }

    def adopt(self, key: str, incident_id: str) -> list[Event]:
        """Go on under the id that all instances use; return what people should hear by now."""
        entry = self._entries.get(key)
        if entry is None or entry.own is None or entry.is_settled:
            return []
        entry.is_settled = True
        entry.own.id = incident_id
        self._touch(entry, entry.own)
        told, entry.waiting = entry.waiting, []
        return [renamed(event, incident_id) for event in told]

    def tick(self, now: float) -> list[Event]:
        """Close what has been quiet for long; return what people should hear of it."""
        told: list[Event] = []
        for key in list(self._entries):
            entry = self._entries[key]
            if entry.own is not None and entry.own.last + self._quiet > now:
                break  # those behind it were seen here later still
            patience = self._quiet if entry.own is not None else self._quiet + OWNER_GONE
            if entry.last + patience <= now:
                told += self._close(key, now)
        return told

    def take_changed(self) -> list[Incident]:
        """Return what has changed since this was last asked, and may be given out."""
        changed, self._changed = self._changed, {}
        return [replace(part) for part in changed.values()]

    def _found(self, marks: Sequence[Mark]) -> str:
        """Return the key of the open incident that one of these leads to, else one to open."""
        for mark in marks:
            key = self._marked.get(mark)
            if key is not None:
                return key
        return digest_of(marks[0])

    def _remember(self, key: str, entry: Entry, marks: Sequence[Mark]) -> None:
        """Let these lead to an incident; of very many, only the latest do."""
        for mark in marks:
            if self._marked.setdefault(mark, key) == key:
                entry.marks.pop(mark, None)
                entry.marks[mark] = None
        while len(entry.marks) > MOST_MARKS:
            oldest = next(iter(entry.marks))
            del entry.marks[oldest], self._marked[oldest]

    def _forget(self, key: str) -> Entry:
        entry = self._entries.pop(key)
        for mark in entry.marks:
            del self._marked[mark]
        return entry

    def _begin(self, key: str, entry: Entry, seen: Sighting) -> Incident:
        known = next(iter(entry.others.values()), None)
        if known is not None:
            entry.is_settled = True
        else:
            self.opened += 1
        return Incident(
            id=known.id if known is not None else self._new_id(),
            instance=self._instance,
            key=key,
            opened=seen.time,
            last=seen.time,
            before=max(seen.count - 1, 0) if known is None else 0,
            threshold=seen.threshold,
        )

    def _touch(self, entry: Entry, part: Incident) -> None:
        if entry.is_settled:
            self._changed[part.key, part.instance] = part

    def _tell(self, entry: Entry, own: Incident, seen: Sighting) -> list[Event]:
        """Return what is worth an alert: that it began, or has grown by far."""
        is_alarmed = entry.is_alarmed
        if not seen.is_alarming and not is_alarmed:
            return []
        hits, events = entry.hits, []
        if not is_alarmed:
            own.alarmed, own.threshold = seen.time, seen.threshold
            events = [detected(merged(entry.parts()), hits)] if self._is_heard else []
        times = hits // max(own.threshold, 1)
        stage = max([one for one in STAGES if one <= times], default=0)
        if stage > entry.stage:
            own.stage = stage
            note(own, Step(seen.time, f"stage {stage}", seen.rule, hits))
            if is_alarmed and self._is_heard:
                events = [escalated(merged(entry.parts()), hits)]
        if entry.is_settled:
            return events
        entry.waiting += events
        return []

    def _close(self, key: str, now: float) -> list[Event]:
        """Close an incident, also for those who saw it and are gone."""
        entry = self._forget(key)
        for part in entry.parts():
            is_ours = part is entry.own
            if is_ours or part.last + self._quiet + OWNER_GONE <= now:
                part.closed = now
                note(part, Step(now, "closed"))
                if entry.is_settled:
                    self._changed[key, part.instance] = part
        if not entry.is_alarmed or not entry.is_settled or not self._is_heard:
            return []
        return [resolved(entry.parts(), now, entry.hits)]
