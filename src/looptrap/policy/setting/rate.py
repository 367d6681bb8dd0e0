"""The settings of a rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, get_args

from looptrap.errors import Problem
from looptrap.policy.limit import Rate, RateKind
from looptrap.policy.setting.rule import DESCRIPTOR, NAME, TOKEN, TOKENS
from looptrap.schema import Choice, Field, Flag, Listing, Mapped, Number, Table, Text
from looptrap.schema.wording import listed, shown

ONLY: dict[str, RateKind] = {
    "rps": "token_bucket",
    "tokens_per_second": "token_bucket",
    "burst": "token_bucket",
    "cost": "token_bucket",
    "default_cost": "token_bucket",
    "tokens_per_minute": "token_bucket_llm",
    "tokens_per_day": "token_bucket_llm",
    "burst_tokens": "token_bucket_llm",
    "output_tokens": "token_bucket_llm",
}
"""Settings that mean something only to rates of this kind."""

RPS = Number(low=0.0001, high=1_000_000)
CALLS = Number(low=1, high=1_000_000, whole=True)
COST = Text(
    form='"header:<name>" or "query:<name>"', pattern=rf"header:{TOKEN}|query:[^\x00-\x1f\x7f]+"
)
_VALUES = "descriptors and values"

_NEEDED: dict[RateKind, tuple[str, ...]] = {
    "token_bucket": ("rps", "tokens_per_second"),
    "token_bucket_llm": ("tokens_per_minute", "tokens_per_day"),
}


def _mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    kind: RateKind | None = given.get("kind", "token_bucket")
    if kind is None:
        return
    for name, meant in ONLY.items():
        if name in given and kind != meant:
            yield Problem(name, f'means nothing to kind = "{kind}", only to {meant}')
    needed = _NEEDED[kind]
    if not any(name in given for name in needed):
        yield Problem("", f"has neither {listed(needed, 'nor')}, needs one of them")
    if kind == "token_bucket":
        yield from _bucket_mistakes(given)
    elif "burst_tokens" in given and "tokens_per_minute" not in given:
        yield Problem("burst_tokens", "means nothing without tokens_per_minute")


def _bucket_mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    if "rps" in given and "tokens_per_second" in given:
        yield Problem("", "has rps and tokens_per_second, which mean the same: needs one of them")
        return
    rps = given.get("rps") or given.get("tokens_per_second")
    cost = given.get("default_cost") or 1
    burst = given.get("burst") or (ceil(rps) if rps else None)
    if burst is not None and cost > burst:
        yield Problem(
            "default_cost",
            f"is {shown(cost)}, must be {shown(burst)} or less: no more fits into the burst",
        )


def _rate(
    *,
    rps: float | None,
    tokens_per_second: float | None,
    match: Mapping[str, str],
    unless: Sequence[Mapping[str, str]],
    **settings: Any,
) -> Rate:
    return Rate(
        rps=tokens_per_second if rps is None else rps,
        match=tuple(match.items()),
        unless=tuple(tuple(one.items()) for one in unless),
        **settings,
    )


def _if_meant(name: str) -> Callable[[Rate], Any]:
    """Leave a setting out when the rate is written back and it means nothing to the rate."""
    return lambda rate: getattr(rate, name) if rate.kind == ONLY[name] else None


def _nothing(_built: object) -> None:
    """Leave a setting out when the rate is written back: `rps` says it."""


RATE = Table(
    check=_mistakes,
    build=_rate,
    fields=[
        Field(name="name", kind=NAME, required=True, doc="what verdicts call it"),
        Field(
            name="kind",
            kind=Choice(get_args(RateKind)),
            default="token_bucket",
            doc="`token_bucket` counts calls, `token_bucket_llm` tokens",
        ),
        Field(
            name="by",
            kind=Listing(DESCRIPTOR, "descriptors"),
            default=("caller",),
            doc="whose it is: calls that differ in one of these use different buckets",
        ),
        Field(
            name="match",
            kind=Mapped(DESCRIPTOR, Text(), _VALUES),
            default={},
            doc="only calls whose descriptors have all of these values are counted",
        ),
        Field(
            name="unless",
            kind=Listing(Mapped(DESCRIPTOR, Text(), _VALUES, least=1), f"tables of {_VALUES}"),
            default=(),
            doc="calls that have all values of one of these are not",
        ),
        Field(
            name="rps",
            kind=RPS,
            get=_if_meant("rps"),
            doc="calls a second that are let through in the long run",
        ),
        Field(
            name="tokens_per_second",
            kind=RPS,
            get=_nothing,
            doc="the same, under Fairvisor's name",
        ),
        Field(
            name="burst",
            kind=CALLS,
            get=_if_meant("burst"),
            doc="calls that are let through at once; without it, those of a second",
        ),
        Field(
            name="cost",
            kind=COST,
            get=_if_meant("cost"),
            doc="the header or query field that says for how many calls one counts, rounded up",
        ),
        Field(
            name="default_cost",
            kind=CALLS,
            default=1,
            get=_if_meant("default_cost"),
            doc="for how many it counts where that says nothing",
        ),
        Field(
            name="tokens_per_minute",
            kind=TOKENS,
            get=_if_meant("tokens_per_minute"),
            doc="tokens a minute that are let through in the long run",
        ),
        Field(
            name="tokens_per_day",
            kind=TOKENS,
            get=_if_meant("tokens_per_day"),
            doc="tokens from midnight to midnight, UTC",
        ),
        Field(
            name="burst_tokens",
            kind=TOKENS,
            get=_if_meant("burst_tokens"),
            doc="tokens that are let through at once; without it, those of a minute",
        ),
        Field(
            name="output_tokens",
            kind=TOKENS,
            default=1_000,
            get=_if_meant("output_tokens"),
            doc="what is reserved for an answer where the call sets no limit to it",
        ),
        Field(name="enabled", kind=Flag(), default=True, doc="false switches the rate off"),
    ],
)
