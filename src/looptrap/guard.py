"""The guard: the one place where calls, rules and counts meet.

plan(call, now)              which keys to count, and what the history shows      pure
store.hit(plan.hits, now)    counts and cooldowns, at once or later
judge(plan, counts)          a Ticket with its Verdict                            pure
store.trip(ticket.trips)     only when something tripped
settle(ticket, outcome)      what became of it
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from looptrap.call.body import read_body
from looptrap.call.header import SESSION_HEADERS, is_retry, session_of
from looptrap.call.model import Call, Outcome
from looptrap.detect.evidence import Evidence
from looptrap.detect.fingerprint import key_of
from looptrap.detect.trajectory import Trajectory, is_fresh
from looptrap.detect.window import Window, WindowKind
from looptrap.errors import LoopDetectedError
from looptrap.policy import preset
from looptrap.policy.action import Action
from looptrap.policy.decide import action_for, counted, verdict_of
from looptrap.policy.policy import KillSwitch, Policy, Project
from looptrap.policy.switch import Switch
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.policy.watch import Binding, Reading, Watch
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Count, Hit, Trip

HISTORY_WINDOW = Window(3_600.0, WindowKind.REFRESHED)
"""How long it is remembered that a history was refused."""


class Seen(NamedTuple):
    """What a watch read from the history, and the key under which a refusal is remembered."""

    watch: Watch
    evidence: Evidence
    key: bytes


class Plan(msgspec.Struct, gc=False):
    """What to ask the store about a call, and what its history shows already."""

    call: Call
    hits: list[Hit]
    watches: list[Watch]
    """Whose hits they are, in the same order; those of `seen` that would refuse come after."""
    seen: Sequence[Seen] = ()
    killed: Verdict | None = None


class Ticket(msgspec.Struct, gc=False):
    """An admitted or refused call, to be settled when its outcome is known."""

    call: Call
    verdict: Verdict = ALLOWED
    shadow: Verdict | None = None
    """What policies in shadow mode would have done, where that is more than nothing."""
    trips: Sequence[Trip] = ()
    """Cooldowns that this verdict starts."""


class Tally:
    """Plain counters: what was decided and what became of it."""

    __slots__ = ("input_tokens", "output_tokens", "rules", "shadow_rules", "statuses", "verdicts")

    def __init__(self) -> None:
        self.verdicts: Counter[Action] = Counter()
        self.rules: Counter[tuple[str, str, Action]] = Counter()
        """By policy, rule and action; what was simply allowed is not here."""
        self.shadow_rules: Counter[tuple[str, str, Action]] = Counter()
        self.statuses: Counter[int] = Counter()
        self.input_tokens = 0
        self.output_tokens = 0


class Guard:
    """Judges calls by policies; pure but for its tally and, in `check`, clock and store."""

    def __init__(
        self,
        policies: Iterable[Policy],
        *,
        projects: Iterable[Project] = (),
        kill_switches: Iterable[KillSwitch] = (),
        secret: bytes | None = None,
        store: MemoryStore | None = None,
        tally: Tally | None = None,
        session_headers: Iterable[str] = SESSION_HEADERS,
    ) -> None:
        policies = tuple(policies)
        key = secret or secrets.token_bytes(32)
        self._bindings = tuple(Binding(policy, key) for policy in policies)
        self._by_project = {
            project.name: tuple(
                Binding(adapted, key)
                for policy in policies
                if (adapted := project.adapt(policy)) is not None
            )
            for project in projects
        }
        self._switches = tuple(Switch(switch) for switch in kill_switches)
        self._session_headers = tuple(name.lower().encode() for name in session_headers)
        self._lock = Lock()
        self.store = MemoryStore() if store is None else store
        self.tally = Tally() if tally is None else tally

    @classmethod
    def from_preset(cls, name: str = "default", **settings: Any) -> Guard:
        """Make a guard from a preset: `default`, `aisg`, `fairvisor`, `zelyx`, `tcc`, …"""
        return cls(preset.load(name), **settings)

    def plan(self, call: Call, now: float) -> Plan:
        """Return what to count for a call, and what its history shows."""
        for switch in self._switches:
            if switch.kills(call, now):
                return Plan(call, [], [], killed=switch.verdict)
        bindings = self._bindings
        if self._by_project and call.request.project:
            bindings = self._by_project.get(call.request.project, bindings)
        plan = Plan(call, [], [])
        for binding in bindings:
            if binding.selects is not None and not binding.selects(call):
                continue
            for content_of, watches in binding.counting:
                content = content_of(call)
                if content is not None:
                    for watch in watches:
                        key = watch.fingerprint.key(call, content)
                        plan.hits.append(Hit(key, watch.rule.window))
                        plan.watches.append(watch)
            if binding.reading and not is_fresh(call):
                plan.seen = [*plan.seen, *_seen(binding.reading, call)]
        for seen in plan.seen:
            if seen.watch.ladder.at(seen.evidence.count).refuses:
                plan.hits.append(Hit(seen.key, HISTORY_WINDOW))
        return plan

    def judge(self, plan: Plan, counts: Sequence[Count]) -> Ticket:
        """Return the severest verdict; on a tie the first rule's."""
        ticket = Ticket(plan.call)
        if plan.killed is not None:
            ticket.verdict = plan.killed
            return ticket
        for index, watch in enumerate(plan.watches):
            count = counts[index]
            if count.hits >= watch.ladder.first or count.cooldown_left > 0:
                _judge_count(ticket, watch, plan.hits[index].key, count)
        if plan.seen:
            remembered = iter(counts[len(plan.watches) :])
            for seen in plan.seen:
                _judge_history(ticket, seen, remembered)
        return ticket

    def settle(self, ticket: Ticket, outcome: Outcome | None = None) -> None:
        """Record what was decided and, where it went upstream, what became of it."""
        tally = self.tally
        verdict, shadow = ticket.verdict, ticket.shadow
        tally.verdicts[verdict.action] += 1
        if verdict is not ALLOWED:
            tally.rules[verdict.policy, verdict.rule, verdict.action] += 1
        if shadow is not None:
            tally.shadow_rules[shadow.policy, shadow.rule, shadow.action] += 1
        if outcome is not None:
            tally.statuses[outcome.status] += 1
            tally.input_tokens += outcome.input_tokens
            tally.output_tokens += outcome.output_tokens

    def admit(self, call: Call, now: float) -> Ticket:
        """Plan, count and judge in one go, with this guard's own store. Thread-safe."""
        plan = self.plan(call, now)
        with self._lock:
            ticket = self.judge(plan, self.store.hit(plan.hits, now, retry=call.request.is_retry))
            if ticket.trips:
                self.store.trip(ticket.trips, now)
        return ticket

    def check(
        self,
        request: Mapping[str, Any] | bytes,
        *,
        caller: str = "",
        project: str = "",
        session: str = "",
        path: str | None = None,
        headers: Mapping[str, str] | None = None,
        now: float | None = None,
    ) -> Ticket:
        """Admit a call about to be made; raise `LoopDetectedError` when it must not be.

        `request` is what an SDK is about to send (`{"model": …, "messages": […]}`) in any dialect.
        The ticket says what was decided; a `throttle` verdict's `delay` is the caller's to wait.
        """
        sent = {name.lower().encode(): text.encode() for name, text in (headers or {}).items()}
        call = read_body(request, path)
        call.request.headers = list(sent.items())
        call.request.caller = caller
        call.request.project = project
        call.request.session = session or session_of(sent, self._session_headers)
        call.request.is_retry = is_retry(sent)
        ticket = self.admit(call, time.time() if now is None else now)
        with self._lock:
            self.settle(ticket)
        verdict = ticket.verdict
        if verdict.action.refuses:
            raise LoopDetectedError(
                verdict.message,
                hit_count=verdict.count,
                cooldown_seconds=verdict.cooldown_left,
                fingerprint=verdict.fingerprint,
                rule=verdict.rule,
                evidence=verdict.evidence,
            )
        return ticket

    def release(self, fingerprint: str, now: float | None = None) -> bool:
        """Let the next call of a fingerprint pass; say whether it was known."""
        key, is_history = key_of(fingerprint)
        with self._lock:
            known = self.store.release(key)
            if known and is_history:
                # As if it had been refused and waited out: the next one is the probe.
                now = time.time() if now is None else now
                self.store.hit([Hit(key, HISTORY_WINDOW)], now)
        return known


