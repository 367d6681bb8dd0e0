"""Rules: what to watch, how often it may happen, and what to do then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter, methodcaller
from typing import Any, Literal

from looptrap.detect import signals
from looptrap.detect.scope import Similarity
from looptrap.detect.window import HIT_LIMIT, Window, WindowKind
from looptrap.errors import ConfigError, Problem
from looptrap.policy.action import Action, Ladder
from looptrap.policy.kind import ACTIONS, COOLDOWN, DESCRIPTOR, NAME, THRESHOLD, THRESHOLDS, WINDOW
from looptrap.schema import (
    INVALID,
    Choice,
    Field,
    Listing,
    Number,
    Table,
    inline,
    setting,
    settings,
)
from looptrap.schema.wording import listed

SCOPES = ("conversation", "request", "session", "tool")
"""What a rule can count across requests."""

SIGNALS = tuple(signals.SIGNALS)
"""What a rule can read from the history inside one request."""

ANSWERS = tuple(signals.ANSWERS)
"""What a rule can find in the answer."""

Parts = Literal["all", "content", "calls"]

UNNAMED_FACTOR = 10
"""Calls without a session id share a fingerprint; their thresholds are multiplied by this."""

NAMED_BY_CLIENTS = ("session", "user")
"""Descriptors that an agent can change with every call."""

ACROSS_FACTOR = 2
"""Equal conversations under any session and user: thresholds are multiplied by this."""

_COUNTED = (*SCOPES, *SIGNALS)
"""What a rule can refuse before it is sent."""

_WINDOW = Table(
    build=lambda window, window_kind: Window(window, window_kind),
    fields=[
        Field(
            name="window",
            kind=WINDOW,
            default=Window().seconds,
            get=attrgetter("seconds"),
            only=SCOPES,
            doc="how long a hit counts; not for history signals",
        ),
        Field(
            name="window_kind",
            kind=Choice([kind.value for kind in WindowKind], into=WindowKind),
            default=Window().kind,
            get=attrgetter("kind"),
            only=SCOPES,
            doc="`rolling`: the last seconds; `fixed`: from the first hit; `refreshed`: every hit"
            " extends it; `streak`: calls in a row, each at most so long after the answer before;"
            " calls that overlap count once; `serial`: calls one after the other, none overlapping,"
            " each also at most half of the time that the answer before took after it",
        ),
    ],
)


def _ladder(*, threshold: int, action: Action, thresholds: Ladder | None) -> Ladder:
    return thresholds or Ladder({action: threshold})


def _nothing(_ladder: Ladder) -> None:
    """Leave a setting out when the rule is written back: `thresholds` says it all."""


_LADDER = Table(
    build=_ladder,
    fields=[
        Field(
            name="threshold",
            kind=THRESHOLD,
            get=_nothing,
            doc="the hit from which on `action` is taken; or write `thresholds`",
        ),
        Field(
            name="action",
            kind=ACTIONS,
            default=Action.BLOCK,
            get=_nothing,
            doc="what is done from the `threshold` on",
        ),
        Field(
            name="thresholds",
            kind=THRESHOLDS,
            get=lambda ladder: ladder,
            doc="several actions, each from a hit of its own; the severer, the later",
        ),
    ],
)


@settings
class Rule:
    """Act when what it watches happens as often within its window as its ladder says."""

    name: str = setting("what verdicts and incidents call it", NAME)
    watch: str = setting(
        "what must happen again: counted across requests, read from one's history, or found in the"
        " answer",
        Choice([*SCOPES, *SIGNALS, *ANSWERS]),
    )
    by: tuple[str, ...] = setting(
        "what keeps counts apart: calls that differ in one of these are counted apart",
        Listing(DESCRIPTOR, "descriptors"),
        default=("caller",),
    )
    similarity: Similarity = setting(
        "`masked` ignores ids, times and named counters; `near` (`conversation`) what a retry"
        " changes by itself, and takes a prompt that contains an earlier one for it",
        default="exact",
        only=("conversation", "request", "tool"),
    )
    tail: int = setting(
        "how many of the last messages are compared; `conversation` only",
        Number(low=1, high=50, whole=True),
        default=3,
        only=("conversation",),
    )
    parts: Parts = setting(
        "what of them: `all`; `content`, texts only (`conversation`); `calls`, without their"
        " results (`repeat`)",
        default="all",
        only=("conversation", "repeat"),
    )
    rounds: int | None = setting(
        "how many of the latest rounds a history signal looks at; without it, as many as it"
        " usually needs",
        Number(low=2, high=40, whole=True),
        default=None,
        only=tuple(signals.ROUNDS),
    )
    window: Window = inline(_WINDOW, default=Window())
    ladder: Ladder = inline(_LADDER)
    cooldown: float = setting(
        "how long the same is refused once it was refused, even when the window is empty",
        COOLDOWN,
        default=0.0,
        only=_COUNTED,
    )
    extend: bool = setting(
        "whether a refusal during the cooldown starts it anew", default=False, only=_COUNTED
    )
    retry_after: float | None = setting(
        "what `Retry-After` says; without it, the cooldown left, at most 60",
        COOLDOWN,
        default=None,
        only=_COUNTED,
    )
    enabled: bool = setting("false switches the rule off", default=True)

    def __post_init__(self) -> None:
        if self.ladder.last <= self.max_threshold:
            return
        if self.watch == "session":
            why = f"watch sessions (calls without one are counted {UNNAMED_FACTOR} times as far)"
        elif self.counts_across:
            why = f"count by session or user (others are counted {ACROSS_FACTOR} times as far)"
        else:
            why = "be counted"
        raise ConfigError(
            f"rule {self.name!r}: threshold is {self.ladder.last}, must be {self.max_threshold} or"
            f" less to {why}"
        )

    @property
    def counts_across(self) -> bool:
        """Whether calls under other sessions and users count too, one right after the other."""
        return (
            self.watch == "conversation"
            and self.window.kind is WindowKind.STREAK
            and not set(NAMED_BY_CLIENTS).isdisjoint(self.by)
        )

    @property
    def max_threshold(self) -> int:
        """The highest threshold it can have: some counts go further than its own."""
        if self.watch == "session":
            return HIT_LIMIT // UNNAMED_FACTOR
        return HIT_LIMIT // ACROSS_FACTOR if self.counts_across else HIT_LIMIT

    @property
    def looks_at(self) -> int:
        """Latest rounds that are considered; 0 for no bound."""
        return self.rounds or signals.ROUNDS.get(self.watch, 0)

    def override(
        self,
        *,
        threshold: int | None = None,
        action: Action | None = None,
        window: float | None = None,
        cooldown: float | None = None,
    ) -> Rule:
        """Return the rule with a project's values in place of its own.

        A threshold applies to counts across requests only: each signal counts in its own way.
        """
        return replace(
            self,
            ladder=self.ladder.override(threshold if self.watch in SCOPES else None, action),
            window=self.window if window is None else Window(window, self.window.kind),
            cooldown=self.cooldown if cooldown is None else cooldown,
        )


PARTS = {"conversation": ("all", "content"), "repeat": ("all", "calls")}


def _rule_mistakes(values: Mapping[str, Any]) -> Iterator[Problem]:
    watch = values.get("watch")
    parts = values.get("parts")
    if parts and watch in PARTS and parts not in PARTS[watch]:
        allowed = listed([f'"{part}"' for part in PARTS[watch]], "or")
        yield Problem("parts", f'is "{parts}", must be {allowed} with watch = "{watch}"')
    if values.get("similarity") == "near" and watch != "conversation":
        yield Problem("similarity", f'is "near", which means nothing to watch = "{watch}"')
    if "thresholds" in values and ("threshold" in values or "action" in values):
        single = listed([name for name in ("threshold", "action") if name in values], "and")
        yield Problem("", f"has {single} and thresholds, needs one or the other")
    elif "threshold" not in values and "thresholds" not in values:
        yield Problem("", "has neither threshold nor thresholds, needs one of them")
    rounds = values.get("rounds") or signals.ROUNDS.get(str(watch))
    for action_place, place, action, count in _steps(values):
        if watch in ANSWERS and action in (Action.THROTTLE, Action.NUDGE):
            # The answer is on its way: these come too late.
            yield Problem(action_place, f'{action.value} means nothing to watch = "{watch}"')
        if watch in signals.ROUNDS and rounds and count and count > rounds:
            yield Problem(
                place, f"is {count}, must be {rounds} or less (no more rounds are looked at)"
            )


def _steps(values: Mapping[str, Any]) -> Iterator[tuple[str, str, Action | None, int | None]]:
    """Yield each action and its threshold, after the places of both."""
    yield "action", "threshold", values.get("action"), values.get("threshold")
    ladder: Ladder | None = values.get("thresholds")
    for action, count in ladder.steps if ladder else ():
        yield f"thresholds.{action}", f"thresholds.{action}", action, count


RULE = Table.of(Rule, check=_rule_mistakes, tag="watch")


RuleChange = Mapping[str, Any]
"""The settings of a rule that a configuration changes, with their typed values."""


def _change_mistakes(values: Mapping[str, Any]) -> Iterator[Problem]:
    if not values:
        yield Problem("", "is empty, must say what is different")


RULE_CHANGE: Table[RuleChange] = Table(
    fields=[
        replace(each, default=None, required=False, only=(), get=methodcaller("get", each.name))
        for each in RULE.fields
        if each.name not in ("name", "watch")
    ],
    build=lambda **given: {name: value for name, value in given.items() if value is not None},
    check=_change_mistakes,
)


def change_rule(rule: Rule, change: RuleChange, place: str, problems: list[Problem]) -> Rule:
    """Return a rule with some settings changed; one that makes no sense then is reported.

    A new `threshold` or `action` keeps the other one of the severest step, and no milder step.
    """
    plain = RULE.plain(rule)
    if "threshold" in change or "action" in change:
        action, threshold = plain.pop("thresholds").popitem()
        plain |= {"action": action, "threshold": threshold}
    if "thresholds" in change:
        plain.pop("thresholds", None)
    changed = RULE.read(plain | RULE_CHANGE.plain(change), place, problems)
    return rule if changed is INVALID else changed


@settings
class ToolRule:
    """A tool's own thresholds for signals in histories, or its exemption."""

    ladder: Ladder | None = setting(
        "in place of those of every history rule, where the latest round calls nothing but this"
        " tool; polling is counted in full",
        THRESHOLDS,
        name="thresholds",
        default=None,
    )
    exempt: bool = setting(
        "leave rounds that call nothing but exempt tools out of the history", default=False
    )


def _tool_mistakes(values: Mapping[str, Any]) -> Iterator[Problem]:
    if values.get("exempt") and "thresholds" in values:
        yield Problem("", "is exempt and has thresholds, needs one or the other")


TOOL = Table.of(ToolRule, check=_tool_mistakes)
