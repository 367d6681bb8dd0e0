"""What a guard returns: plans before counting, tickets after judging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from looptrap.detect.signals.signal import Evidence
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Call, Outcome
from looptrap.engine.run_fitting import RunFitting
from looptrap.errors import (
    BudgetExceededError,
    KilledError,
    LoopDetectedError,
    RateLimitedError,
    RefusedError,
)
from looptrap.money.meter import BudgetStatus
from looptrap.money.meters import Hold, MeteredCharge, settlements_of
from looptrap.policy.policy import Mode
from looptrap.policy.rate import RateStatus
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.policy.watch import AnswerWatch, CountingWatch, HistoryWatch, Watch
from looptrap.store.model import Charge, Hit, Note, Settlement, Trip


class HistoryFinding(NamedTuple):
    """Evidence that a watch found in the history, and the key of its refusal."""

    watch: HistoryWatch
    evidence: Evidence
    key: bytes
    place: int
    """Index of the key in the plan's hits, where the query for earlier refusals of the same run
    follows; -1 for evidence that is not refused."""


class PredecessorQuery(NamedTuple):
    """A prompt whose predecessors are queried."""

    watch: CountingWatch
    content: bytes
    place: int
    """Index in the plan's hits of the query for prompts with the same end."""


class Plan(msgspec.Struct, gc=False):
    """The store queries for a call, and the evidence in its history."""

    call: Call
    hits: list[Hit]
    watches: list[Watch]
    """The watches of the first hits, in the same order."""
    findings: Sequence[HistoryFinding] = ()
    predecessor_queries: Sequence[PredecessorQuery] = ()
    predecessors: Sequence[tuple[Watch, int]] = ()
    """Watches for which an earlier prompt counts too, and the index of its hit."""
    history_watches: Sequence[HistoryWatch] = ()
    """Watches that read the history, perhaps once it is known how much of it counts."""
    fitting: RunFitting | None = None
    """What finds the run of the call in the store."""
    is_unread: bool = False
    """Whether the history is searched only when its run is found, which knows which calls are new.
    """
    recalls: Sequence[bytes] = ()
    """The keys of notes to recall next."""
    progress_index: int = -1
    """Index of the hits for the application's progress token; -1 without one."""
    listening: Sequence[AnswerWatch] = ()
    trajectory: Trajectory | None = None
    """The history, if there was one to read."""
    metered: Sequence[MeteredCharge] = ()
    """The charges of budgets and rates …"""
    now: float = 0.0
    """… and when."""
    killed: Verdict | None = None
    follows: bool = False
    """Whether the store's answer may call for more: further hits, or other notes."""

    @property
    def charges(self) -> Sequence[Charge]:
        """The charges, in the order of `metered`."""
        return [metered.charge for metered in self.metered]


class Ticket(msgspec.Struct, gc=False):
    """An admitted or refused call, to be settled when its outcome is known."""

    call: Call
    verdict: Verdict = ALLOWED
    shadow: Verdict | None = None
    """What policies in shadow mode would have done, if anything."""
    trips: Sequence[Trip] = ()
    """Cooldowns that this verdict starts."""
    refusing: Sequence[str] = ()
    """Fingerprints of all rules that refuse it: a release needs every one of them."""
    listening: Sequence[AnswerWatch] = ()
    """The rules that watch the answer."""
    trajectory: Trajectory | None = None
    """The history, as far as it was read."""
    heard: Verdict | None = None
    """Their severest verdict."""
    holds: Sequence[Hold] = ()
    """Granted charges of budgets and rates, until they are settled."""
    streaks: Sequence[Hit] = ()
    """Repeated hits in a row: the store records when this call is answered."""
    notes: Sequence[Note] = ()
    """What the store is to remember of the run."""
    fitting: RunFitting | None = None
    """The run of the call, for what its answer says of it."""
    reads_answer: bool = False
    """Whether the calls of the answer are needed, to tell whether a run goes on."""
    open_call: object = None
    """For a ticket of `Guard.check`: ends the call when the ticket is dropped."""
    capture_id: str = ""
    """Its id in a capture, which its answer refers to."""
    refunds: Sequence[Settlement] = ()
    """Charges that this verdict returns at once."""
    standings: Sequence[BudgetStatus] = ()
    """Budgets that have reached one of their stages."""
    pace: RateStatus | None = None
    """Of all rates, the one with the least left."""

    def verdicts(self) -> Iterator[tuple[Mode, Verdict]]:
        """Yield every verdict other than `allow`, with its mode."""
        if self.verdict is not ALLOWED:
            yield "enforce", self.verdict
        if self.heard is not None:
            yield "enforce", self.heard
        if self.shadow is not None:
            yield "shadow", self.shadow

    def settlements(self, outcome: Outcome | None) -> Sequence[Settlement]:
        """Release the charges; return how to settle them. Without an outcome they are returned."""
        holds, self.holds = self.holds, ()
        return settlements_of(holds, outcome)


def refusal_error(verdict: Verdict) -> RefusedError:
    """Return the exception for a verdict that refuses."""
    match verdict.reason:
        case "budget_exceeded":
            return BudgetExceededError(
                verdict.message,
                budget=verdict.rule,
                percent=verdict.count,
                fingerprint=verdict.fingerprint,
            )
        case "rate_limited":
            return RateLimitedError(
                verdict.message, rate=verdict.rule, retry_after=verdict.retry_after or 0.0
            )
        case "killed":
            return KilledError(verdict.message, rule=verdict.rule)
        case _:
            return LoopDetectedError(
                verdict.message,
                hit_count=verdict.count,
                cooldown_seconds=verdict.cooldown_left,
                fingerprint=verdict.fingerprint,
                rule=verdict.rule,
                evidence=verdict.evidence,
            )
