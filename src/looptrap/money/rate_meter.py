"""Rates: buckets of calls and of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil

from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.descriptor import descriptor
from looptrap.dialect.model import Call, Outcome
from looptrap.money.estimate import UsageEstimate, is_charged
from looptrap.money.meter import AccountKey, Meter, MeterReading
from looptrap.policy.action import Action
from looptrap.policy.budget import PERIODS
from looptrap.policy.header import MAX_RETRY_AFTER_S
from looptrap.policy.policy import Policy
from looptrap.policy.rate import Rate, RateStatus
from looptrap.policy.select import Selects, has_values
from looptrap.policy.verdict import Verdict, opening
from looptrap.store.model import UNLIMITED, Balance, Charge

MINUTE = 60.0

MAX_COST = 1_000_000
"""Most calls that one call can count for, whatever its header says."""

Amount = Callable[[Call, UsageEstimate], int | None]


class RateMeter(Meter):
    """Charges one bucket of a rate."""

    def __init__(
        self,
        policy: Policy,
        rate: Rate,
        secret: bytes,
        *,
        unit: str,
        limit: int,
        seconds: float,
        amount: Amount,
        leaks: bool = True,
    ) -> None:
        account_key = AccountKey(
            secret, ("rate", policy.mode, policy.name, rate.name, unit), rate.by
        )
        super().__init__(rate.name, policy.mode, policy.select, account_key)
        self._policy = policy
        self._unit = unit
        self._limit = limit
        self._seconds = seconds
        self._amount = amount
        self._leaks = leaks
        self._counts = _counts(rate)

    def _charge(self, call: Call, estimate: UsageEstimate, values: Sequence[str]) -> Charge | None:
        if self._counts is not None and not self._counts(call):
            return None
        amount = self._amount(call, estimate)
        if amount is None:
            return None
        limit = self._limit
        if self.is_shadow and not self._leaks:
            limit = UNLIMITED
        return Charge(self._account_key.key(values), amount, limit, self._seconds, self._leaks)

    def read(self, _call: Call, charge: Charge, balance: Balance, _now: float) -> MeterReading:
        rate_status = self._status(balance)
        if balance.is_granted and balance.used <= self._limit:
            return MeterReading(rate_status=rate_status)
        what = f"{self.name}: at most {self._limit:,} {self._unit}"
        seconds = max(1.0, balance.left)
        wait: float | None = seconds
        advice = "" if self.is_shadow else f" Send it again in {ceil(seconds)} seconds."
        if charge.amount > self._limit:
            wait, advice = None, f" This call counts for {charge.amount:,}, which never fits."
        begin = opening(Action.BLOCK, "rate_limited", is_shadow=self.is_shadow)
        verdict = Verdict(
            action=Action.BLOCK,
            reason="rate_limited",
            policy=self._policy.name,
            rule=self.name,
            message=f"{begin}: rate limit {what}.{advice}",
            count=balance.used,
            threshold=self._limit,
            # Some clients sleep for as long as this says.
            retry_after=min(wait, MAX_RETRY_AFTER_S) if wait is not None else None,
            evidence=(Evidence(signal="rate", what=f"rate limit {what}", count=balance.used),),
            compat=self._policy.compat,
        )
        return MeterReading(verdict, rate_status=rate_status)

    def actual(self, charge: Charge, outcome: Outcome) -> int:
        return charge.amount if self._unit == "calls" else outcome.usage.tokens

    def _status(self, balance: Balance) -> RateStatus:
        used = min(balance.used, self._limit)
        reset = used / self._limit * self._seconds if self._leaks else balance.left
        return RateStatus(self._limit, self._limit - used, reset)


def meters_of(policy: Policy, rate: Rate, secret: bytes) -> list[RateMeter]:
    """Return the meters of a rate: one bucket, or those of a minute and of a day."""

    def tokens(call: Call, estimate: UsageEstimate) -> int | None:
        return estimate.tokens(rate.output_tokens) if is_charged(call) else None

    meters = []
    meter = partial(RateMeter, policy, rate, secret)
    if rate.rps is not None:
        burst, amount = rate.burst or max(1, ceil(rate.rps)), _cost_reader(rate)
        meters.append(meter(unit="calls", limit=burst, seconds=burst / rate.rps, amount=amount))
    if rate.tokens_per_minute is not None:
        burst = rate.burst_tokens or rate.tokens_per_minute
        seconds = burst / rate.tokens_per_minute * MINUTE
        meters.append(meter(unit="tokens a minute", limit=burst, seconds=seconds, amount=tokens))
    if rate.tokens_per_day is not None:
        unit, limit, day = "tokens a day", rate.tokens_per_day, PERIODS["1d"]
        meters.append(meter(unit=unit, limit=limit, seconds=day, amount=tokens, leaks=False))
    return meters


def _counts(rate: Rate) -> Selects | None:
    """Return the test whether a rate counts a call; None when it counts every one."""
    if not rate.match and not rate.unless:
        return None
    match, unless = has_values(rate.match), [has_values(values) for values in rate.unless]
    return lambda call: match(call) and not any(has(call) for has in unless)


def _cost_reader(rate: Rate) -> Amount:
    """Return the function that says how many calls a call counts for."""
    if rate.cost is None:
        return lambda _call, _estimate: rate.default_cost
    read_cost = descriptor(rate.cost)

    def amount(call: Call, _estimate: UsageEstimate) -> int:
        try:
            cost = ceil(float(read_cost(call)))
        except (ValueError, OverflowError):
            return rate.default_cost
        return min(cost, MAX_COST) if cost > 0 else rate.default_cost

    return amount
