"""Sightings, incidents, alert events, strips, annotations, and how parts are merged. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from looptrap.detect.signals.signal import Evidence
from looptrap.detect.strip import StripCell
from looptrap.policy.action import Action
from looptrap.usage import savings

MAX_TOOLS_PER_ROUND = 8
"""Tools that are named of one round."""

MAX_TOOL_NAME_CHARS = 128

MAX_STRIP_BYTES = 4_096
"""About so much of a strip is kept: the latest rounds of it."""

ROUND_BYTES = 16
"""Bytes of a round that calls no tool, about."""


class RoundKind(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What some rounds have in common."""

    id: str
    tools: tuple[str, ...] = ()
    is_error: bool = False


class Strip(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rounds, the oldest first: each is the number of its kind."""

    kinds: tuple[RoundKind, ...] = ()
    order: tuple[int, ...] = ()


NO_STRIP = Strip()


def compact_strip(cells: Sequence[StripCell]) -> Strip:
    """Return a strip that takes little room, however long the names of tools are."""
    known: dict[RoundKind, int] = {}
    order: list[int] = []
    size = 0
    for cell in reversed(cells):
        tools = tuple(name[:MAX_TOOL_NAME_CHARS] for name in cell.tools[:MAX_TOOLS_PER_ROUND])
        kind = RoundKind(cell.id, tools, cell.is_error)
        if kind not in known:
            size += ROUND_BYTES + sum(map(len, tools))
            if size > MAX_STRIP_BYTES:
                break
        order.append(known.setdefault(kind, len(known)))
    return Strip(tuple(known), tuple(reversed(order)))


def strip_cells(strip: Strip) -> list[StripCell]:
    """Return the cells of a strip; of one that is not whole, those that are there."""
    shown = [strip.kinds[one] for one in strip.order if 0 <= one < len(strip.kinds)]
    times = Counter(kind.id for kind in shown)
    return [StripCell(kind.id, kind.tools, kind.is_error, times[kind.id] > 1) for kind in shown]


EventName = Literal[
    "loop.detected",
    "loop.escalated",
    "loop.resolved",
    "budget.threshold",
    "budget.exceeded",
    "breaker.opened",
    "store.degraded",
    "indicator.fired",
]

Mode = Literal["enforce", "shadow"]


class IncidentDescription(msgspec.Struct, kw_only=True):
    """Whose calls, by which rule they were acted on, and on what grounds. No prompt text."""

    caller: str = ""
    project: str = ""
    session: str = ""
    """As the client named it, else derived: a digest of how its conversation begins."""
    model: str = ""
    dialect: str = ""
    provider: str = ""
    mode: Mode = "enforce"
    policy: str = ""
    rule: str = ""
    signal: str = ""
    tool: str = ""
    """Of what is counted by tool, which one."""
    action: str = ""
    """What was done; in shadow mode, what would have been."""
    count: int = 0
    fingerprint: str = ""
    cooldown: float = 0.0
    message: str = ""
    evidence: tuple[Evidence, ...] = ()


class Sighting(IncidentDescription, gc=False, kw_only=True):
    """What a rule decided about one call, and what became of it."""

    time: float
    request_id: str = ""
    reason: str = "loop_detected"
    """Only of loops incidents are made."""
    is_refused: bool = False
    refusing: tuple[str, ...] = ()
    """Fingerprints under which rules refused it, whichever of them was told."""
    is_alarming: bool = True
    """Whether people should hear of it: not of a warning before the rule does more."""
    threshold: int = 0
    input_tokens: int = 0
    """Of a call that passed, as its provider reported."""
    output_tokens: int = 0
    cost: int | None = None
    """What a call that passed cost, in nano-dollars; None where no price is known."""
    estimate: int | None = None
    """What the input alone of a refused call would have cost, in nano-dollars."""
    size: int = 0
    """Bytes of the request: what a refused call would have used is told from it."""


class IncidentStep(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened in an incident: a new action or rule, another stage, its end."""

    time: float
    what: str
    """`block`, `warn`, …, `stage 10`, `closed`."""
    rule: str = ""
    count: int = 0
    fingerprint: str = ""


class RuleDecision(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a rule said when it last decided about a call of an incident."""

    time: float
    policy: str
    rule: str
    signal: str
    action: str
    count: int
    threshold: int


class Incident(IncidentDescription, kw_only=True, omit_defaults=True):
    """Everything from a first trip to quiet, as far as one instance saw it.

    It is described by its severest sighting, of equals the latest. What several instances saw of
    the same incident has the same `id` and is added up to be shown.
    """

    id: str
    instance: str
    """Who saw it: a name of this process and its history that no other has."""
    key: str
    """The mark by which it was opened: a digest."""
    opened: float
    last: float
    closed: float | None = None
    alarmed: float | None = None
    """When people were to hear of it; None while it is only a warning."""
    threshold: int = 0
    """From which count on people were to hear of it."""
    request_id: str = ""
    """Of the latest call."""
    calls: int = 0
    """Calls that a rule acted on."""
    before: int = 0
    """Equal calls that came before the first of these, as its rule had counted them."""
    refused: int = 0
    stage: int = 0
    """How far it has grown: 0, then 2, 10 and 100 times what it was when people heard of it."""
    input_tokens: int = 0
    output_tokens: int = 0
    """What calls of it that passed have used …"""
    answered: int = 0
    """… and how many of them told what they used."""
    cost: int = 0
    """What calls that passed have cost, in nano-dollars …"""
    priced: int = 0
    """… and how many of them have a price."""
    # Under this name it was kept before there were prices.
    refused_tokens: int = msgspec.field(default=0, name="saved_tokens")
    """What the requests alone of refused calls are, in tokens, about."""
    estimate: int = 0
    """What the input of refused calls would have cost, in nano-dollars …"""
    estimated: int = 0
    """… and of how many of them that can be said."""
    steps: list[IncidentStep] = msgspec.field(default_factory=list)
    """What happened, the latest last; of many, the first and the latest."""
    fingerprints: list[str] = msgspec.field(default_factory=list)
    """What was refused lately, the latest last: what a release has to name."""
    opinions: list[RuleDecision] = msgspec.field(default_factory=list)
    """What each rule said last, the latest last."""
    strip: Strip = NO_STRIP
    """The latest rounds of what was read from histories."""

    # Told anew each time: only when all parts are added up is it known what a call of it costs.

    @property
    def spent_usd(self) -> float | None:
        """What calls that passed have cost; None while none of them has a price."""
        return savings.usd(self.cost) if self.priced else None

    @property
    def saved_usd(self) -> float | None:
        """What refused calls would have cost; None where no price is known."""
        nano = savings.saved_cost(
            self.refused, self.cost, self.priced, self.estimate, self.estimated
        )
        return None if nano is None else savings.usd(nano)

    @property
    def saved_tokens(self) -> int:
        """What refused calls would have used, about."""
        tokens = self.input_tokens + self.output_tokens
        return savings.rounded_mean(self.refused * tokens, self.answered) or self.refused_tokens

    @property
    def projected_usd_an_hour(self) -> float | None:
        """What an hour of it would cost if all its calls passed: a projection, nothing more."""
        a_call = savings.cost_per_call(self.cost, self.priced, self.estimate, self.estimated)
        seconds = max(self.last - self.opened, savings.MIN_RATE_SPAN_S)
        nano = None if a_call is None else a_call * self.calls / seconds * savings.HOUR_S
        return None if nano is None else savings.usd(nano)


class AlertEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that people are told, once, through every channel that wants to hear of it."""

    id: str
    """The same whoever tells it and however often: receivers know by it what they have heard."""
    name: EventName
    time: float
    project: str = ""
    request_id: str = ""
    incident: str = ""
    stage: str = ""
    title: str = ""
    """One line for a person."""
    data: dict[str, Any] = msgspec.field(default_factory=dict)


AnnotationKind = Literal["acknowledge", "label", "note", "release"]
Label = Literal["false_alarm", "confirmed"]

LABELS: tuple[Label, ...] = ("false_alarm", "confirmed")

MAX_NOTE_CHARS = 2_000
MAX_NOTES = 200
"""Notes on one incident."""


class Annotation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that somebody said of an incident; that it is told twice changes nothing."""

    id: str
    incident: str
    time: float
    by: str
    kind: AnnotationKind
    text: str = ""
    """Of a note, its words; of a label, which one: empty for none any more."""


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """All that was said of an incident."""

    acknowledged: Annotation | None = None
    """Who was the first to take care of it."""
    label: Label | None = None
    notes: tuple[Annotation, ...] = ()
    releases: tuple[Annotation, ...] = ()


NO_ANNOTATIONS = Annotations()


def collect_annotations(remarks: Iterable[Annotation]) -> Annotations:
    """Return what remarks come to, in whatever order they arrive: the latest label holds."""
    by_kind: dict[AnnotationKind, list[Annotation]] = {}
    for one in sorted(remarks, key=lambda one: (one.time, one.id)):
        by_kind.setdefault(one.kind, []).append(one)
    label = by_kind["label"][-1].text if "label" in by_kind else ""
    return Annotations(
        acknowledged=by_kind["acknowledge"][0] if "acknowledge" in by_kind else None,
        label=label if label in LABELS else None,
        notes=tuple(by_kind.get("note", ())),
        releases=tuple(by_kind.get("release", ())),
    )


SUMMED_FIELDS = (
    "calls", "refused", "input_tokens", "output_tokens", "answered", "cost", "priced",
    "refused_tokens", "estimate", "estimated",
)  # fmt: skip
"""What is simply added; what is told from it is right for all of them together."""

_SEVERITY = {action.value: action.severity for action in Action}


def merge_parts(parts: Sequence[Incident]) -> Incident:
    """Add up what several instances saw of one incident, in whatever order they come."""
    if len(parts) == 1:
        return parts[0]
    parts = sorted(parts, key=lambda part: (part.last, part.instance))
    latest = parts[-1]
    # `max` takes the first of equals: here the one that was seen last.
    severest = max(reversed(parts), key=lambda part: _SEVERITY.get(part.action, 0))
    alarmed = [part.alarmed for part in parts if part.alarmed is not None]
    closed = [part.closed for part in parts if part.closed is not None]
    is_closed = len(closed) == len(parts)
    return replace(
        severest,
        instance=", ".join(sorted(part.instance for part in parts)),
        opened=min(part.opened for part in parts),
        last=latest.last,
        closed=max(closed) if is_closed else None,
        alarmed=min(alarmed, default=None),
        request_id=latest.request_id,
        count=max(part.count for part in parts),
        stage=max(part.stage for part in parts),
        before=max(part.before for part in parts),
        **{name: sum(getattr(part, name) for part in parts) for name in SUMMED_FIELDS},
        steps=_all_steps(parts, is_closed),
        fingerprints=_latest_last(chain.from_iterable(part.fingerprints for part in parts)),
        opinions=_latest_opinions(chain.from_iterable(part.opinions for part in parts)),
        strip=next((part.strip for part in reversed(parts) if part.strip.order), NO_STRIP),
    )


def _all_steps(parts: Sequence[Incident], is_closed: bool) -> list[IncidentStep]:
    """Return all steps by time; closed is only what all have closed, and only once."""
    steps = sorted(chain.from_iterable(part.steps for part in parts), key=msgspec.structs.astuple)
    ends = [step for step in steps if step.what == "closed"]
    return [step for step in steps if step.what != "closed"] + (ends[-1:] if is_closed else [])


def _latest_opinions(opinions: Iterable[RuleDecision]) -> list[RuleDecision]:
    """Return what each rule said last, the latest last."""
    by_rule = {(one.policy, one.rule): one for one in sorted(opinions, key=lambda one: one.time)}
    return sorted(by_rule.values(), key=lambda one: one.time)


def _latest_last(names: Iterable[str]) -> list[str]:
    """Return each name once, where it stands last."""
    seen: dict[str, None] = {}
    for name in names:
        seen.pop(name, None)
        seen[name] = None
    return list(seen)
