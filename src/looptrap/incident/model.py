"""Sightings, incidents, alert events, strips, annotations, and how parts are merged. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from looptrap.detect.signals.signal import Evidence
from looptrap.detect.strip import Break, StripCell
from looptrap.money.price import format_usd, usd
from looptrap.policy.action import Action
from looptrap.policy.policy import Mode

MIN_RATE_SPAN_S = 60.0
"""Shorter spans are counted as this many seconds in a rate."""

BURNING_S = 300.0
"""Seconds after its latest call for which a loop counts as going on."""

DEMO_CALLER = "demo"
"""The caller of the demo; those of real calls have a prefix, such as `key:`."""

MAX_TOOLS_PER_ROUND = 8
"""Tool names stored per round."""

MAX_TOOL_NAME_CHARS = 128

MAX_STRIP_BYTES = 4_096
"""Approximate size of a stored strip: its latest rounds."""

ROUND_BYTES = 16
"""Approximate size of a round that calls no tool."""


class RoundKind(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What equal rounds have in common."""

    id: str
    tools: tuple[str, ...] = ()
    is_error: bool = False
    error: str = ""
    """Shared by those that failed the same way."""


class Strip(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rounds, the oldest first; `order` holds indexes into `kinds`."""

    kinds: tuple[RoundKind, ...] = ()
    order: tuple[int, ...] = ()
    breaks: tuple[tuple[int, Break], ...] = ()
    """Where the history was compacted, trimmed or begun again, by the index of the next round."""


NO_STRIP = Strip()


def compact_strip(cells: Sequence[StripCell]) -> Strip:
    """Return a strip of bounded size, however long the tool names are."""
    known: dict[RoundKind, int] = {}
    order: list[int] = []
    size = 0
    for cell in reversed(cells):
        tools = tuple(name[:MAX_TOOL_NAME_CHARS] for name in cell.tools[:MAX_TOOLS_PER_ROUND])
        kind = RoundKind(cell.id, tools, cell.is_error, cell.error)
        if kind not in known:
            size += ROUND_BYTES + sum(map(len, tools))
            if size > MAX_STRIP_BYTES:
                break
        order.append(known.setdefault(kind, len(known)))
    kept = cells[len(cells) - len(order) :]
    breaks = tuple((index, cell.after) for index, cell in enumerate(kept) if cell.after)
    return Strip(tuple(known), tuple(reversed(order)), breaks)


def strip_cells(strip: Strip) -> list[StripCell]:
    """Return the cells of a strip; indexes without a kind are skipped."""
    breaks = dict(strip.breaks)
    rounds = [
        (strip.kinds[one], breaks.get(index, ""))
        for index, one in enumerate(strip.order)
        if 0 <= one < len(strip.kinds)
    ]
    times = Counter(kind.id for kind, _ in rounds)
    return [
        StripCell(kind.id, kind.tools, kind.is_error, times[kind.id] > 1, after, kind.error)
        for kind, after in rounds
    ]


EventName = Literal[
    "loop.detected", "loop.escalated", "loop.resolved", "budget.threshold", "budget.exceeded",
    "breaker.opened", "store.degraded", "indicator.fired",
]  # fmt: skip


class IncidentDescription(msgspec.Struct, kw_only=True):
    """The caller, the rule that acted, and its evidence. No prompt text."""

    caller: str = ""
    project: str = ""
    session: str = ""
    """As the client named it, else derived: a digest of how its conversation begins."""
    agent: str = ""
    """The client program, such as Claude Code, where it is recognised."""
    model: str = ""
    dialect: str = ""
    provider: str = ""
    mode: Mode = "enforce"
    policy: str = ""
    rule: str = ""
    signal: str = ""
    tool: str = ""
    """The tool, if the rule counts by tool."""
    action: str = ""
    """The action taken; in shadow mode, the one that would have been."""
    count: int = 0
    fingerprint: str = ""
    cooldown: float = 0.0
    message: str = ""
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_demo(self) -> bool:
        """Whether it belongs to the demo: it is shown, but alerts and totals leave it out."""
        return self.caller == DEMO_CALLER


class Sighting(IncidentDescription, gc=False, kw_only=True):
    """What a rule decided about one call, and the outcome of the call."""

    time: float
    request_id: str = ""
    reason: str = "loop_detected"
    """Incidents are made of `loop_detected` only."""
    is_refused: bool = False
    refusing: tuple[str, ...] = ()
    """Fingerprints of all rules that refused it, not only of the one reported."""
    is_alarming: bool = True
    """Whether it is worth an alert: a warning below the rule's own threshold is not."""
    threshold: int = 0
    input_tokens: int = 0
    """Of a call that was allowed, as its provider reported."""
    output_tokens: int = 0
    cost: int | None = None
    """What an allowed call cost, in nano-dollars; None if the price is unknown."""
    is_counted: bool = True
    """Whether totals count its cost: a call with two verdicts is counted once."""
    estimate: int | None = None
    """What the input of a refused call would have cost, in nano-dollars."""
    size: int = 0
    """Bytes of the request: the usage of a refused call is estimated from it."""


def rounded_mean(total: int, number: int) -> int:
    """Return the rounded mean; 0 for no values."""
    return round(total / number) if number else 0


def describe_savings(
    refused: int, saved_usd: float | None, projected_usd_an_hour: float | None
) -> str:
    """Describe what refusals saved, and the projection apart from it; empty without refusals."""
    if not refused:
        return ""
    calls = f"{refused:,} call{'s' if refused > 1 else ''} refused"
    if saved_usd is None:
        return f"{calls}, unpriced"
    each = format_usd(saved_usd / refused)
    about = "" if each.startswith("less") else "about "
    saved = f"{format_usd(saved_usd)} saved: {calls} at {about}{each} each"
    if projected_usd_an_hour is None:
        return saved
    return f"{saved}; it was burning {format_usd(projected_usd_an_hour)} an hour (projection)"


class IncidentStep(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened in an incident: a new action or rule, another stage, its end."""

    time: float
    what: str
    """`block`, `warn`, …, `stage 10`, `closed`."""
    rule: str = ""
    count: int = 0
    fingerprint: str = ""


class RuleDecision(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The latest decision of one rule about a call of an incident."""

    time: float
    policy: str
    rule: str
    signal: str
    action: str
    count: int
    threshold: int


class Incident(IncidentDescription, kw_only=True, omit_defaults=True):
    """One instance's part of an incident, from the first sighting to quiet.

    It is described by its severest sighting, of equals the latest. The parts of several instances
    have the same `id`; `merge_parts` adds them up.
    """

    id: str
    instance: str
    """The unique name of the process and its history."""
    key: str
    """A digest of the correlation key that opened it."""
    opened: float
    last: float
    closed: float | None = None
    alarmed: float | None = None
    """When it was first alerted; None while it is only a warning."""
    threshold: int = 0
    """The count from which it is alerted."""
    request_id: str = ""
    """Of the latest call."""
    calls: int = 0
    """Calls that a rule acted on."""
    before: int = 0
    """Calls of the loop before the first of these."""
    refused: int = 0
    stage: int = 0
    """Its escalation stage: 0, then 2, 10 and 100 times the threshold."""
    input_tokens: int = 0
    output_tokens: int = 0
    """Usage of its allowed calls …"""
    answered: int = 0
    """… and how many of them reported usage."""
    cost: int = 0
    """Cost of its allowed calls, in nano-dollars …"""
    priced: int = 0
    """… and how many of them have a price."""
    # Stored under this name since before there were prices.
    refused_tokens: int = msgspec.field(default=0, name="saved_tokens")
    """Approximate input tokens of refused calls."""
    estimate: int = 0
    """Input cost of refused calls, in nano-dollars …"""
    estimated: int = 0
    """… and how many of them could be estimated."""
    steps: list[IncidentStep] = msgspec.field(default_factory=list)
    """The first and the latest steps, the latest last."""
    fingerprints: list[str] = msgspec.field(default_factory=list)
    """Fingerprints refused lately, the latest last: a release names these."""
    opinions: list[RuleDecision] = msgspec.field(default_factory=list)
    """The latest decision of each rule, the latest last."""
    strip: Strip = NO_STRIP
    """The latest rounds of the conversation."""

    @property
    def hits(self) -> int:
        """As rules counted it or as it was seen, whichever is more."""
        return max(self.calls + self.before, self.count)

    # Computed on demand: the cost per call is known only when all parts are added up.

    @property
    def is_contained(self) -> bool:
        """Whether its calls are refused; else they pass and are paid for."""
        return self.mode == "enforce" and bool(self.action) and Action(self.action).refuses

    @property
    def paid(self) -> int:
        """Calls that passed, with those before a rule first acted."""
        return self.before + self.calls - self.refused

    @property
    def _call_cost(self) -> float | None:
        """Nano-dollars of a call: the mean of those that passed, else of the refused inputs."""
        if self.priced:
            return self.cost / self.priced
        return self.estimate / self.estimated if self.estimated else None

    @property
    def spent_usd(self) -> float | None:
        """What its paid calls cost; None if no price is known.

        What the calls before a rule first acted cost is not recorded: each counts as the mean.
        """
        a_call = self._call_cost
        if a_call is None or not (self.priced or self.before):
            return None
        return usd(self.cost + round(self.before * a_call))

    @property
    def saved_usd(self) -> float | None:
        """What its refused calls would have cost; None if no price is known."""
        if self.priced:
            return usd(rounded_mean(self.refused * self.cost, self.priced))
        return usd(self.estimate) if self.estimated else None

    @property
    def saved_tokens(self) -> int:
        """Approximate tokens that its refused calls would have used."""
        tokens = self.input_tokens + self.output_tokens
        return rounded_mean(self.refused * tokens, self.answered) or self.refused_tokens

    @property
    def projected_usd_an_hour(self) -> float | None:
        """A projection of the cost of an hour if all its calls were allowed.

        A call costs the mean of the allowed ones. Without any, it costs the mean input of the
        refused ones: a lower bound, as answers are paid for too.
        """
        a_call = self._call_cost
        if a_call is None:
            return None
        seconds = max(self.last - self.opened, MIN_RATE_SPAN_S)
        return usd(a_call * self.calls / seconds * 3_600)

    def is_burning(self, now: float) -> bool:
        """Return whether its calls go on, pass and are paid for."""
        is_over = self.closed is not None or self.last + BURNING_S < now
        return not (is_over or self.is_contained or self.is_demo)


MAX_STEPS = 50


def add_step(own: Incident, step: IncidentStep) -> None:
    """Add a step; when there are too many, one from the middle is dropped."""
    if len(own.steps) >= MAX_STEPS:
        del own.steps[MAX_STEPS // 2]
    own.steps.append(step)


class AlertEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An alert, sent once through every channel that subscribes to it."""

    id: str
    """The same on every instance and attempt: receivers drop duplicates by it."""
    name: EventName
    time: float
    project: str = ""
    request_id: str = ""
    incident: str = ""
    stage: str = ""
    title: str = ""
    """One line for a person."""
    data: dict[str, Any] = msgspec.field(default_factory=dict)


AnnotationKind = Literal["acknowledge", "close", "label", "note", "release"]
Label = Literal["false_alarm", "confirmed"]

LABELS: tuple[Label, ...] = ("false_alarm", "confirmed")

MAX_NOTE_CHARS = 2_000
MAX_NOTES = 200
"""Notes on one incident."""


class Annotation(msgspec.Struct, frozen=True, gc=False):
    """One annotation of an incident by a person; adding it twice changes nothing."""

    id: str
    incident: str
    time: float
    by: str
    kind: AnnotationKind
    text: str = ""
    """The text of a note, or the label; an empty label removes it."""


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """All annotations of an incident."""

    acknowledged: Annotation | None = None
    """The first acknowledgement."""
    label: Label | None = None
    notes: tuple[Annotation, ...] = ()
    releases: tuple[Annotation, ...] = ()


NO_ANNOTATIONS = Annotations()


def collect_annotations(annotations: Iterable[Annotation]) -> Annotations:
    """Group annotations, given in any order; the latest label wins."""
    by_kind: dict[AnnotationKind, list[Annotation]] = {}
    for one in sorted(annotations, key=lambda one: (one.time, one.id)):
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
"""Fields that are summed; what is computed from the sums holds for all parts together."""

SEVERITY = {action.value: action.severity for action in Action}


def merge_parts(parts: Sequence[Incident]) -> Incident:
    """Merge the parts of one incident, given in any order."""
    if len(parts) == 1:
        return parts[0]
    parts = sorted(parts, key=lambda part: (part.last, part.instance))
    latest = parts[-1]
    # `max` takes the first of equals: here the one that was seen last.
    severest = max(reversed(parts), key=lambda part: SEVERITY.get(part.action, 0))
    alarmed = [part.alarmed for part in parts if part.alarmed is not None]
    closed = [part.closed for part in parts if part.closed is not None]
    is_closed = len(closed) == len(parts)
    fingerprints = [one for part in parts for one in part.fingerprints]
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
        # Others that join later take the calls of the first for calls before theirs.
        before=min((part.opened, part.before) for part in parts)[1],
        **{name: sum(getattr(part, name) for part in parts) for name in SUMMED_FIELDS},
        steps=_all_steps(parts, is_closed),
        fingerprints=list(dict.fromkeys(reversed(fingerprints)))[::-1],  # each at its last position
        opinions=_latest_opinions(chain.from_iterable(part.opinions for part in parts)),
        strip=next((part.strip for part in reversed(parts) if part.strip.order), NO_STRIP),
    )


def _all_steps(parts: Sequence[Incident], is_closed: bool) -> list[IncidentStep]:
    """Return all steps by time; `closed` once, and only if all parts are closed."""
    steps = sorted(chain.from_iterable(part.steps for part in parts), key=msgspec.structs.astuple)
    ends = [step for step in steps if step.what == "closed"]
    return [step for step in steps if step.what != "closed"] + (ends[-1:] if is_closed else [])


def _latest_opinions(opinions: Iterable[RuleDecision]) -> list[RuleDecision]:
    """Return the latest decision of each rule, the latest last."""
    by_rule = {(one.policy, one.rule): one for one in sorted(opinions, key=lambda one: one.time)}
    return sorted(by_rule.values(), key=lambda one: one.time)
