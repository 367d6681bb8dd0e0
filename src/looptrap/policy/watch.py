"""Watches: rules made ready at start, so that a call pays only for what it needs."""

from __future__ import annotations

from collections.abc import Sequence

from looptrap.detect import scope
from looptrap.detect.fingerprint import Fingerprint
from looptrap.detect.scope import Content
from looptrap.detect.signals import SIGNALS, Signal
from looptrap.policy.action import Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import UNNAMED_FACTOR, Rule
from looptrap.policy.select import Selects, selects


class Watch:
    """One rule of one policy, made ready."""

    __slots__ = ("fingerprint", "is_shadow", "ladder", "policy", "rule")

    def __init__(
        self, policy: Policy, rule: Rule, fingerprint: Fingerprint, ladder: Ladder | None = None
    ) -> None:
        self.policy = policy
        self.rule = rule
        self.fingerprint = fingerprint
        self.ladder = ladder or rule.ladder
        self.is_shadow = policy.mode == "shadow"


class Counting(Watch):
    """A rule that counts equal calls across requests."""

    __slots__ = ("content",)

    def __init__(
        self,
        policy: Policy,
        rule: Rule,
        fingerprint: Fingerprint,
        content: Content,
        ladder: Ladder | None = None,
    ) -> None:
        super().__init__(policy, rule, fingerprint, ladder)
        self.content = content


class Reading(Watch):
    """A rule that reads the history inside one request."""

    __slots__ = ("signal",)

    def __init__(
        self, policy: Policy, rule: Rule, fingerprint: Fingerprint, signal: Signal
    ) -> None:
        super().__init__(policy, rule, fingerprint)
        self.signal = signal


class Binding:
    """A policy made ready: whom it binds, what its rules count, and what they read."""

    __slots__ = ("counting", "reading", "selects")

    def __init__(self, policy: Policy, secret: bytes) -> None:
        rules = [rule for rule in policy.rules if rule.enabled]
        watches = [watch for rule in rules for watch in _watches(policy, rule, secret)]
        self.selects: Selects | None = selects(policy.select)
        by_content: dict[Content, list[Counting]] = {}
        for watch in watches:
            if isinstance(watch, Counting):
                by_content.setdefault(watch.content, []).append(watch)
        self.counting = tuple(by_content.items())
        self.reading = tuple(watch for watch in watches if isinstance(watch, Reading))


def _watches(policy: Policy, rule: Rule, secret: bytes) -> Sequence[Watch]:
    def fingerprint(name: str, by: Sequence[str]) -> Fingerprint:
        # Shadow counts live under a name of their own: they never touch what is enforced.
        return Fingerprint(secret, (policy.mode, policy.name, name), by)

    if rule.watch == "session":
        # Calls that name no session are counted together, a whole project's, and further.
        named = fingerprint(rule.name, (*rule.by, "session"))
        unnamed = fingerprint(f"{rule.name} unnamed", ("project",))
        higher = rule.ladder.times(UNNAMED_FACTOR)
        return [
            Counting(policy, rule, named, scope.session(True)),
            Counting(policy, rule, unnamed, scope.session(False), higher),
        ]
    own = fingerprint(rule.name, rule.by)
    if rule.watch in SIGNALS:
        signal = SIGNALS[rule.watch](rule.looks_at, rule.parts != "calls")
        return [Reading(policy, rule, own, signal)]
    return [Counting(policy, rule, own, _content(policy, rule))]


def _content(policy: Policy, rule: Rule) -> Content:
    masked = rule.similarity == "masked"
    match rule.watch:
        case "conversation":
            return scope.conversation(rule.tail, rule.parts == "all", masked)
        case "request":
            with_reads = not {"GET", "HEAD"}.isdisjoint(policy.select.methods)
            return scope.request(with_reads, masked)
        case "tool":
            return scope.tool(masked)
        case other:
            raise AssertionError(f"no scope or signal {other!r}")
