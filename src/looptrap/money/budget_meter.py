"""Budgets: reserve before a call, settle after it, act in stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from looptrap.bounded import LruMap
from looptrap.detect.fingerprint import fingerprint_text
from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.model import Call, Outcome
from looptrap.money.estimate import UsageEstimate
from looptrap.money.meter import AccountKey, BudgetStatus, Meter, MeterReading, Unit
from looptrap.money.price import dollars_in_words, nano
from looptrap.policy.action import Action
from looptrap.policy.budget import PERIODS, Budget
from looptrap.policy.verdict import Reason, Verdict, opening
from looptrap.store.account import FIRST_MONDAY_S
from looptrap.store.model import UNLIMITED, Balance, Charge

MAX_ACCOUNTS = 500
"""Accounts that are remembered; the least recently charged is dropped first."""


class Account(msgspec.Struct):
    """One account of a budget, and its limit."""

    budget: str
    unit: Unit
    by: tuple[tuple[str, str], ...]
    limit: int
    budget_limit: int
    """The limit of the budget; a client may have lowered that of its session."""
    question: Charge
    """A charge of nothing, which returns the balance."""
    requested: int = 1
    """The amount that was refused last; 1 after a charge was granted."""

    @property
    def fingerprint(self) -> str:
        """The name of the account for a reset."""
        return fingerprint_text(self.question.key)

    def is_exceeded(self, used: int) -> bool:
        """Return whether a call like the latest one would be refused."""
        return used + self.requested > self.question.limit


class RecentAccounts(LruMap[bytes, Account]):
    """Accounts by key, the latest charged last."""

    def __init__(self, max_keys: int = MAX_ACCOUNTS) -> None:
        super().__init__(max_keys)


class BudgetMeter(Meter):
    """Charges the dollars, or the tokens, of one budget."""

    def __init__(
        self, budget: Budget, unit: Unit, limit: int, secret: bytes, recent_accounts: RecentAccounts
    ) -> None:
        account_key = AccountKey(secret, ("budget", budget.mode, budget.name, unit), budget.by)
        super().__init__(budget.name, budget.mode, budget.select, account_key)
        self._budget = budget
        self._unit = unit
        self._limit = limit
        self._recent_accounts = recent_accounts
        self._period = PERIODS[budget.period]
        self._is_of_session = unit == "usd" and "session" in budget.by
        refusal = budget.stages.refusal()
        self._is_typical = budget.reserve == "typical"
        self._refused_from = dict(budget.stages.steps).get(refusal) if refusal else None
        self._follow_limit()

    def _charge(self, call: Call, estimate: UsageEstimate, values: Sequence[str]) -> Charge | None:
        estimated = estimate.cost if self._unit == "usd" else estimate.tokens
        amount = estimated(self._budget.output_tokens, is_typical=self._is_typical)
        if amount is None:
            if not estimate.may_be_priced:
                return None  # unpriced: no dollars to count
            amount = 0
        limit = self._limit_of(call)
        charge = self._charge_of(self._account_key.key(values), amount, limit)
        self._remember_account(charge, limit, values)
        return charge

    def read(self, call: Call, charge: Charge, balance: Balance, now: float) -> MeterReading:
        limit = self._limit_of(call)
        used, stages = balance.used, self._budget.stages
        is_over = not balance.is_granted or used > self._refusal_limit(limit, charge.amount)
        percent = used * 100 // limit
        account = self._recent_accounts.get(charge.key)
        if account is not None:
            has_room = balance.is_granted or self._is_typical
            account.requested = 1 if has_room else charge.amount
        if is_over:
            action = stages.refusal() or stages.at(percent)
            percent = max(percent, self._refused_from or 0)
        else:
            # A call that still fits is not refused, even if it uses up the budget.
            refusal_limit = percent if self._refused_from is None else self._refused_from - 1
            action = stages.at(min(percent, refusal_limit))
        if action is Action.ALLOW:
            return MeterReading()
        status = BudgetStatus(
            budget=self.name,
            fingerprint=fingerprint_text(charge.key),
            by=self._account_key.describe(self._account_key.values(call) or ()),
            unit=self._unit,
            used=used,
            limit=limit,
            stage=stages.reached(percent),
            action=action,
            ends=end_of(now + balance.left, self._period) if self._period else 0,
            mode=self._budget.mode,
        )
        return MeterReading(self._verdict(status, charge, percent), status)

    def actual(self, charge: Charge, outcome: Outcome) -> int:
        if self._unit == "tokens":
            return outcome.usage.tokens
        return charge.amount if outcome.cost is None else outcome.cost

    def _remember_account(self, charge: Charge, limit: int, values: Sequence[str]) -> None:
        """Remember the account, so that operators can see it."""
        known = self._recent_accounts.get(charge.key)
        if known is None or known.limit != limit:
            by = self._account_key.describe(values)
            question = self._charge_of(charge.key, 0, limit)
            known = Account(self.name, self._unit, by, limit, self._limit, question)
        self._recent_accounts[charge.key] = known

    def _follow_limit(self) -> None:
        """Give the accounts charged under another limit of this budget the present one."""
        for account in self._recent_accounts.values():
            is_ours = (account.budget, account.unit) == (self.name, self._unit)
            if is_ours and account.budget_limit != self._limit:
                was_lowered = account.limit != account.budget_limit
                account.limit = min(account.limit, self._limit) if was_lowered else self._limit
                account.budget_limit = self._limit
                account.question = self._charge_of(account.question.key, 0, account.limit)

    def _charge_of(self, key: bytes, amount: int, limit: int) -> Charge:
        refusal_limit = UNLIMITED if self.is_shadow else self._refusal_limit(limit, amount)
        return Charge(key, amount, refusal_limit, self._period)

    def _limit_of(self, call: Call) -> int:
        """Return the limit; a client may lower that of its session."""
        lowered = call.request.session_limit if self._is_of_session else None
        return self._limit if lowered is None else max(1, min(lowered, self._limit))

    def _refusal_limit(self, limit: int, amount: int) -> int:
        """Return the sum of charges above which one of this amount is refused."""
        if self._refused_from is None:
            return UNLIMITED
        most = limit * self._refused_from // 100
        if self._is_typical:
            most += max(amount - 1, 0)  # it passes while anything is left
        return min(most, UNLIMITED)

    def _verdict(self, status: BudgetStatus, charge: Charge, percent: int) -> Verdict:
        action = status.action
        used = f"{_amount(status.used, self._unit)} of {_amount(status.limit, self._unit)}"
        what = f"budget {self.name}: {used} used or reserved ({percent} %)"
        may_need = f"; this call may need {_amount(charge.amount, self._unit)}"
        needs = "" if self._is_typical else may_need
        until = f" until {_utc(status.ends)}" if status.ends else ""
        advice = "."
        if action.refuses:
            advice = f"{needs}." if self.is_shadow else f"{needs}. Nothing more{until}."
        reason: Reason = "budget_exceeded" if action.refuses else "budget_threshold"
        begin = opening(action, reason, is_shadow=self.is_shadow)
        return Verdict(
            action=action,
            reason=reason,
            policy="budgets",
            rule=self.name,
            message=f"{begin}: {what}{advice}",
            count=percent,
            threshold=status.stage,
            fingerprint=status.fingerprint,
            delay=self._budget.delay if action is Action.THROTTLE else 0.0,
            evidence=(Evidence(signal="budget", what=what, count=percent),),
            is_early=not action.refuses,
        )


def meters_of(budget: Budget, secret: bytes, recent_accounts: RecentAccounts) -> list[BudgetMeter]:
    """Return the meters of a budget: for its dollars, its tokens, or both."""
    return [
        BudgetMeter(budget, unit, limit, secret, recent_accounts)
        for unit, limit in limits_of(budget)
    ]


def limits_of(budget: Budget) -> Iterator[tuple[Unit, int]]:
    """Yield each unit that a budget limits, and the limit in nano-dollars or tokens."""
    if budget.limit_usd is not None:
        yield "usd", nano(budget.limit_usd)
    if budget.limit_tokens is not None:
        yield "tokens", budget.limit_tokens


def end_of(about: float, period: float) -> int:
    """Return the exact end of a period that ends about then, equal on all instances."""
    return round((about - FIRST_MONDAY_S) / period) * round(period) + FIRST_MONDAY_S


def _amount(amount: int, unit: Unit) -> str:
    return dollars_in_words(amount) if unit == "usd" else f"{amount:,} tokens"


def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
