"""Judging: what counts, histories and answers mean to the rules that watch them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from looptrap.guard.model import Seen, Ticket
from looptrap.policy.action import Action
from looptrap.policy.decide import action_for, counted, verdict_of
from looptrap.policy.verdict import Verdict
from looptrap.policy.watch import Watch
from looptrap.store.model import Count, Trip


def hear(ticket: Ticket, text: str) -> Verdict | None:
    """Judge an answer so far; return what is severer than all that was heard of it before."""
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


def judge_history(ticket: Ticket, seen: Seen, counts: Sequence[Count]) -> None:
    """Refuse a history, remember it, and let one call pass as a probe when the cooldown is over.

    So the model gets a turn to change its approach; if it repeats itself, that is another history.
    """
    watch, evidence, key, place = seen
    rule, left = watch.rule, 0.0
    action = watch.ladder.at(evidence.count)
    if place >= 0:
        count = counts[place]
        left = count.cooldown_left
        is_probe = left <= 0 and count.hits > 0 and count.hits % 2 == 0
        if is_probe:
            action = Action.WARN
        elif left <= 0 and rule.cooldown > 0:
            left = rule.cooldown
            ticket.trips = [*ticket.trips, Trip(key, left, count.hits)]
    _weigh(ticket, watch, verdict_of(watch, action, key, evidence, left))


def judge_count(ticket: Ticket, watch: Watch, key: bytes, count: Count, signal: str = "") -> None:
    """Judge how often something was counted; `signal` says what, where the rule does not."""
    rule = watch.rule
    left = count.cooldown_left
    action = action_for(watch, count.hits, left)
    if action is Action.ALLOW:
        return  # too few, or a cooldown from before the rule was made milder
    if action.refuses and rule.cooldown > 0 and (left <= 0 or rule.extend):
        left = rule.cooldown
        ticket.trips = [*ticket.trips, Trip(key, left, count.hits)]
    evidence = counted(rule, count.hits, signal)
    _weigh(ticket, watch, verdict_of(watch, action, key, evidence, left))


def _weigh(ticket: Ticket, watch: Watch, verdict: Verdict) -> None:
    """Keep the severer verdict, in its own column when the watch is in shadow."""
    if watch.is_shadow:
        ticket.shadow = _severer(verdict, ticket.shadow)
    elif verdict.action.severity > ticket.verdict.action.severity:
        ticket.verdict = verdict


def _severer(verdict: Verdict, before: Verdict | None) -> Verdict:
    is_severer = before is None or verdict.action.severity > before.action.severity
    return verdict if is_severer else before  # type: ignore[return-value]
