"""Watches: rules compiled at start, so that a call pays only for what it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from looptrap.detect import scope
from looptrap.detect.call_kind import UNCHANGED_POLLS_PER_REPEAT
from looptrap.detect.fingerprint import Fingerprint
from looptrap.detect.scope import Content
from looptrap.detect.signals import ANSWERS, SIGNALS, AnswerSignal, HistorySignal, SignalOptions
from looptrap.policy.action import Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import UNNAMED_FACTOR, Rule, ToolRule
from looptrap.policy.select import Selects, selects


class Watch:
    """One compiled rule of a policy."""

    __slots__ = ("fingerprint", "is_shadow", "ladder", "policy", "rule")

    def __init__(
        self, policy: Policy, rule: Rule, fingerprint: Fingerprint, ladder: Ladder | None = None
    ) -> None:
        self.policy = policy
        self.rule = rule
        self.fingerprint = fingerprint
        self.ladder = ladder or rule.ladder
        self.is_shadow = policy.mode == "shadow"


class CountingWatch(Watch):
    """A rule that counts equal calls across requests."""

    __slots__ = ("content", "is_near")

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
        self.is_near = rule.similarity == "near"


class HistoryWatch(Watch):
    """A rule that reads the history inside one request."""

    __slots__ = ("by_tool", "signal")

    def __init__(
        self,
        policy: Policy,
        rule: Rule,
        fingerprint: Fingerprint,
        signal: HistorySignal,
        ladder: Ladder | None = None,
        by_tool: Mapping[str, HistoryWatch] | None = None,
    ) -> None:
        super().__init__(policy, rule, fingerprint, ladder)
        self.signal = signal
        self.by_tool = by_tool or {}
        """The same rule with the thresholds of a tool."""


class AnswerWatch(Watch):
    """A rule that reads the answer."""

    __slots__ = ("signal",)

    def __init__(
        self, policy: Policy, rule: Rule, fingerprint: Fingerprint, signal: AnswerSignal
    ) -> None:
        super().__init__(policy, rule, fingerprint)
        self.signal = signal


class BoundPolicy:
    """A compiled policy: its selector, and the watches of its rules by what they read."""

    __slots__ = ("counting_watches", "history_watches", "listening", "selects")

    def __init__(self, policy: Policy, secret: bytes, tools: Mapping[str, ToolRule]) -> None:
        rules = [rule for rule in policy.rules if rule.enabled]
        watches = [watch for rule in rules for watch in _watches(policy, rule, secret, tools)]
        self.selects: Selects | None = selects(policy.select)
        by_content: dict[Content, list[CountingWatch]] = {}
        for watch in watches:
            if isinstance(watch, CountingWatch):
                by_content.setdefault(watch.content, []).append(watch)
        self.counting_watches = tuple(by_content.items())
        self.history_watches = tuple(watch for watch in watches if isinstance(watch, HistoryWatch))
        self.listening = tuple(watch for watch in watches if isinstance(watch, AnswerWatch))


def _watches(
    policy: Policy, rule: Rule, secret: bytes, tools: Mapping[str, ToolRule]
) -> Sequence[Watch]:
    def fingerprint(name: str, by: Sequence[str]) -> Fingerprint:
        # Shadow counts have a name of their own: they never affect what is enforced.
        return Fingerprint(secret, (policy.mode, policy.name, name), by)

    if rule.watch == "session":
        # Calls without a session are counted together for a whole project, with higher thresholds.
        named = fingerprint(rule.name, (*rule.by, "session"))
        unnamed = fingerprint(f"{rule.name} unnamed", ("project",))
        higher = rule.ladder.times(UNNAMED_FACTOR)
        return [
            CountingWatch(policy, rule, named, scope.session(True)),
            CountingWatch(policy, rule, unnamed, scope.session(False), higher),
        ]
    own = fingerprint(rule.name, rule.by)
    if rule.watch in SIGNALS:
        by_tool = {
            name: HistoryWatch(policy, rule, own, _signal(rule, tool.ladder, own=True), tool.ladder)
            for name, tool in tools.items()
            if tool.ladder is not None
        }
        return [HistoryWatch(policy, rule, own, _signal(rule, rule.ladder), by_tool=by_tool)]
    if rule.watch in ANSWERS:
        return [AnswerWatch(policy, rule, own, ANSWERS[rule.watch]())]
    return [CountingWatch(policy, rule, own, _content(policy, rule))]


def _signal(rule: Rule, ladder: Ladder, *, own: bool = False) -> HistorySignal:
    """Return a rule's signal for a ladder; a tool's `own` counts every poll, over more rounds."""
    return SIGNALS[rule.watch](
        SignalOptions(
            rounds=max(rule.looks_at, ladder.last) if own else rule.looks_at,
            with_results=rule.parts != "calls",
            polls_per_repeat=1 if own else UNCHANGED_POLLS_PER_REPEAT,
            first=ladder.first,
        )
    )


def _content(policy: Policy, rule: Rule) -> Content:
    masked = rule.similarity == "masked"
    match rule.watch:
        case "conversation":
            return scope.conversation(rule.tail, rule.parts == "all", rule.similarity)
        case "request":
            with_reads = not {"GET", "HEAD"}.isdisjoint(policy.select.methods)
            return scope.request(with_reads, masked)
        case "tool":
            return scope.tool(masked)
        case unknown:
            raise AssertionError(f"no scope or signal {unknown!r}")
