"""Meters: budgets and rates made ready. Each charges calls to accounts and says what that means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from looptrap.call.model import Call, Outcome
from looptrap.money.forecast import Forecast
from looptrap.money.standing import Standing
from looptrap.money.whose import Whose
from looptrap.policy.policy import Mode, Selector
from looptrap.policy.rate import Pace
from looptrap.policy.select import Selects, selects
from looptrap.policy.verdict import Verdict
from looptrap.store.model import Balance, Charge


class Reading(NamedTuple):
    """What a meter shows after a charge."""

    verdict: Verdict | None = None
    standing: Standing | None = None
    pace: Pace | None = None


class Meter(ABC):
    """One account a payer, for one budget or rate."""

    __slots__ = ("_whose", "is_shadow", "name", "selects")

    def __init__(self, name: str, mode: Mode, select: Selector, whose: Whose) -> None:
        self.name = name
        self.is_shadow = mode == "shadow"
        self.selects: Selects | None = selects(select)
        self._whose = whose

    def charge(self, call: Call, forecast: Forecast) -> Charge | None:
        """Return what to charge a call, and to whom; None where it is not charged at all."""
        values = self._whose.values(call)
        return self._charge(call, forecast, values) if values is not None else None

    @abstractmethod
    def _charge(self, call: Call, forecast: Forecast, values: Sequence[str]) -> Charge | None:
        """Return what to charge to the account of these values."""

    @abstractmethod
    def read(self, call: Call, charge: Charge, balance: Balance, now: float, /) -> Reading:
        """Say what the balance after a charge means."""

    @abstractmethod
    def actual(self, charge: Charge, outcome: Outcome) -> int:
        """Return what a charge came to when the call was over."""
