"""From sightings to incidents, and to the alert events about them. Pure.

One agent in a loop trips several rules in one session; one prompt that is sent over and over may
look like another session each time, and is counted under one fingerprint. Either correlation key
leads to the open incident.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
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
    SEVERITY,
    AlertEvent,
    Incident,
    IncidentDescription,
    IncidentStep,
    RuleDecision,
    Sighting,
    Strip,
    add_step,
    merge_parts,
    rounded_mean,
)
from looptrap.policy.rule import ANSWERS, SCOPES

CorrelationKey: TypeAlias = tuple[str, str, str, str, str]
"""Caller, project, mode, kind and value: an incident never mixes callers."""

COUNTED_SIGNALS = frozenset((*SCOPES, "similar_prompt"))
"""Signals counted across requests, and so under the same fingerprint each time."""


def sighting_keys(sighting: Sighting) -> list[CorrelationKey]:
    """Return the keys of a sighting; its incident is opened under the first."""
    is_counted = sighting.signal in COUNTED_SIGNALS or not sighting.session
    return _keys(sighting, [sighting.fingerprint] if is_counted else [])


def incident_keys(part: Incident) -> list[CorrelationKey]:
    """Return the keys of a stored part of an incident."""
    return _keys(part, [one for one in part.fingerprints if not is_history_fingerprint(one)])


def _keys(one: IncidentDescription, fingerprints: Sequence[str]) -> list[CorrelationKey]:
    owner = (one.caller, one.project, one.mode)
    keys: list[CorrelationKey] = [(*owner, "fingerprint", name) for name in fingerprints]
    return [*keys, (*owner, "session", one.session)] if one.session else keys


def correlation_digest(correlation: CorrelationKey) -> str:
    """Return a key in the form that instances share."""
    text = "\0".join(correlation)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


ESCALATION_STAGES = (2, 10, 100)
"""An incident is alerted again at these multiples of its threshold."""

MAX_OPEN_INCIDENTS = 10_000
"""Beyond it, the incident that has been quiet longest is closed."""

OWNER_TIMEOUT_S = 30.0
"""Seconds after which other instances close an incident whose own instance does not."""


MAX_CORRELATION_KEYS = 40
"""Correlation keys of one incident: sessions and fingerprints."""


class Tracker:
    """Gathers sightings into incidents; returns changed incidents and alert events.

    With `is_shared`, an incident opened here has to be `adopt_id`ed under the id that all instances
    use before it is published or alerted. Without `has_channels` no events are made.
    """

    def __init__(
        self,
        instance: str,
        *,
        quiet: float,
        new_id: Callable[[], str],
        is_shared: bool = False,
        has_channels: bool = True,
        max_open: int = MAX_OPEN_INCIDENTS,
    ) -> None:
        self.opened = 0
        self.saved = 0
        """Nano-dollars that refused calls would have cost, as known when each was refused."""
        self.spent = 0
        """Nano-dollars that calls of loops cost, with those before a rule first acted."""
        self._instance = instance
        self._quiet = quiet
        self._new_id = new_id
        self._is_shared = is_shared
        self._has_channels = has_channels
        self._max_open = max_open
        self._entries: OrderedDict[str, OpenIncident] = OrderedDict()  # the longest quiet first
        self._key_of: dict[CorrelationKey, str] = {}
        """The open incident's key by correlation key."""
        self._changed: dict[tuple[str, str], Incident] = {}

    @property
    def open(self) -> int:
        """Open incidents, of this and other instances."""
        return len(self._entries)

    def add(self, sighting: Sighting) -> list[AlertEvent]:
        """Add a sighting; return the events to send now."""
        correlations = sighting_keys(sighting)
        key = self._find_key(correlations)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = OpenIncident(has_shared_id=not self._is_shared)
        self._entries.move_to_end(key)
        self._remember(key, entry, correlations)
        is_new = entry.own is None
        if entry.own is None:
            entry.own = self._open(key, entry, sighting)
        add_sighting(entry.own, sighting)
        if sighting.is_counted and not sighting.is_demo:
            self.saved += entry.saved_by(sighting) if sighting.is_refused else 0
            self.spent += spent_by(sighting, entry.own.before if is_new else 0)
        self._mark_changed(entry, entry.own)
        events = self._alert_events(entry, entry.own, sighting)
        if len(self._entries) > self._max_open:
            events += self._close(next(iter(self._entries)), sighting.time)
        return events

    def set_strip(self, correlations: Sequence[CorrelationKey], strip: Strip) -> None:
        """Set the strip of the open incident with these keys, if there is one."""
        entry = self._entries.get(self._find_key(correlations))
        if entry is not None and entry.own is not None:
            entry.own.strip = strip
            self._mark_changed(entry, entry.own)

    def merge_remote(self, part: Incident) -> None:
        """Merge a part from another instance, or from this one before its restart."""
        if part.instance == self._instance:
            return
        entry = self._entries.get(part.key)
        if entry is not None and entry.own is not None and entry.own.id != part.id:
            return  # an earlier incident under the same key, now over
        if part.closed is not None:
            if entry is not None:
                entry.others.pop(part.instance, None)
                if not entry.parts():
                    self._forget(part.key)
            return
        if entry is None:
            if len(self._entries) >= self._max_open:
                return
            entry = self._entries[part.key] = OpenIncident()
        entry.others[part.instance] = part
        self._remember(part.key, entry, incident_keys(part))

    def unshared_ids(self) -> dict[str, str]:
        """Return the ids chosen here that are not agreed on yet, by key."""
        return {
            key: entry.own.id
            for key, entry in self._entries.items()
            if not entry.has_shared_id and entry.own is not None
        }

    def adopt_id(self, key: str, incident_id: str) -> list[AlertEvent]:
        """Use the id that all instances agreed on; return the events that waited for it."""
        entry = self._entries.get(key)
        if entry is None or entry.own is None or entry.has_shared_id:
            return []
        entry.has_shared_id = True
        entry.own.id = incident_id
        self._mark_changed(entry, entry.own)
        events, entry.waiting = entry.waiting, []
        return [with_incident_id(event, incident_id) for event in events]

    def tick(self, now: float) -> list[AlertEvent]:
        """Close incidents that have been quiet long enough; return the events to send."""
        events: list[AlertEvent] = []
        for key in list(self._entries):
            entry = self._entries[key]
            if entry.own is not None and entry.own.last + self._quiet > now:
                break  # those behind it were seen here later still
            timeout = self._quiet if entry.own is not None else self._quiet + OWNER_TIMEOUT_S
            if entry.last + timeout <= now:
                events += self._close(key, now)
        return events

    def close(self, ids: Collection[str], now: float) -> list[AlertEvent]:
        """Close these incidents, as an operator asked; return the events to send."""
        keys = [
            key
            for key, entry in self._entries.items()
            if any(part.id in ids for part in entry.parts())
        ]
        return [event for key in keys for event in self._close(key, now, is_asked=True)]

    def take_changed(self) -> list[Incident]:
        """Return the parts changed since the last call that may be published."""
        changed, self._changed = self._changed, {}
        return [replace(part) for part in changed.values()]

    def _find_key(self, correlations: Sequence[CorrelationKey]) -> str:
        """Return the key of the open incident with one of these, else the key for a new one."""
        for correlation in correlations:
            key = self._key_of.get(correlation)
            if key is not None:
                return key
        return correlation_digest(correlations[0])

    def _remember(
        self, key: str, entry: OpenIncident, correlations: Sequence[CorrelationKey]
    ) -> None:
        """Index these under an incident; only the latest are kept."""
        for correlation in correlations:
            if self._key_of.setdefault(correlation, key) == key:
                entry.correlations.pop(correlation, None)
                entry.correlations[correlation] = None
        while len(entry.correlations) > MAX_CORRELATION_KEYS:
            oldest = next(iter(entry.correlations))
            del entry.correlations[oldest], self._key_of[oldest]

    def _forget(self, key: str) -> OpenIncident:
        entry = self._entries.pop(key)
        for correlation in entry.correlations:
            del self._key_of[correlation]
        return entry

    def _open(self, key: str, entry: OpenIncident, sighting: Sighting) -> Incident:
        known = next(iter(entry.others.values()), None)
        if known is not None:
            entry.has_shared_id = True
        else:
            self.opened += 1
        return Incident(
            id=known.id if known is not None else self._new_id(),
            instance=self._instance,
            key=key,
            opened=sighting.time,
            last=sighting.time,
            before=_calls_before(sighting) if known is None else 0,
            threshold=sighting.threshold,
        )

    def _mark_changed(self, entry: OpenIncident, part: Incident) -> None:
        if entry.has_shared_id:
            self._changed[part.key, part.instance] = part

    def _alert_events(
        self, entry: OpenIncident, own: Incident, sighting: Sighting
    ) -> list[AlertEvent]:
        """Return an event if the incident is new or reached its next stage."""
        is_alarmed = entry.is_alarmed
        if not sighting.is_alarming and not is_alarmed:
            return []
        hits, events = entry.hits, []
        if not is_alarmed:
            own.alarmed, own.threshold = sighting.time, sighting.threshold
            if self._has_channels:
                events = [detected_event(merge_parts(entry.parts()), hits)]
        times = hits // max(own.threshold * _calls_per_count(sighting), 1)
        stage = max([one for one in ESCALATION_STAGES if one <= times], default=0)
        if stage > entry.stage:
            own.stage = stage
            add_step(own, IncidentStep(sighting.time, f"stage {stage}", sighting.rule, hits))
            if is_alarmed and self._has_channels:
                events = [escalated_event(merge_parts(entry.parts()), hits)]
        if entry.has_shared_id:
            return events
        entry.waiting += events
        return []

    def _close(self, key: str, now: float, *, is_asked: bool = False) -> list[AlertEvent]:
        """Close an incident, also for instances that are gone; if an operator asked, for all."""
        entry = self._forget(key)
        for part in entry.parts():
            if is_asked or part is entry.own or part.last + self._quiet + OWNER_TIMEOUT_S <= now:
                part.closed = now
                add_step(part, IncidentStep(now, "closed"))
                self._mark_changed(entry, part)
        if not entry.is_alarmed or not entry.has_shared_id or not self._has_channels:
            return []
        return [resolved_event(entry.parts(), now, entry.hits)]


