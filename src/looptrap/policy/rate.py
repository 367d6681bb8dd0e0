"""Rates: how many calls, or tokens, may pass in a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

RateKind = Literal["token_bucket", "token_bucket_llm"]

Values = tuple[tuple[str, str], ...]
"""Descriptors, and the values they must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast those who share these descriptors may go.

    A `token_bucket` holds `burst` calls and is filled with `rps` of them a second. A
    `token_bucket_llm` holds the tokens of a minute (or `burst_tokens`), and of a day.
    """

    name: str
    kind: RateKind = "token_bucket"
    by: tuple[str, ...] = ("caller",)
    match: Values = ()
    """Only calls with all of these values are counted …"""
    unless: tuple[Values, ...] = ()
    """… and none with all values of one of these."""
    rps: float | None = None
    burst: int | None = None
    cost: str | None = None
    """The descriptor (`header:x-cost`, `query:weight`) that says for how many a call counts."""
    default_cost: int = 1
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    burst_tokens: int | None = None
    output_tokens: int = 1_000
    """What an answer is taken to need at most where the call does not say."""
    enabled: bool = True


class Pace(NamedTuple):
    """How much of a rate is left, as clients are told."""

    limit: int
    remaining: int
    reset: float
    """Seconds until all of it is there again."""

    @property
    def share(self) -> float:
        """Which part of it is left."""
        return self.remaining / self.limit
