"""From sightings to incidents, and to the alert events about them. Pure.

One agent in a loop trips several rules in one session; one prompt that is sent over and over may
look like another session each time, and is counted under one fingerprint. Either correlation key
leads to the open incident.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

from msgspec.structs import replace

from looptrap.detect.fingerprint import is_history_fingerprint
from looptrap.incident.event import (
    detected_event,
    escalated_event,
    resolved_event,
    with_incident_id,
)
from looptrap.incident.model import (
    AlertEvent,
    Incident,
    IncidentDescription,
    IncidentStep,
    RuleDecision,
    Sighting,
    Strip,
    merge_parts,
)
from looptrap.policy.action import Action
from looptrap.policy.rule import SCOPES
from looptrap.usage.savings import rounded_mean

CorrelationKey: TypeAlias = tuple[str, str, str, str, str]
"""Whose, and of what kind: nothing of one caller is ever part of an incident of another."""

COUNTED_SIGNALS = frozenset((*SCOPES, "similar_prompt"))
"""What is counted across requests, and so under the same fingerprint each time."""


def sighting_keys(seen: Sighting) -> list[CorrelationKey]:
    """Return the marks of a sighting, the one first by which its incident is opened."""
    whose = (seen.caller, seen.project, seen.mode)
    is_counted = seen.signal in COUNTED_SIGNALS or not seen.session
    marks: list[CorrelationKey] = [(*whose, "fingerprint", seen.fingerprint)] if is_counted else []
    if seen.session:
        marks.append((*whose, "session", seen.session))
    return marks


def incident_keys(part: Incident) -> list[CorrelationKey]:
    """Return the marks of what was seen of an incident, as far as they are written down."""
    whose = (part.caller, part.project, part.mode)
    counted = [one for one in part.fingerprints if not is_history_fingerprint(one)]
    marks: list[CorrelationKey] = [(*whose, "fingerprint", one) for one in counted]
    if part.session:
        marks.append((*whose, "session", part.session))
    return marks


def correlation_digest(mark: CorrelationKey) -> str:
    """Return a mark as instances tell it to each other."""
    text = "\0".join(mark)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


ESCALATION_STAGES = (2, 10, 100)
"""People hear again of an incident that has grown to so many times its threshold."""

MAX_OPEN_INCIDENTS = 10_000
"""Beyond it, the incident that has been quiet longest is over."""

OWNER_TIMEOUT_S = 30.0
"""Seconds after which an incident is closed by others when who saw it does not."""


MAX_CORRELATION_KEYS = 40
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
        most_open: int = MAX_OPEN_INCIDENTS,
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
        self._entries: OrderedDict[str, OpenIncident] = OrderedDict()  # the longest quiet first
        self._marked: dict[CorrelationKey, str] = {}
        """The key of the open incident that a mark leads to."""
        self._changed: dict[tuple[str, str], Incident] = {}

    @property
    def open(self) -> int:
        """How many incidents are open, here or elsewhere."""
        return len(self._entries)

    def sight(self, seen: Sighting) -> list[AlertEvent]:
        """Take a sighting; return what people should hear of it now."""
        marks = sighting_keys(seen)
        key = self._found(marks)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = OpenIncident(is_settled=not self._is_shared)
        self._entries.move_to_end(key)
        self._remember(key, entry, marks)
        if entry.own is None:
            entry.own = self._begin(key, entry, seen)
        add_sighting(entry.own, seen)
        if seen.is_refused:
            self.saved += entry.saved_by(seen)
        self._touch(entry, entry.own)
        told = self._tell(entry, entry.own, seen)
        if len(self._entries) > self._most_open:
            told += self._close(next(iter(self._entries)), seen.time)
        return told

    def draw(self, marks: Sequence[CorrelationKey], strip: Strip) -> None:
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
            entry = self._entries[part.key] = OpenIncident()
        entry.others[part.instance] = part
        self._remember(part.key, entry, incident_keys(part))

    def unsettled(self) -> dict[str, str]:
        """Return the ids that were chosen here and nobody has agreed to, by key."""
        return {
            key: entry.own.id
            for key, entry in self._entries.items()
            if not entry.is_settled and entry.own is not None
        }

    def adopt(self, key: str, incident_id: str) -> list[AlertEvent]:
        """Go on under the id that all instances use; return what people should hear by now."""
        entry = self._entries.get(key)
        if entry is None or entry.own is None or entry.is_settled:
            return []
        entry.is_settled = True
        entry.own.id = incident_id
        self._touch(entry, entry.own)
        told, entry.waiting = entry.waiting, []
        return [with_incident_id(event, incident_id) for event in told]

    def tick(self, now: float) -> list[AlertEvent]:
        """Close what has been quiet for long; return what people should hear of it."""
        told: list[AlertEvent] = []
        for key in list(self._entries):
            entry = self._entries[key]
            if entry.own is not None and entry.own.last + self._quiet > now:
                break  # those behind it were seen here later still
            patience = self._quiet if entry.own is not None else self._quiet + OWNER_TIMEOUT_S
            if entry.last + patience <= now:
                told += self._close(key, now)
        return told

    def take_changed(self) -> list[Incident]:
        """Return what has changed since this was last asked, and may be given out."""
        changed, self._changed = self._changed, {}
        return [replace(part) for part in changed.values()]

    def _found(self, marks: Sequence[CorrelationKey]) -> str:
        """Return the key of the open incident that one of these leads to, else one to open."""
        for mark in marks:
            key = self._marked.get(mark)
            if key is not None:
                return key
        return correlation_digest(marks[0])

    def _remember(self, key: str, entry: OpenIncident, marks: Sequence[CorrelationKey]) -> None:
        """Let these lead to an incident; of very many, only the latest do."""
        for mark in marks:
            if self._marked.setdefault(mark, key) == key:
                entry.marks.pop(mark, None)
                entry.marks[mark] = None
        while len(entry.marks) > MAX_CORRELATION_KEYS:
            oldest = next(iter(entry.marks))
            del entry.marks[oldest], self._marked[oldest]

    def _forget(self, key: str) -> OpenIncident:
        entry = self._entries.pop(key)
        for mark in entry.marks:
            del self._marked[mark]
        return entry

    def _begin(self, key: str, entry: OpenIncident, seen: Sighting) -> Incident:
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

    def _touch(self, entry: OpenIncident, part: Incident) -> None:
        if entry.is_settled:
            self._changed[part.key, part.instance] = part

    def _tell(self, entry: OpenIncident, own: Incident, seen: Sighting) -> list[AlertEvent]:
        """Return what is worth an alert: that it began, or has grown by far."""
        is_alarmed = entry.is_alarmed
        if not seen.is_alarming and not is_alarmed:
            return []
        hits, events = entry.hits, []
        if not is_alarmed:
            own.alarmed, own.threshold = seen.time, seen.threshold
            events = [detected_event(merge_parts(entry.parts()), hits)] if self._is_heard else []
        times = hits // max(own.threshold, 1)
        stage = max([one for one in ESCALATION_STAGES if one <= times], default=0)
        if stage > entry.stage:
            own.stage = stage
            add_step(own, IncidentStep(seen.time, f"stage {stage}", seen.rule, hits))
            if is_alarmed and self._is_heard:
                events = [escalated_event(merge_parts(entry.parts()), hits)]
        if entry.is_settled:
            return events
        entry.waiting += events
        return []

    def _close(self, key: str, now: float) -> list[AlertEvent]:
        """Close an incident, also for those who saw it and are gone."""
        entry = self._forget(key)
        for part in entry.parts():
            is_ours = part is entry.own
            if is_ours or part.last + self._quiet + OWNER_TIMEOUT_S <= now:
                part.closed = now
                add_step(part, IncidentStep(now, "closed"))
                if entry.is_settled:
                    self._changed[key, part.instance] = part
        if not entry.is_alarmed or not entry.is_settled or not self._is_heard:
            return []
        return [resolved_event(entry.parts(), now, entry.hits)]


MAX_STEPS = 50
MAX_FINGERPRINTS = 20
MAX_RULE_DECISIONS = 20

BYTES_PER_TOKEN = 4
"""About, of requests in JSON."""


@dataclass(slots=True)
class OpenIncident:
    """An open incident: what was seen of it here, and what others saw."""

    own: Incident | None = None
    others: dict[str, Incident] = field(default_factory=dict)
    is_settled: bool = True
    """Whether its id is the one that all instances use."""
    waiting: list[AlertEvent] = field(default_factory=list)
    """What people are to be told as soon as that is so."""
    marks: dict[CorrelationKey, None] = field(default_factory=dict)
    """What leads to it, the latest last."""

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

    def saved_by(self, refused: Sighting) -> int:
        """Return what a refused call would have cost, in nano-dollars: so much is saved by it."""
        parts = self.parts()
        priced = sum(part.priced for part in parts)
        return rounded_mean(sum(part.cost for part in parts), priced) or refused.estimate or 0

    @property
    def is_alarmed(self) -> bool:
        if self.own is not None and self.own.alarmed is not None:
            return True
        return any(part.alarmed is not None for part in self.parts())


def add_sighting(own: Incident, seen: Sighting) -> None:
    """Add one sighting."""
    is_severer = not own.action or _severity(seen.action) > _severity(own.action)
    if is_severer or seen.rule != own.rule:
        add_step(own, IncidentStep(seen.time, seen.action, seen.rule, seen.count, seen.fingerprint))
    own.last = max(own.last, seen.time)
    own.calls += 1
    own.request_id = seen.request_id
    if is_severer or _severity(seen.action) == _severity(own.action):
        _describe(own, seen)
    _record_decision(own, seen)
    _add_usage(own, seen)
    if seen.is_refused:
        own.refused += 1
        own.refused_tokens += seen.size // BYTES_PER_TOKEN
        for name in (*seen.refusing, seen.fingerprint):
            if name and name not in own.fingerprints:
                own.fingerprints = [*own.fingerprints[1 - MAX_FINGERPRINTS :], name]


def _record_decision(own: Incident, seen: Sighting) -> None:
    """Keep what a rule says in place of what it said before."""
    said = RuleDecision(
        seen.time, seen.policy, seen.rule, seen.signal, seen.action, seen.count, seen.threshold
    )
    others = [one for one in own.opinions if (one.policy, one.rule) != (said.policy, said.rule)]
    own.opinions = [*others[1 - MAX_RULE_DECISIONS :], said]


def _add_usage(own: Incident, seen: Sighting) -> None:
    """Add what a call used and cost, or would have."""
    if seen.input_tokens or seen.output_tokens:
        own.answered += 1
        own.input_tokens += seen.input_tokens
        own.output_tokens += seen.output_tokens
    if seen.cost is not None:
        own.priced += 1
        own.cost += seen.cost
    if seen.estimate is not None:
        own.estimated += 1
        own.estimate += seen.estimate


def _describe(own: Incident, seen: Sighting) -> None:
    """Let the incident be described by its severest, latest sighting."""
    for name in IncidentDescription.__struct_fields__:
        setattr(own, name, getattr(seen, name))


def add_step(own: Incident, step: IncidentStep) -> None:
    """Write down what happened; of many steps the first ones and the latest stay."""
    if len(own.steps) >= MAX_STEPS:
        del own.steps[MAX_STEPS // 2]
    own.steps.append(step)


def _severity(action: str) -> int:
    return Action(action).severity