MAX_FINGERPRINTS = 20
MAX_RULE_DECISIONS = 20

BYTES_PER_TOKEN = 4
"""Approximate, for JSON requests."""


@dataclass(slots=True)
class OpenIncident:
    """An open incident: this instance's part and those of others."""

    own: Incident | None = None
    others: dict[str, Incident] = field(default_factory=dict)
    has_shared_id: bool = True
    """Whether its id is the one that all instances use."""
    waiting: list[AlertEvent] = field(default_factory=list)
    """Events to send as soon as the id is agreed on."""
    correlations: dict[CorrelationKey, None] = field(default_factory=dict)
    """Its correlation keys, the latest last."""

    def parts(self) -> list[Incident]:
        return [*([self.own] if self.own is not None else ()), *self.others.values()]

    @property
    def last(self) -> float:
        return max(part.last for part in self.parts())

    @property
    def hits(self) -> int:
        """The larger of the rule's count and the calls seen by all instances."""
        parts = self.parts()
        calls = sum(part.calls for part in parts) + max(part.before for part in parts)
        return max(calls, *(part.count for part in parts))

    @property
    def stage(self) -> int:
        return max(part.stage for part in self.parts())

    def saved_by(self, refused: Sighting) -> int:
        """Return what a refused call would have cost, in nano-dollars."""
        parts = self.parts()
        priced = sum(part.priced for part in parts)
        return rounded_mean(sum(part.cost for part in parts), priced) or refused.estimate or 0

    @property
    def is_alarmed(self) -> bool:
        return any(part.alarmed is not None for part in self.parts())


