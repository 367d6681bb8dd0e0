"""Standings: how budgets stand that have come to one of their stages."""

from __future__ import annotations

from typing import Literal

import msgspec

from looptrap.policy.action import Action
from looptrap.policy.policy import Mode

Unit = Literal["usd", "tokens"]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
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
