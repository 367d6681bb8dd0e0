"""The settings of a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from looptrap.errors import Problem
from looptrap.policy.action import Action
from looptrap.policy.limit import PERIODS, STAGES, Budget
from looptrap.policy.policy import Selector
from looptrap.policy.setting.policy import SELECTOR
from looptrap.policy.setting.rule import DESCRIPTOR, NAME, TOKENS, ladder_of
from looptrap.schema import Choice, Field, Listing, Mapped, Number, Table

_ACTIONS = (Action.WARN, Action.THROTTLE, Action.STOP, Action.BLOCK)
_LIMITS = ("limit_usd", "limit_tokens")
_DEFAULTS = {one.name: one.default for one in fields(Budget) if one.default is not MISSING}


def _mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    if not any(name in given for name in _LIMITS):
        yield Problem("", "has neither limit_usd nor limit_tokens, needs one of them, or both")
    stages = given.get("thresholds", dict(STAGES.steps))
    if stages is None:
        return
    if Action.STOP in stages and Action.BLOCK in stages:
        yield Problem(
            "thresholds", "has stop and block, needs one: nothing is used beyond the first"
        )
    if "delay" in given and Action.THROTTLE not in stages:
        yield Problem("delay", "means nothing without throttle in thresholds")


def _budget(*, name: str | None, thresholds: Mapping[Action, int], **settings: Any) -> Budget:
    name = name or _named(settings["by"], settings["period"])
    return Budget(name=name, stages=ladder_of(thresholds), **settings)


def _named(by: Sequence[str], period: str) -> str:
    """Return what a budget is called that has no name: `session-1d`."""
    words = [*by, *([period] if PERIODS[period] else [])]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words) or "caller")[:64]


def same_names(budgets: Sequence[Budget]) -> Iterator[Problem]:
    """Find budgets of one name: nobody could tell which of them was used up."""
    first: dict[str, int] = {}
    for i, budget in enumerate(budgets):
        if first.setdefault(budget.name, i) != i:
            yield Problem(
                f"budgets[{i}]",
                f'is called "{budget.name}", as budgets[{first[budget.name]}] is: give it a name'
                " of its own",
            )


def _delay(budget: Budget) -> float | None:
    """Leave the delay out when the budget is written back and nothing is delayed."""
    return budget.delay if Action.THROTTLE in dict(budget.stages.steps) else None


BUDGET = Table(
    check=_mistakes,
    build=_budget,
    fields=[
        Field(
            name="name",
            kind=NAME,
            doc="what verdicts and alerts call it; without one, what it is by and its period:"
            " `session-1d`",
        ),
        Field(
            name="by",
            kind=Listing(DESCRIPTOR, "descriptors"),
            default=_DEFAULTS["by"],
            doc="whose it is: calls that differ in one of these use different accounts",
        ),
        Field(
            name="limit_usd",
            kind=Number(low=0.0001, high=1_000_000, unit="dollars"),
            doc="what their calls may cost in a period; those without a known price do not count",
        ),
        Field(name="limit_tokens", kind=TOKENS, doc="how many tokens they may use in a period"),
        Field(
            name="period",
            kind=Choice(list(PERIODS)),
            default=_DEFAULTS["period"],
            doc="when all of it is there again: days begin at midnight UTC, seven days on a Monday;"
            " `none` is never",
        ),
        Field(
            name="thresholds",
            kind=Mapped(
                Choice([action.value for action in _ACTIONS], into=Action),
                Number(low=1, high=1_000, whole=True, unit="per cent"),
                "actions and per cents",
                least=1,
            ),
            default=dict(STAGES.steps),
            get=lambda budget: budget.stages.steps,
            doc="what is done from how many per cent of the limit on; `stop` and `block` refuse"
            " what would go beyond theirs",
        ),
        Field(
            name="delay",
            kind=Number(low=0, high=30, unit="seconds"),
            default=_DEFAULTS["delay"],
            get=_delay,
            doc="for how long a throttled call is held back",
        ),
        Field(
            name="output_tokens",
            kind=TOKENS,
            default=_DEFAULTS["output_tokens"],
            doc="what is reserved for an answer where the call sets no limit to it",
        ),
        Field(
            name="mode",
            kind=Choice(["enforce", "shadow"]),
            default=_DEFAULTS["mode"],
            doc="`shadow` counts and reports, and lets everything pass",
        ),
        Field(
            name="select",
            kind=SELECTOR,
            default=Selector(),
            doc="which calls count; what is not set matches everything",
        ),
    ],
)