def spent_by(sighting: Sighting, before: int) -> int:
    """Return what a call and so many before it cost, in nano-dollars, as far as it is known."""
    a_call = sighting.cost if sighting.cost is not None else sighting.estimate or 0
    return (sighting.cost or 0) + before * a_call


SPANS = frozenset(("cycle", "compaction", "turn_budget"))
"""Signals that count something else than calls: every round of their evidence is of the loop."""


def _calls_before(sighting: Sighting) -> int:
    """Return the calls of the loop before the first one that a rule acted on."""
    if sighting.signal in ANSWERS:
        return 0  # counted within one call
    if sighting.signal in COUNTED_SIGNALS or not sighting.evidence:
        return max(sighting.count - 1, 0)  # this call is counted, too
    # A round in the history was asked for by a call before this one.
    return sighting.evidence[0].ago + 1 if sighting.signal in SPANS else sighting.count


def _calls_per_count(sighting: Sighting) -> int:
    """Return how many calls of a loop its rule counts as one: those of a cycle, once around."""
    is_span = sighting.signal in SPANS and sighting.count > 0
    return max(_calls_before(sighting) // sighting.count, 1) if is_span else 1


def add_sighting(own: Incident, sighting: Sighting) -> None:
    """Add one sighting to this instance's part."""
    severity = SEVERITY[sighting.action] - SEVERITY.get(own.action, -1)
    if severity > 0 or sighting.rule != own.rule:
        what, rule, count = sighting.action, sighting.rule, sighting.count
        add_step(own, IncidentStep(sighting.time, what, rule, count, sighting.fingerprint))
    own.last = max(own.last, sighting.time)
    own.calls += 1
    own.request_id = sighting.request_id
    if severity >= 0:
        # An incident is described by its severest, latest sighting.
        for name in IncidentDescription.__struct_fields__:
            setattr(own, name, getattr(sighting, name))
    _record_decision(own, sighting)
    _add_usage(own, sighting)
    if sighting.is_refused:
        own.refused += 1
        own.refused_tokens += sighting.size // BYTES_PER_TOKEN
        for name in (*sighting.refusing, sighting.fingerprint):
            if name and name not in own.fingerprints:
                own.fingerprints = [*own.fingerprints[1 - MAX_FINGERPRINTS :], name]


def _record_decision(own: Incident, sighting: Sighting) -> None:
    """Replace the rule's previous decision."""
    decision = RuleDecision(
        **{name: getattr(sighting, name) for name in RuleDecision.__struct_fields__}
    )
    rule = decision.policy, decision.rule
    others = [one for one in own.opinions if (one.policy, one.rule) != rule]
    own.opinions = [*others[1 - MAX_RULE_DECISIONS :], decision]


def _add_usage(own: Incident, sighting: Sighting) -> None:
    """Add the usage and cost of a call, or its estimate."""
    if sighting.input_tokens or sighting.output_tokens:
        own.answered += 1
        own.input_tokens += sighting.input_tokens
        own.output_tokens += sighting.output_tokens
    if sighting.cost is not None:
        own.priced += 1
        own.cost += sighting.cost
    if sighting.estimate is not None:
        own.estimated += 1
        own.estimate += sighting.estimate
