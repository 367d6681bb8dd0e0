"""What a guard hands out: plans before counting, tickets after judging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from looptrap.detect.signals.signal import Evidence
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Call
from looptrap.errors import (
    BudgetExceededError,
    KilledError,
    LoopDetectedError,
    RateLimitedError,
    RefusedError,
)
from looptrap.money.meter import BudgetStatus
from looptrap.money.meters import Hold, MeteredCharge
from looptrap.policy.rate import RateStatus
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.policy.watch import AnswerWatch, CountingWatch, HistoryWatch, Watch
from looptrap.store.model import Charge, Hit, Settlement, Trip


class HistoryFinding(NamedTuple):
    """What a watch read from the history, and the key under which a refusal is remembered."""

    watch: HistoryWatch
    evidence: Evidence
    key: bytes
    place: int
    """Where in the plan's hits the key stands, followed by what asks for the histories of the same
    run that were refused before; -1 for what would not be refused."""


class PredecessorQuery(NamedTuple):
    """A prompt whose predecessors are asked for."""

    watch: CountingWatch
    content: bytes
    place: int
    """Where in the plan's hits the one stands that asks what had the same end."""


class Plan(msgspec.Struct, gc=False):
    """What to ask the store about a call, and what its history shows already."""

    call: Call
    hits: list[Hit]
    watches: list[Watch]
    """Whose hits the first of them are, in the same order."""
    findings: Sequence[HistoryFinding] = ()
    predecessor_queries: Sequence[PredecessorQuery] = ()
    predecessors: Sequence[tuple[Watch, int]] = ()
    """Watches for which an earlier prompt counts too, and where its hit stands."""
    history_watches: Sequence[HistoryWatch] = ()
    """What waits to read the history until it is known how much of it counts."""
    progress_index: int = -1
    """Where the two hits of the application's word that it got on stand; -1 without one."""
    listening: Sequence[AnswerWatch] = ()
    trajectory: Trajectory | None = None
    """The history, where there was one to read."""
    metered: Sequence[MeteredCharge] = ()
    """What budgets and rates ask to be charged …"""
    now: float = 0.0
    """… and when."""
    killed: Verdict | None = None
    follows: bool = False
    """Whether the counts may be worth asking once more."""

    @property
    def charges(self) -> Sequence[Charge]:
        """What to ask the accounts, in the order of `metered`."""
        return [metered.charge for metered in self.metered]


class Ticket(msgspec.Struct, gc=False):
    """An admitted or refused call, to be settled when its outcome is known."""

    call: Call
    verdict: Verdict = ALLOWED
    shadow: Verdict | None = None
    """What policies in shadow mode would have done, where that is more than nothing."""
    trips: Sequence[Trip] = ()
    """Cooldowns that this verdict starts."""
    refusing: Sequence[str] = ()
    """Fingerprints under which rules refuse it, whichever of them is told: all have to let go."""
    listening: Sequence[AnswerWatch] = ()
    """The rules that listen to the answer."""
    trajectory: Trajectory | None = None
    """The history that was read, as far as it was."""
    heard: Verdict | None = None
    """The severest that they said."""
    holds: Sequence[Hold] = ()
    """What budgets and rates were charged, until it is settled."""
    settlements: Sequence[Settlement] = ()
    """Charges that this verdict gives back at once."""
    standings: Sequence[BudgetStatus] = ()
    """Budgets that have come to one of their stages."""
    pace: RateStatus | None = None
    """Of all rates, the one of which the least is left."""


def refusal(verdict: Verdict) -> RefusedError:
    """Return what to raise for a verdict that refuses."""
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
