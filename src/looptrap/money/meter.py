"""Meters: each charges calls to the accounts of a budget or rate, and interprets the balance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

import msgspec

from looptrap.detect.canonical import join
from looptrap.detect.fingerprint import VERSION, derived_session_of, payer
from looptrap.dialect.agent import main_session_of
from looptrap.dialect.descriptor import Descriptor, descriptor
from looptrap.dialect.model import MAX_NAME_CHARS, Call, Outcome
from looptrap.money.estimate import UsageEstimate
from looptrap.policy.action import Action
from looptrap.policy.policy import Mode, Selector
from looptrap.policy.rate import RateStatus
from looptrap.policy.select import Selects, selects
from looptrap.policy.verdict import Verdict
from looptrap.store.model import Balance, Charge

Unit = Literal["usd", "tokens"]


class BudgetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one account of a budget."""

    budget: str
    """The budget's name."""
    fingerprint: str
    """The account's; a reset names it."""
    by: tuple[tuple[str, str], ...]
    """Its descriptors and their values."""
    unit: Unit
    used: int
    """Spent and reserved: nano-dollars, or tokens."""
    limit: int
    stage: int
    """The highest threshold reached, in per cent of the limit."""
    action: Action
    """The action from that threshold on."""
    ends: int = 0
    """When the period ends, in seconds since 1970; 0 where there is none."""
    mode: Mode = "enforce"


REQUIRED_DESCRIPTORS = frozenset(("turn",))
"""Descriptors without which a call is not charged."""

CALLER_FREE = frozenset(("caller", "project", "gateway"))
"""Descriptors beside which an account needs no caller added."""

CLAIM_PREFIX = "jwt:"
"""Prefix of descriptors that are verified claims."""


def account_descriptors(by: Sequence[str]) -> tuple[str, ...]:
    """Return the descriptors that identify an account, with the caller where it is needed.

    Callers have separate accounts, whatever clients claim, unless a project or the whole gateway
    shares one, or verified claims identify the account.
    """
    is_complete = not CALLER_FREE.isdisjoint(by) or any(
        name.startswith(CLAIM_PREFIX) for name in by
    )
    return tuple(by) if is_complete else ("caller", *by)


class AccountKey:
    """Identifies the accounts of one budget or rate."""

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
        """Return the values of all descriptors; None where a required one is missing."""
        values = [by(call) for by in self._by]
        for i in self._required:
            if not values[i]:
                return None
        if self._claims and not any(values[i] for i in self._claims):
            # Without any claim the caller identifies the account.
            values.append(call.request.caller)
        return values

    def describe(self, values: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Return values with their descriptors; an extra value is the caller."""
        shortened = [value[:MAX_NAME_CHARS] for value in values]
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
            return lambda call: main_session_of(call) or derived_session_of(call, self._secret)
        return descriptor(name)


class MeterReading(NamedTuple):
    """The result of a charge."""

    verdict: Verdict | None = None
    budget_status: BudgetStatus | None = None
    rate_status: RateStatus | None = None


class Meter(ABC):
    """Charges calls to the accounts of one budget or rate."""

    def __init__(self, name: str, mode: Mode, select: Selector, account_key: AccountKey) -> None:
        self.name = name
        self.is_shadow = mode == "shadow"
        self.selects: Selects | None = selects(select)
        self._account_key = account_key

    def charge(self, call: Call, estimate: UsageEstimate) -> Charge | None:
        """Return the charge for a call; None where it is not charged."""
        values = self._account_key.values(call)
        return self._charge(call, estimate, values) if values is not None else None

    @abstractmethod
    def _charge(self, call: Call, estimate: UsageEstimate, values: Sequence[str]) -> Charge | None:
        """Return the charge to the account with these values."""

    @abstractmethod
    def read(self, call: Call, charge: Charge, balance: Balance, now: float, /) -> MeterReading:
        """Return what the balance after a charge means."""

    @abstractmethod
    def actual(self, charge: Charge, outcome: Outcome) -> int:
        """Return the actual amount of a charge after the call."""
