"""Judging: turn counts, histories, balances and answers into verdicts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from looptrap.detect.signals.signal import Evidence
from looptrap.detect.trajectory import MESSAGES_A_ROUND
from looptrap.engine import plan
from looptrap.engine.model import HistoryFinding, Plan, Ticket
from looptrap.money.meter import Meter
from looptrap.money.meters import Hold, settlements_of
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict, action_for, counted, verdict_of
from looptrap.policy.watch import Watch
from looptrap.store.model import Balance, Count, Hit, Trip

MAX_HISTORY_COOLDOWN_S = 1_800.0
"""Longest cooldown of a history: half of the time for which a refusal is remembered."""


def hear(ticket: Ticket, text: str) -> Verdict | None:
    """Judge an answer so far; return a verdict that is severer than all before."""
    before = ticket.heard
    for watch in ticket.listening:
        evidence = watch.signal(text)
        if evidence is None or evidence.count < watch.ladder.first:
            continue
        key = watch.fingerprint.key(ticket.call, evidence.signal.encode())
        verdict = verdict_of(watch, watch.ladder.at(evidence.count), key, evidence)
        if watch.is_shadow:
            ticket.shadow = _severer(verdict, ticket.shadow)
        else:
            ticket.heard = _severer(verdict, ticket.heard)
    return ticket.heard if ticket.heard is not before else None


def judge_history(ticket: Ticket, finding: HistoryFinding, counts: Sequence[Count]) -> None:
    """Refuse a history, remember it, and let one call pass as a probe when the cooldown is over.

    So the model gets a chance to change its approach. If it repeats itself, the probe was wasted
    and the next cooldown is twice as long: a client that waits out every cooldown must not continue
    all night. The first refusal of a loop lasts as long as the rule says, however late it came.
    """
    watch, evidence, key, place = finding
    rule, left = watch.rule, 0.0
    action = watch.ladder.at(evidence.count)
    if place >= 0:
        count = counts[place]
        left = count.cooldown_left
        is_probe = left <= 0 and count.hits > 0 and count.hits % 2 == 0
        if is_probe:
            action = Action.WARN
        elif left <= 0 and rule.cooldown > 0:
            assert ticket.trajectory is not None  # the evidence is from there
            wasted = _wasted_probes(ticket.trajectory.length, evidence, counts[place + 1].marks)
            left = max(rule.cooldown, min(rule.cooldown * 2.0**wasted, MAX_HISTORY_COOLDOWN_S))
            ticket.trips = [*ticket.trips, Trip(key, left, count.hits)]
    _apply(ticket, watch, verdict_of(watch, action, key, evidence, left))


def _wasted_probes(length: int, evidence: Evidence, refused: Sequence[bytes]) -> int:
    """Return how many refused histories this evidence covers: each was followed by a probe.

    Refusals from before the evidence belong to another loop.
    """
    begin, end = (
        plan.length_mark(max(messages, 0))
        for messages in (length - MESSAGES_A_ROUND * (evidence.ago + 1), length)
    )
    return sum(begin <= mark < end for mark in refused)


def note_streak(ticket: Ticket, hit: Hit, count: Count) -> None:
    """Note a call in a row: the store has counted it as under way, unless it is the first."""
    if hit.window.kind.awaits_answers and count.hits > 1 and count.cooldown_left <= 0:
        ticket.streaks = [*ticket.streaks, hit]


def judge_count(ticket: Ticket, watch: Watch, key: bytes, count: Count, signal: str = "") -> None:
    """Judge a count; `signal` names what was counted where it is not what the rule watches."""
    rule = watch.rule
    left = count.cooldown_left
    action = action_for(watch, count.hits, left)
    if action is Action.ALLOW:
        return  # too few hits, or a cooldown from before the rule was relaxed
    if action.refuses and rule.cooldown > 0 and (left <= 0 or rule.extend):
        # The cooldown in the store may be longer than the rule's.
        left = max(left, rule.cooldown)
        ticket.trips = [*ticket.trips, Trip(key, rule.cooldown, count.hits)]
    evidence = counted(watch, count.hits, signal)
    _apply(ticket, watch, verdict_of(watch, action, key, evidence, left))


def judge_charges(
    ticket: Ticket, planned: Plan, balances: Sequence[Balance], is_local: bool
) -> None:
    """Judge balances; charges granted to a refused call are returned."""
    holds = []
    for (meter, charge), balance in zip(planned.metered, balances, strict=True):
        if balance.is_granted:
            holds.append(Hold(meter, charge, balance.place, is_local))
        reading = meter.read(ticket.call, charge, balance, planned.now)
        if reading.verdict is not None:
            _apply(ticket, meter, reading.verdict)
        if reading.budget_status is not None:
            ticket.standings = [*ticket.standings, reading.budget_status]
        if reading.rate_status is not None and not meter.is_shadow:
            is_tighter = ticket.pace is None or reading.rate_status.share < ticket.pace.share
            ticket.pace = reading.rate_status if is_tighter else ticket.pace
    if ticket.verdict.action.refuses:
        ticket.refunds = settlements_of(holds, None)
    else:
        ticket.holds = holds


def _apply(ticket: Ticket, by: Watch | Meter, verdict: Verdict) -> None:
    """Store the verdict if it is the severest; one in shadow mode separately."""
    if by.is_shadow:
        ticket.shadow = _severer(verdict, ticket.shadow)
        return
    if verdict.action.refuses and verdict.reason == "loop_detected":
        ticket.refusing = (*ticket.refusing, verdict.fingerprint)
    if verdict.action.severity > ticket.verdict.action.severity:
        ticket.verdict = verdict


def _severer(verdict: Verdict, before: Verdict | None) -> Verdict:
    is_severer = before is None or verdict.action.severity > before.action.severity
    return verdict if is_severer else before  # type: ignore[return-value]
