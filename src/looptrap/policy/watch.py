"""Watches: rules compiled at start, so that a call pays only for what it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from looptrap.detect import scope
from looptrap.detect.call_kind import UNCHANGED_POLLS_PER_REPEAT
from looptrap.detect.fingerprint import Fingerprint
from looptrap.detect.scope import Content
from looptrap.detect.signals import ANSWERS, SIGNALS, AnswerSignal, HistorySignal, SignalOptions
from looptrap.detect.window import Window, WindowKind
from looptrap.policy.action import Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import ACROSS_FACTOR, NAMED_BY_CLIENTS, UNNAMED_FACTOR, Rule, ToolRule
from looptrap.policy.select import Selects, selects


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """One compiled rule of a policy."""

    policy: Policy
    rule: Rule
    fingerprint: Fingerprint
    ladder: Ladder

    @property
    def is_shadow(self) -> bool:
        """Whether its verdicts are only reported."""
        return self.policy.mode == "shadow"


@dataclass(frozen=True, slots=True, eq=False)
class CountingWatch(Watch):
    """A rule that counts equal calls across requests."""

    content: Content
    is_near: bool = False
    factor: int = 1
    """By what the thresholds of its rule are multiplied."""
    is_across: bool = False
    """Whether it counts only calls for which an agent names a session or user, whichever."""
    counts_retries: bool = False
    """Whether it counts only prompts that say how often they were sent, one after the other."""


@dataclass(frozen=True, slots=True, eq=False)
class HistoryWatch(Watch):
    """A rule that reads the history inside one request."""

    signal: HistorySignal
    by_tool: Mapping[str, HistoryWatch] = field(default_factory=dict)
    """The same rule with the thresholds of a tool."""


@dataclass(frozen=True, slots=True, eq=False)
class AnswerWatch(Watch):
    """A rule that reads the answer."""

    signal: AnswerSignal


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
            CountingWatch(policy, rule, named, rule.ladder, scope.session(True)),
            CountingWatch(
                policy, rule, unnamed, higher, scope.session(False), factor=UNNAMED_FACTOR
            ),
        ]
    own, ladder = fingerprint(rule.name, rule.by), rule.ladder
    if rule.watch in SIGNALS:
        by_tool = {
            name: HistoryWatch(policy, rule, own, tool.ladder, _signal(rule, tool.ladder, own=True))
            for name, tool in tools.items()
            if tool.ladder is not None
        }
        return [HistoryWatch(policy, rule, own, ladder, _signal(rule, ladder), by_tool)]
    if rule.watch in ANSWERS:
        return [AnswerWatch(policy, rule, own, ladder, ANSWERS[rule.watch]())]
    content, is_near = _content(policy, rule), rule.similarity == "near"
    watches = [CountingWatch(policy, rule, own, ladder, content, is_near)]
    if is_near:
        retried = fingerprint(f"{rule.name} retried", rule.by)
        slow = replace(rule, window=Window(scope.RETRIES_APART_S, WindowKind.STREAK))
        retry = scope.numbered_retry(rule.tail)
        watches.append(CountingWatch(policy, slow, retried, ladder, retry, counts_retries=True))
    if rule.counts_across:
        # An agent may name a new session or user with every call. Users send the same, too; but
        # their calls overlap, or come at any time, and not one right after the other.
        across = fingerprint(
            f"{rule.name} across", [name for name in rule.by if name not in NAMED_BY_CLIENTS]
        )
        serial = replace(rule, window=Window(rule.window.seconds, WindowKind.SERIAL))
        higher = ladder.times(ACROSS_FACTOR)
        watches.append(
            CountingWatch(
                policy, serial, across, higher, content, factor=ACROSS_FACTOR, is_across=True
            )
        )
    return watches


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
