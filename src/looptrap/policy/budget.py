"""Budgets: what calls may cost, whose, and in which time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from looptrap.errors import Problem
from looptrap.policy.action import Action, Ladder
from looptrap.policy.kind import DESCRIPTOR, NAME, TOKENS, Thresholds
from looptrap.policy.policy import SELECTOR, Mode, Selector
from looptrap.schema import Choice, Listing, Number, Table, setting, settings

PERIODS = {
    "5m": 300.0,
    "1h": 3_600.0,
    "1d": 86_400.0,
    "7d": 604_800.0,
    "30d": 2_592_000.0,
    "none": 0.0,
}
"""Periods of budgets in seconds; 0 for a budget that is never renewed."""

Reserve = Literal["maximum", "typical"]
"""What is reserved for an answer."""

STAGES = Ladder({Action.WARN: 80, Action.THROTTLE: 95, Action.BLOCK: 100})

_STAGES = Thresholds(
    Choice(["warn", "throttle", "stop", "block"], into=Action),
    Number(low=1, high=1_000, whole=True, unit="per cent"),
    "actions and per cents",
    least=1,
    into=Ladder,
)


def _delay(budget: Budget) -> float | None:
    """Leave the delay out when the budget is written back and nothing is delayed."""
    return budget.delay if Action.THROTTLE in dict(budget.stages.steps) else None


@settings
class Budget:
    """How much calls with the same descriptors may use in a period."""

    name: str = setting(
        "what verdicts and alerts call it; without one, what it is by and its period: `session-1d`",
        NAME,
        default="",
        default_doc="–",
    )
    by: tuple[str, ...] = setting(
        "whose it is: calls that differ in one of these use different accounts",
        Listing(DESCRIPTOR, "descriptors"),
        default=("caller",),
    )
    limit_usd: float | None = setting(
        "what their calls may cost in a period; those without a known price do not count",
        Number(low=0.0001, high=1_000_000, unit="dollars"),
        default=None,
    )
    limit_tokens: int | None = setting(
        "how many tokens they may use in a period", TOKENS, default=None
    )
    period: str = setting(
        "when all of it is available again: days begin at midnight UTC, seven days on a Monday;"
        " `none` is never",
        Choice(list(PERIODS)),
        default="none",
    )
    stages: Ladder = setting(
        "what is done from how many per cent of the limit on; `stop` and `block` refuse what would"
        " go beyond theirs",
        _STAGES,
        name="thresholds",
        default=STAGES,
    )
    delay: float = setting(
        "how long a throttled call is delayed",
        Number(low=0, high=30, unit="seconds"),
        default=2.0,
        get=_delay,
    )
    output_tokens: int = setting(
        "tokens reserved for an answer where the call sets no limit", TOKENS, default=4_096
    )
    reserve: Reserve = setting(
        "`maximum` reserves all that a call allows for its answer, so that no call goes beyond the"
        " limit; `typical` reserves at most `output_tokens`, and a call passes while anything is"
        " left: the answers under way then may go beyond it",
        default="maximum",
    )
    mode: Mode = setting("`shadow` counts and reports, and lets everything pass", default="enforce")
    select: Selector = setting(
        "which calls count; what is not set matches everything", SELECTOR, default=Selector()
    )

    def __post_init__(self) -> None:
        if not self.name:
            words = [*self.by, *([self.period] if PERIODS[self.period] else [])]
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words) or "caller")[:64]
            object.__setattr__(self, "name", name)


def _mistakes(values: Mapping[str, Any]) -> Iterator[Problem]:
    if "limit_usd" not in values and "limit_tokens" not in values:
        yield Problem("", "has neither limit_usd nor limit_tokens, needs one of them, or both")
    ladder = values.get("thresholds", STAGES)
    if ladder is None:
        return
    stages = dict(ladder.steps)
    if Action.STOP in stages and Action.BLOCK in stages:
        yield Problem(
            "thresholds", "has stop and block, needs one: nothing is used beyond the first"
        )
    if "delay" in values and Action.THROTTLE not in stages:
        yield Problem("delay", "means nothing without throttle in thresholds")


BUDGET = Table.of(Budget, check=_mistakes)


def _limit_mistakes(values: Mapping[str, Any]) -> Iterator[Problem]:
    if not values:
        yield Problem("", "is empty, must have limit_usd, limit_tokens, or both")


BUDGET_LIMITS: Table[dict[str, Any]] = Table(
    fields=[one for one in BUDGET.fields if one.name in ("limit_usd", "limit_tokens")],
    build=lambda **given: {name: value for name, value in given.items() if value is not None},
    check=_limit_mistakes,
)
"""The settings of a budget that can be changed while the gateway runs."""


def same_names(budgets: Sequence[Budget]) -> Iterator[Problem]:
    """Find budgets of one name: alerts could not say which of them was used up."""
    first: dict[str, int] = {}
    for i, budget in enumerate(budgets):
        if first.setdefault(budget.name, i) != i:
            yield Problem(
                f"budgets[{i}]",
                f'is called "{budget.name}", as budgets[{first[budget.name]}] is: give it a name'
                " of its own",
            )
