"""Sightings, incidents and events: what was decided, what it adds up to, what people are told."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from looptrap.detect.evidence import Evidence
from looptrap.incident import saving
from looptrap.incident.strip import NO_STRIP, Strip

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


class Described(msgspec.Struct, kw_only=True):
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


class Sighting(Described, gc=False, kw_only=True):
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


class Step(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened in an incident: a new action or rule, another stage, its end."""

    time: float
    what: str
    """`block`, `warn`, …, `stage 10`, `closed`."""
    rule: str = ""
    count: int = 0
    fingerprint: str = ""


class Opinion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a rule said when it last decided about a call of an incident."""

    time: float
    policy: str
    rule: str
    signal: str
    action: str
    count: int
    threshold: int


class Incident(Described, kw_only=True, omit_defaults=True):
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
    steps: list[Step] = msgspec.field(default_factory=list)
    """What happened, the latest last; of many, the first and the latest."""
    fingerprints: list[str] = msgspec.field(default_factory=list)
    """What was refused lately, the latest last: what a release has to name."""
    opinions: list[Opinion] = msgspec.field(default_factory=list)
    """What each rule said last, the latest last."""
    strip: Strip = NO_STRIP
    """The latest rounds of what was read from histories."""

    # Told anew each time: only when all parts are added up is it known what a call of it costs.

    @property
    def spent_usd(self) -> float | None:
        """What calls that passed have cost; None while none of them has a price."""
        return saving.usd(self.cost) if self.priced else None

    @property
    def saved_usd(self) -> float | None:
        """What refused calls would have cost; None where no price is known."""
        nano = saving.saved(self.refused, self.cost, self.priced, self.estimate, self.estimated)
        return None if nano is None else saving.usd(nano)

    @property
    def saved_tokens(self) -> int:
        """What refused calls would have used, about."""
        tokens = self.input_tokens + self.output_tokens
        return saving.mean(self.refused * tokens, self.answered) or self.refused_tokens

    @property
    def projected_usd_an_hour(self) -> float | None:
        """What an hour of it would cost if all its calls passed: a projection, nothing more."""
        a_call = saving.cost_a_call(self.cost, self.priced, self.estimate, self.estimated)
        seconds = max(self.last - self.opened, saving.LEAST_SEEN)
        nano = None if a_call is None else a_call * self.calls / seconds * saving.HOUR
        return None if nano is None else saving.usd(nano)


class Event(msgspec.Struct, frozen=True, kw_only=True):
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
