"""Accounts that were charged lately, so that people can be told how they stand."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from looptrap.detect.fingerprint import text_of
from looptrap.money.standing import Unit
from looptrap.store.model import Charge

MOST = 500
"""Accounts that are remembered; the one that was not charged for longest goes first."""


class Account(msgspec.Struct):
    """Of which budget an account is, whose, and what it may come to."""

    budget: str
    unit: Unit
    by: tuple[tuple[str, str], ...]
    limit: int
    question: Charge
    """A charge of nothing: it asks how the account stands."""
    wanted: int = 1
    """What a call asked for that was refused last; 1 since others were granted what they did."""

    @property
    def fingerprint(self) -> str:
        """What a reset has to name."""
        return text_of(self.question.key)

    def is_exceeded(self, used: int) -> bool:
        """Say whether the like of the latest call is refused, so much being used."""
        return used + self.wanted > self.question.limit


class Lately(OrderedDict[bytes, Account]):
    """Accounts by their keys, the latest charged last."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__()
        self._most = most

    def note(self, account: Account) -> None:
        """Remember an account."""
        self[account.question.key] = account
        self.move_to_end(account.question.key)
        if len(self) > self._most:
            self.popitem(last=False)
