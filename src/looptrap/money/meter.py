"""Meters: budgets and rates made ready. Each charges calls to accounts and says what that means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

import msgspec

from looptrap.detect.canonical import join
from looptrap.detect.fingerprint import VERSION, derived_session_of, payer
from looptrap.dialect.descriptor import Descriptor, descriptor
from looptrap.dialect.model import LONGEST_NAME, Call, Outcome
from looptrap.money.estimate import UsageEstimate
from looptrap.policy.action import Action
from looptrap.policy.policy import Mode, Selector
from looptrap.policy.rate import RateStatus
from looptrap.policy.select import Selects, selects
from looptrap.policy.verdict import Verdict
from looptrap.store.model import Balance, Charge

Unit = Literal["usd", "tokens"]


class BudgetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How one account of a budget stands: whose it is, what is used of it, and what that means."""

    budget: str
    """The budget's name."""
    fingerprint: str
    """The account's; resetting it names this."""
    by: tuple[tuple[str, str], ...]
    """Whose it is: descriptors and their values."""
    unit: Unit
    used: int
    """Spent and reserved: nano-dollars, or tokens."""
    limit: int
    stage: int
    """The highest threshold reached, in per cent of the limit."""
    action: Action
    """What is done from there on."""
    ends: int = 0
    """When the period ends, in seconds since 1970; 0 where there is none."""
    mode: Mode = "enforce"


REQUIRED_DESCRIPTORS = frozenset(("turn",))
"""Descriptors without which there is nobody to charge."""

CLAIM_PREFIX = "jwt:"
"""How descriptors begin for which somebody vouches."""


def account_descriptors(by: Sequence[str]) -> tuple[str, ...]:
    """Return the descriptors that tell accounts apart, the caller's among them where it must be.

    Callers are kept apart, whatever clients claim, unless a project is counted as one, or claims
    that somebody vouches for say whose account it is.
    """
    is_apart = (
        "caller" in by or "project" in by or any(name.startswith(CLAIM_PREFIX) for name in by)
    )
    return tuple(by) if is_apart else ("caller", *by)


class AccountKey:
    """Tells the accounts of one budget or rate apart."""

    __slots__ = ("_by", "_claims", "_digester", "_required", "_secret", "names")

    def __init__(self, secret: bytes, name: Sequence[str], by: Sequence[str]) -> None:
        self._secret = secret[:64]
        self.names = account_descriptors(by)
        """The descriptors, in the order of their values."""
        self._claims = [i for i, name in enumerate(self.names) if name.startswith(CLAIM_PREFIX)]
        self._by = tuple(self._descriptor(name) for name in self.names)
        self._required = [i for i, name in enumerate(self.names) if name in REQUIRED_DESCRIPTORS]
        self._digester = blake2b(
            join(name), digest_size=16, key=self._secret, person=b"looptrap-$%d" % VERSION
        )

    def values(self, call: Call) -> list[str] | None:
        """Return the values of all descriptors; None where there is nobody to charge."""
        values = [by(call) for by in self._by]
        for i in self._required:
            if not values[i]:
                return None
        if self._claims and not any(values[i] for i in self._claims):
            # Claims that are not there vouch for nobody.
            values.append(call.request.caller)
        return values

    def describe(self, values: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Return values with their descriptors; one that is over is the caller's."""
        shortened = [value[:LONGEST_NAME] for value in values]
        return tuple(zip((*self.names, "caller"), shortened, strict=False))

    def key(self, values: Sequence[str]) -> bytes:
        """Return the key of the account with these values."""
        keyed = self._digester.copy()
        keyed.update(join(values))
        return keyed.digest()

    def _descriptor(self, name: str) -> Descriptor:
        if name == "project":
            return payer
        if name == "session":
            return lambda call: call.request.session or derived_session_of(call, self._secret)
        return descriptor(name)


class MeterReading(NamedTuple):
    """What a meter shows after a charge."""

    verdict: Verdict | None = None
    budget_status: BudgetStatus | None = None
    rate_status: RateStatus | None = None


class Meter(ABC):
    """One account a payer, for one budget or rate."""

    __slots__ = ("_account_key", "is_shadow", "name", "selects")

    def __init__(self, name: str, mode: Mode, select: Selector, account_key: AccountKey) -> None:
        self.name = name
        self.is_shadow = mode == "shadow"
        self.selects: Selects | None = selects(select)
        self._account_key = account_key

    def charge(self, call: Call, estimate: UsageEstimate) -> Charge | None:
        """Return what to charge a call, and to whom; None where it is not charged at all."""
        values = self._account_key.values(call)
        return self._charge(call, estimate, values) if values is not None else None

    @abstractmethod
    def _charge(self, call: Call, estimate: UsageEstimate, values: Sequence[str]) -> Charge | None:
        """Return what to charge to the account of these values."""

    @abstractmethod
    def read(self, call: Call, charge: Charge, balance: Balance, now: float, /) -> MeterReading:
        """Say what the balance after a charge means."""

    @abstractmethod
    def actual(self, charge: Charge, outcome: Outcome) -> int:
        """Return what a charge came to when the call was over."""