def _seen(watches: Iterable[Reading], call: Call) -> Iterator[Seen]:
    """Yield what the history shows that is worth a verdict; one kept elsewhere shows nothing."""
    trajectory = Trajectory(call)
    if call.chain or not trajectory.latest(1):
        return
    for watch in watches:
        evidence = watch.signal(trajectory)
        if evidence is not None and evidence.count >= watch.ladder.first:
            content = trajectory.mark([evidence.signal, str(evidence.count)])
            yield Seen(watch, evidence, watch.fingerprint.key(call, content))


def _judge_history(ticket: Ticket, seen: Seen, remembered: Iterator[Count]) -> None:
    """Refuse a history, remember it, and let one call pass as a probe when the cooldown is over.

    So the model gets a turn to change its approach; if it repeats itself, that is another history.
    """
    watch, evidence, key = seen
    rule, left = watch.rule, 0.0
    action = watch.ladder.at(evidence.count)
    if action.refuses:
        count = next(remembered)
        left = count.cooldown_left
        is_probe = left <= 0 and count.hits > 0 and count.hits % 2 == 0
        if is_probe:
            action = Action.WARN
        elif left <= 0 and rule.cooldown > 0:
            left = rule.cooldown
            ticket.trips = [*ticket.trips, Trip(key, left, count.hits)]
    _weigh(ticket, watch, verdict_of(watch, action, key, evidence, left))


def _judge_count(ticket: Ticket, watch: Watch, key: bytes, count: Count) -> None:
    rule = watch.rule
    left = count.cooldown_left
    action = action_for(watch, count.hits, left)
    if action is Action.ALLOW:
        return  # a cooldown from before the rule was made milder
    if action.refuses and rule.cooldown > 0 and (left <= 0 or rule.extend):
        left = rule.cooldown
        ticket.trips = [*ticket.trips, Trip(key, left, count.hits)]
    _weigh(ticket, watch, verdict_of(watch, action, key, counted(watch, count.hits), left))


def _weigh(ticket: Ticket, watch: Watch, verdict: Verdict) -> None:
    """Keep the severer verdict, in its own column when the watch is in shadow."""
    if watch.is_shadow:
        if ticket.shadow is None or verdict.action.severity > ticket.shadow.action.severity:
            ticket.shadow = verdict
    elif verdict.action.severity > ticket.verdict.action.severity:
        ticket.verdict = verdict
