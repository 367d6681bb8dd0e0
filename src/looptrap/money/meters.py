"""All meters together: the charges for a call, and their settlements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from looptrap.dialect.model import NO_USAGE, Call, Outcome
from looptrap.money import budget_meter, rate_meter
from looptrap.money.budget_meter import RecentAccounts
from looptrap.money.estimate import UsageEstimate, is_charged
from looptrap.money.meter import Meter
from looptrap.money.price import NANO, Prices
from looptrap.policy.budget import Budget
from looptrap.policy.policy import Policy, Selector
from looptrap.store.model import UNLIMITED, Charge, Settlement

SESSION_LIMIT = Budget(name="session-limit", by=("session",), limit_usd=UNLIMITED / NANO)
"""For a limit that a client sets itself, where no budget covers its sessions."""


class MeteredCharge(NamedTuple):
    """A planned charge, and its meter."""

    meter: Meter
    charge: Charge


class Hold(NamedTuple):
    """A granted charge, until it is settled."""

    meter: Meter
    charge: Charge
    place: int
    is_local: bool

    def settle(self, actual: int) -> Settlement:
        """Return the settlement that replaces the reserved amount by the actual one."""
        return Settlement(self.charge, self.place, max(0, min(actual, UNLIMITED)), self.is_local)


class Meters:
    """The meters of all budgets and rates."""

    def __init__(
        self,
        budgets: Iterable[Budget],
        policies: Iterable[Policy],
        *,
        secret: bytes,
        prices: Prices,
        recent_accounts: RecentAccounts | None = None,
    ) -> None:
        budgets = tuple(budgets)
        recent_accounts = RecentAccounts() if recent_accounts is None else recent_accounts
        self._prices = prices
        self._budgets = [
            meter
            for budget in budgets
            for meter in budget_meter.meters_of(budget, secret, recent_accounts)
        ]
        self._rates = [
            meter
            for policy in policies
            for rate in policy.rates
            if rate.enabled
            for meter in rate_meter.meters_of(policy, rate, secret)
        ]
        self._is_idle = not self._budgets and not self._rates
        has_session = any(_binds_sessions(budget) for budget in budgets)
        self._session_meters = (
            [] if has_session else budget_meter.meters_of(SESSION_LIMIT, secret, recent_accounts)
        )

    def plan(self, call: Call, now: float) -> Sequence[MeteredCharge]:
        """Return the charges for a call: mostly none."""
        if self._is_idle and call.request.session_limit is None:
            return ()
        meters: list[Meter] = []
        if is_charged(call):
            meters += self._budgets
            if call.request.session_limit is not None:
                meters += self._session_meters
        meters += self._rates
        if not meters:
            return ()
        estimate = UsageEstimate(call, self._prices, now)
        planned = []
        for meter in meters:
            if meter.selects is None or meter.selects(call):
                charge = meter.charge(call, estimate)
                if charge is not None:
                    planned.append(MeteredCharge(meter, charge))
        return planned


def _binds_sessions(budget: Budget) -> bool:
    """Return whether a budget limits every session, so that a lowered limit applies to it."""
    return (
        budget.limit_usd is not None
        and {"session"} <= set(budget.by) <= {"caller", "session"}
        and budget.mode == "enforce"
        and budget.select == Selector()
        and budget.stages.refusal() is not None
    )


def settlements_of(holds: Iterable[Hold], outcome: Outcome | None) -> list[Settlement]:
    """Return the settlements of charges; without an outcome, they are returned in full.

    An outcome with neither usage nor cost keeps what was reserved.
    """
    if outcome is None:
        return [hold.settle(0) for hold in holds]
    if outcome.usage is NO_USAGE and outcome.cost is None:
        return full_settlements_of(holds)
    return [hold.settle(hold.meter.actual(hold.charge, outcome)) for hold in holds]


def full_settlements_of(holds: Iterable[Hold]) -> list[Settlement]:
    """Return the settlements of charges at their reserved amounts."""
    return [hold.settle(hold.charge.amount) for hold in holds]
