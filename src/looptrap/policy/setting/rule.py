"""The settings of a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from looptrap.detect.scope import HIT_LIMIT, Similarity, Window, WindowKind
from looptrap.detect.signals import ROUNDS
from looptrap.dialect.descriptor import descriptor
from looptrap.errors import ConfigError, Problem
from looptrap.policy.action import Action, Ladder
from looptrap.policy.rule import ANSWERS, SCOPES, SIGNALS, Rule
from looptrap.schema import Choice, Field, Flag, Listing, Mapped, Number, Table, Text
from looptrap.schema.wording import listed

DAY = 86_400.0

ACTIONS = Choice([action.value for action in Action if action is not Action.ALLOW], into=Action)
THRESHOLD = Number(
    low=2,
    high=HIT_LIMIT,
    whole=True,
    why_low="a first call is never a repeat",
    why_high="hits are counted exactly only up to there",
)
WINDOW = Number(low=0, above=True, high=30 * DAY, unit="seconds", why_high="30 days")
COOLDOWN = Number(low=0, high=DAY, unit="seconds", why_high="one day")
TOKENS = Number(low=1, high=1_000_000_000_000, whole=True)

NAME = Text(
    form="a name of letters, digits, '.', '_' and '-', at most 64",
    pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
)
PATH = Text(form="a path that begins with /", pattern=r"/[\x21-\x7e]*")
TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
"""What HTTP allows in names of headers and methods."""
HEADER = Text(form="the name of a header", pattern=TOKEN, into=str.lower)
PLAIN = Text(
    form="text without line breaks or other control characters", pattern=r"[^\x00-\x1f\x7f]*"
)


def _known(name: str) -> str:
    if name == "key":
        raise ConfigError('is "key", must be a descriptor; who holds a gateway key is a "caller"')
    descriptor(name)
    return name


DESCRIPTOR = Text(form="the name of a descriptor, such as caller or header:x-team", into=_known)


ONLY = {
    "similarity": ("conversation", "request", "tool"),
    "tail": ("conversation",),
    "parts": ("conversation", "repeat"),
    "rounds": tuple(ROUNDS),
    "window": SCOPES,
    "window_kind": SCOPES,
    "cooldown": (*SCOPES, *SIGNALS),
    "extend": (*SCOPES, *SIGNALS),
    "retry_after": (*SCOPES, *SIGNALS),
}
"""Settings that mean something only to rules that watch one of these."""

PARTS = {"conversation": ("all", "content"), "repeat": ("all", "calls")}


def _rule_mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    watch = given.get("watch")
    for name, watches in ONLY.items():
        if watch and name in given and watch not in watches:
            yield Problem(
                name, f'means nothing to watch = "{watch}", only to {listed(watches, "and")}'
            )
    parts = given.get("parts")
    if parts and watch in PARTS and parts not in PARTS[watch]:
        allowed = listed([f'"{part}"' for part in PARTS[watch]], "or")
        yield Problem("parts", f'is "{parts}", must be {allowed} with watch = "{watch}"')
    if given.get("similarity") == "near" and watch != "conversation":
        yield Problem("similarity", f'is "near", which means nothing to watch = "{watch}"')
    if watch in ANSWERS:
        yield from _beyond_answers(given)
    if "thresholds" in given and ("threshold" in given or "action" in given):
        single = listed([name for name in ("threshold", "action") if name in given], "and")
        yield Problem("", f"has {single} and thresholds, needs one or the other")
    elif "threshold" not in given and "thresholds" not in given:
        yield Problem("", "has neither threshold nor thresholds, needs one of them")
    if watch is not None and watch in ROUNDS:
        yield from _unreachable(given, given.get("rounds") or ROUNDS[watch])


def _beyond_answers(given: Mapping[str, Any]) -> Iterator[Problem]:
    """Find actions that come too late for an answer that is on its way."""
    steps = {"action": given.get("action")} | {
        f"thresholds.{action.value}": action for action in given.get("thresholds") or ()
    }
    for place, action in steps.items():
        if action in (Action.THROTTLE, Action.NUDGE):
            yield Problem(place, f'{action.value} means nothing to watch = "{given["watch"]}"')


def _unreachable(given: Mapping[str, Any], rounds: int) -> Iterator[Problem]:
    steps = {"threshold": given.get("threshold")} | {
        f"thresholds.{action}": count for action, count in (given.get("thresholds") or {}).items()
    }
    for place, count in steps.items():
        if count and count > rounds:
            yield Problem(
                place, f"is {count}, must be {rounds} or less (no more rounds are looked at)"
            )


def _rule(
    *,
    threshold: int | None,
    action: Action,
    thresholds: dict[Action, int] | None,
    window: float,
    window_kind: WindowKind,
    **settings: Any,
) -> Rule:
    if thresholds is None:
        assert threshold is not None  # _rule_mistakes has seen to it
        thresholds = {action: threshold}
    return Rule(ladder=ladder_of(thresholds), window=Window(window, window_kind), **settings)


def ladder_of(thresholds: Mapping[Action, int]) -> Ladder:
    """Return the ladder that a setting `thresholds` stands for; raise ConfigError in its name."""
    try:
        return Ladder(thresholds)
    except ConfigError as error:
        raise ConfigError([Problem("thresholds", p.message) for p in error.problems]) from None


def _if_meant(name: str, get: Callable[[Rule], Any]) -> Callable[[Rule], Any]:
    """Leave a setting out when the rule is written back and it means nothing to the rule."""
    return lambda rule: get(rule) if rule.watch in ONLY[name] else None


def _nothing(_built: object) -> None:
    """Leave a setting out when the rule is written back: `thresholds` says it all."""


THRESHOLDS = Mapped(ACTIONS, THRESHOLD, "actions and thresholds", least=1)

RULE = Table(
    check=_rule_mistakes,
    build=_rule,
    fields=[
        Field(name="name", kind=NAME, required=True, doc="what verdicts and incidents call it"),
        Field(
            name="watch",
            kind=Choice([*SCOPES, *SIGNALS, *ANSWERS]),
            required=True,
            doc="what must happen again: counted across requests, read from one's history, or heard"
            " in the answer",
        ),
        Field(
            name="by",
            kind=Listing(DESCRIPTOR, "descriptors"),
            default=("caller",),
            doc="what tells counts apart: calls that differ in one of these never meet",
        ),
        Field(
            name="similarity",
            kind=Choice(get_args(Similarity)),
            default="exact",
            get=_if_meant("similarity", lambda rule: rule.similarity),
            doc="`masked` ignores ids, times and named counters; `near` (`conversation`) what a"
            " retry changes by itself, and takes a prompt that contains an earlier one for it",
        ),
        Field(
            name="tail",
            kind=Number(low=1, high=50, whole=True),
            default=3,
            get=_if_meant("tail", lambda rule: rule.tail),
            doc="how many of the last messages are compared; `conversation` only",
        ),
        Field(
            name="parts",
            kind=Choice(["all", "content", "calls"]),
            default="all",
            get=_if_meant("parts", lambda rule: rule.parts),
            doc="what of them: `all`; `content`, texts only (`conversation`); `calls`, without"
            " their results (`repeat`)",
        ),
        Field(
            name="rounds",
            kind=Number(low=2, high=40, whole=True),
            get=_if_meant("rounds", lambda rule: rule.rounds),
            doc="how many of the latest rounds a history signal looks at; without it, as many as it"
            " mostly needs",
        ),
        Field(
            name="window",
            kind=WINDOW,
            default=60.0,
            get=_if_meant("window", lambda rule: rule.window.seconds),
            doc="how long a hit counts; not for history signals",
        ),
        Field(
            name="window_kind",
            kind=Choice([kind.value for kind in WindowKind], into=WindowKind),
            default=WindowKind.ROLLING,
            get=_if_meant("window_kind", lambda rule: rule.window.kind),
            doc="`rolling`: the last seconds; `fixed`: from the first hit; `refreshed`: every hit"
            " extends it",
        ),
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
            get=lambda rule: rule.ladder.steps,
            doc="several actions, each from a hit of its own; the severer, the later",
        ),
        Field(
            name="cooldown",
            kind=COOLDOWN,
            default=0.0,
            get=_if_meant("cooldown", lambda rule: rule.cooldown),
            doc="how long the same is refused once it was refused, even when the window is empty",
        ),
        Field(
            name="extend",
            kind=Flag(),
            default=False,
            get=_if_meant("extend", lambda rule: rule.extend),
            doc="whether a refusal during the cooldown starts it anew",
        ),
        Field(
            name="retry_after",
            kind=COOLDOWN,
            get=_if_meant("retry_after", lambda rule: rule.retry_after),
            doc="what `Retry-After` says; without it, the cooldown left, at most 60",
        ),
        Field(name="enabled", kind=Flag(), default=True, doc="false switches the rule off"),
    ],
)
