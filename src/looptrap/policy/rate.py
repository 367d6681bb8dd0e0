"""Rates: how fast calls, or their tokens, may come, and whose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, Literal, NamedTuple

from looptrap.errors import Problem
from looptrap.policy.kind import DESCRIPTOR, NAME, SOME_VALUES, TOKEN, TOKENS, VALUES
from looptrap.schema import Field, Listing, Number, Table, Text, inline, setting, settings
from looptrap.schema.wording import listed, shown

RateKind = Literal["token_bucket", "token_bucket_llm"]

Values = tuple[tuple[str, str], ...]
"""Descriptors, and the values they must have."""

_CALLS, _TOKENS = ("token_bucket",), ("token_bucket_llm",)
"""The kind of rate to which a setting means something."""

RPS = Number(low=0.0001, high=1_000_000)
CALLS = Number(low=1, high=1_000_000, whole=True)
COST = Text(
    form='"header:<name>" or "query:<name>"', pattern=rf"header:{TOKEN}|query:[^\x00-\x1f\x7f]+"
)

_PACE = Table(
    build=lambda rps, tokens_per_second: tokens_per_second if rps is None else rps,
    fields=[
        Field(
            name="rps",
            kind=RPS,
            get=lambda rps: rps,
            only=_CALLS,
            doc="calls a second that are let through in the long run",
        ),
        Field(
            name="tokens_per_second",
            kind=RPS,
            get=lambda _: None,
            only=_CALLS,
            doc="the same, under Fairvisor's name",
        ),
    ],
)


@settings
class Rate:
    """How fast calls with the same descriptors may come.

    A `token_bucket` holds `burst` calls and is refilled with `rps` of them a second. A
    `token_bucket_llm` holds the tokens of a minute (or `burst_tokens`), and of a day.
    """

    name: str = setting("what verdicts call it", NAME)
    kind: RateKind = setting(
        "`token_bucket` counts calls, `token_bucket_llm` tokens", default="token_bucket"
    )
    by: tuple[str, ...] = setting(
        "whose it is: calls that differ in one of these use different buckets",
        Listing(DESCRIPTOR, "descriptors"),
        default=("caller",),
    )
    match: Values = setting(
        "only calls whose descriptors have all of these values are counted", VALUES, default=()
    )
    unless: tuple[Values, ...] = setting(
        "calls that have all values of one of these are not counted",
        Listing(SOME_VALUES, f"tables of {VALUES.noun}"),
        default=(),
    )
    rps: float | None = inline(_PACE, default=None)
    burst: int | None = setting(
        "calls that are let through at once; without it, those of a second",
        CALLS,
        default=None,
        only=_CALLS,
    )
    cost: str | None = setting(
        "the header or query field that says how many calls one counts for, rounded up",
        COST,
        default=None,
        only=_CALLS,
    )
    default_cost: int = setting(
        "how many calls one counts for where `cost` says nothing", CALLS, default=1, only=_CALLS
    )
    tokens_per_minute: int | None = setting(
        "tokens a minute that are let through in the long run",
        TOKENS,
        default=None,
        only=_TOKENS,
    )
    tokens_per_day: int | None = setting(
        "tokens from midnight to midnight, UTC", TOKENS, default=None, only=_TOKENS
    )
    burst_tokens: int | None = setting(
        "tokens that are let through at once; without it, those of a minute",
        TOKENS,
        default=None,
        only=_TOKENS,
    )
    output_tokens: int = setting(
        "tokens reserved for an answer where the call sets no limit",
        TOKENS,
        default=1_000,
        only=_TOKENS,
    )
    enabled: bool = setting("false switches the rate off", default=True)


_NEEDED: dict[RateKind, tuple[str, ...]] = {
    "token_bucket": ("rps", "tokens_per_second"),
    "token_bucket_llm": ("tokens_per_minute", "tokens_per_day"),
}


def _mistakes(values: Mapping[str, Any]) -> Iterator[Problem]:
    kind: RateKind | None = values.get("kind", "token_bucket")
    if kind is None:
        return
    needed = _NEEDED[kind]
    if not any(name in values for name in needed):
        yield Problem("", f"has neither {listed(needed, 'nor')}, needs one of them")
    if kind == "token_bucket":
        yield from _bucket_mistakes(values)
    elif "burst_tokens" in values and "tokens_per_minute" not in values:
        yield Problem("burst_tokens", "means nothing without tokens_per_minute")


def _bucket_mistakes(values: Mapping[str, Any]) -> Iterator[Problem]:
    if "rps" in values and "tokens_per_second" in values:
        yield Problem("", "has rps and tokens_per_second, which mean the same: needs one of them")
        return
    rps = values.get("rps") or values.get("tokens_per_second")
    cost = values.get("default_cost") or 1
    burst = values.get("burst") or (ceil(rps) if rps else None)
    if burst is not None and cost > burst:
        yield Problem(
            "default_cost",
            f"is {shown(cost)}, must be {shown(burst)} or less: no more fits into the burst",
        )


RATE = Table.of(Rate, check=_mistakes, tag="kind")


class RateStatus(NamedTuple):
    """How much of a rate is left, for the response headers."""

    limit: int
    remaining: int
    reset: float
    """Seconds until it is full again."""

    @property
    def share(self) -> float:
        """The share that is left, from 0 to 1."""
        return self.remaining / self.limit
