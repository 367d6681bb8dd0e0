"""From sightings to incidents, and to what people are told of them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from msgspec.structs import replace

from looptrap.incident.event import detected, escalated, renamed, resolved
from looptrap.incident.model import Event, Incident, Sighting, Step
from looptrap.policy.action import Action

STAGES = (2, 10, 100)
"""People hear again of an incident that has grown to so many times its threshold."""

MOST_OPEN = 10_000
"""Beyond it, the incident that has been quiet longest is over."""

MOST_STEPS = 50
MOST_FINGERPRINTS = 20

OWNER_GONE = 30.0
"""Seconds after which an incident is closed by others when who saw it does not."""

BYTES_A_TOKEN = 4
"""About, of requests in JSON."""


@dataclass(slots=True)
class _Entry:
    """An open incident: what was seen of it here, and what others saw."""

    own: Incident | None = None
    others: dict[str, Incident] = field(default_factory=dict)
    is_settled: bool = True
    """Whether its id is the one that all instances use."""
    waiting: list[Event] = field(default_factory=list)
    """What people are to be told as soon as that is so."""

    def parts(self) -> list[Incident]:
        return [*([self.own] if self.own is not None else ()), *self.others.values()]

    @property
    def last(self) -> float:
        return max(part.last for part in self.parts())

    @property
    def hits(self) -> int:
        """How often it has happened: as counted by the rule, or as seen here and elsewhere."""
        own = self.own
        if own is not None and not self.others:
            return max(own.calls + own.before, own.count)
        parts = self.parts()
        seen = sum(part.calls for part in parts) + max(part.before for part in parts)
        return max(seen, *(part.count for part in parts))

    @property
    def stage(self) -> int:
        if self.own is not None and not self.others:
            return self.own.stage
        return max(part.stage for part in self.parts())

    @property
    def is_alarmed(self) -> bool:
        if self.own is not None and self.own.alarmed is not None:
            return True
        return any(part.alarmed is not None for part in self.parts())


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
        self._instance = instance
        self._quiet = quiet
        self._new_id = new_id
        self._is_shared = is_shared
        self._is_heard = is_heard
        self._most_open = most_open
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # the longest quiet first
        self._changed: dict[tuple[str, str], Incident] = {}

    @property
    def open(self) -> int:
        """How many incidents are open, here or elsewhere."""
        return len(self._entries)

    def sight(self, seen: Sighting) -> list[Event]:
        """Take a sighting; return what people should hear of it now."""
        key = key_of(seen)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(is_settled=not self._is_shared)
        self._entries.move_to_end(key)
        if entry.own is None:
            entry.own = self._begin(key, entry, seen)
        _add(entry.own, seen)
        self._touch(entry, entry.own)
        told = self._tell(entry, entry.own, seen)
        if len(self._entries) > self._most_open:
            told += self._close(next(iter(self._entries)), seen.time)
        return told

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
                    del self._entries[part.key]
            return
        if entry is None:
            entry = self._entries[part.key] = _Entry()
        entry.others[part.instance] = part

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

    def _begin(self, key: str, entry: _Entry, seen: Sighting) -> Incident:
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

    def _touch(self, entry: _Entry, part: Incident) -> None:
        if entry.is_settled:
            self._changed[part.key, part.instance] = part

    def _tell(self, entry: _Entry, own: Incident, seen: Sighting) -> list[Event]:
        """Return what is worth an alert: that it began, or has grown by far."""
        is_alarmed = entry.is_alarmed
        if not seen.is_alarming and not is_alarmed:
            return []
        hits, events = entry.hits, []
        if not is_alarmed:
            own.alarmed, own.threshold = seen.time, seen.threshold
            events = [detected(own, hits)] if self._is_heard else []
        times = hits // max(own.threshold, 1)
        stage = max([one for one in STAGES if one <= times], default=0)
        if stage > entry.stage:
            own.stage = stage
            _note(own, Step(seen.time, f"stage {stage}", seen.rule, hits))
            if is_alarmed and self._is_heard:
                events = [escalated(own, hits)]
        if entry.is_settled:
            return events
        entry.waiting += events
        return []

    def _close(self, key: str, now: float) -> list[Event]:
        """Close an incident, also for those who saw it and are gone."""
        entry = self._entries.pop(key)
        for part in entry.parts():
            is_ours = part is entry.own
            if is_ours or part.last + self._quiet + OWNER_GONE <= now:
                part.closed = now
                _note(part, Step(now, "closed"))
                if entry.is_settled:
                    self._changed[key, part.instance] = part
        if not entry.is_alarmed or not entry.is_settled or not self._is_heard:
            return []
        return [resolved(entry.parts(), now, entry.hits)]


def key_of(seen: Sighting) -> str:
    """Return what further sightings of the same incident have in common.

    That is the session: one agent in a loop trips several rules, and is one incident.
    """
    whose = ("session", seen.session) if seen.session else ("fingerprint", seen.fingerprint)
    text = "\0".join((seen.caller, seen.project, seen.mode, *whose))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _add(own: Incident, seen: Sighting) -> None:
    """Add one sighting."""
    is_severer = not own.action or _severity(seen.action) > _severity(own.action)
    if is_severer or seen.rule != own.rule:
        _note(own, Step(seen.time, seen.action, seen.rule, seen.count, seen.fingerprint))
    own.last = max(own.last, seen.time)
    own.calls += 1
    own.request_id = seen.request_id
    if is_severer or _severity(seen.action) == _severity(own.action):
        _describe(own, seen)
    own.input_tokens += seen.input_tokens
    own.output_tokens += seen.output_tokens
    if seen.is_refused:
        own.refused += 1
        own.saved_tokens += seen.size // BYTES_A_TOKEN
        if seen.fingerprint and seen.fingerprint not in own.fingerprints:
            own.fingerprints = [*own.fingerprints[1 - MOST_FINGERPRINTS :], seen.fingerprint]


def _describe(own: Incident, seen: Sighting) -> None:
    """Let the incident be described by its severest, latest sighting."""
    for name in _DESCRIPTIVE:
        setattr(own, name, getattr(seen, name))


_DESCRIPTIVE = (
    "caller", "project", "session", "model", "dialect", "provider", "mode", "policy", "rule",
    "signal", "action", "count", "fingerprint", "cooldown", "message", "evidence",
)  # fmt: skip


def _note(own: Incident, step: Step) -> None:
    """Write down what happened; of many steps the first ones and the latest stay."""
    if len(own.steps) >= MOST_STEPS:
        del own.steps[MOST_STEPS // 2]
    own.steps.append(step)


def _severity(action: str) -> int:
    return Action(action).severity
