"""Entries: open incidents, and how they grow with every sighting. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from looptrap.incident.mark import Mark
from looptrap.incident.model import Described, Event, Incident, Opinion, Sighting, Step
from looptrap.incident.saving import mean
from looptrap.policy.action import Action

MOST_STEPS = 50
MOST_FINGERPRINTS = 20
MOST_OPINIONS = 20

BYTES_A_TOKEN = 4
"""About, of requests in JSON."""


@dataclass(slots=True)
class Entry:
    """An open incident: what was seen of it here, and what others saw."""

    own: Incident | None = None
    others: dict[str, Incident] = field(default_factory=dict)
    is_settled: bool = True
    """Whether its id is the one that all instances use."""
    waiting: list[Event] = field(default_factory=list)
    """What people are to be told as soon as that is so."""
    marks: dict[Mark, None] = field(default_factory=dict)
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
        return mean(sum(part.cost for part in parts), priced) or refused.estimate or 0

    @property
    def is_alarmed(self) -> bool:
        if self.own is not None and self.own.alarmed is not None:
            return True
        return any(part.alarmed is not None for part in self.parts())


def add(own: Incident, seen: Sighting) -> None:
    """Add one sighting."""
    is_severer = not own.action or _severity(seen.action) > _severity(own.action)
    if is_severer or seen.rule != own.rule:
        note(own, Step(seen.time, seen.action, seen.rule, seen.count, seen.fingerprint))
    own.last = max(own.last, seen.time)
    own.calls += 1
    own.request_id = seen.request_id
    if is_severer or _severity(seen.action) == _severity(own.action):
        _describe(own, seen)
    _hear(own, seen)
    _account(own, seen)
    if seen.is_refused:
        own.refused += 1
        own.refused_tokens += seen.size // BYTES_A_TOKEN
        for name in (*seen.refusing, seen.fingerprint):
            if name and name not in own.fingerprints:
                own.fingerprints = [*own.fingerprints[1 - MOST_FINGERPRINTS :], name]


def _hear(own: Incident, seen: Sighting) -> None:
    """Keep what a rule says in place of what it said before."""
    said = Opinion(
        seen.time, seen.policy, seen.rule, seen.signal, seen.action, seen.count, seen.threshold
    )
    others = [one for one in own.opinions if (one.policy, one.rule) != (said.policy, said.rule)]
    own.opinions = [*others[1 - MOST_OPINIONS :], said]


def _account(own: Incident, seen: Sighting) -> None:
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
    for name in Described.__struct_fields__:
        setattr(own, name, getattr(seen, name))


def note(own: Incident, step: Step) -> None:
    """Write down what happened; of many steps the first ones and the latest stay."""
    if len(own.steps) >= MOST_STEPS:
        del own.steps[MOST_STEPS // 2]
    own.steps.append(step)


def _severity(action: str) -> int:
    return Action(action).severity
