"""Budgets of turns: limits, usage, and what is left. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from threading import Lock
from typing import NamedTuple, TypeVar

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.errors import ConfigError, GiveUp
from looptrap.retry.run import RetryOptions
from looptrap.retry.timing import Timing


class TurnUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn has used so far."""

    seconds: float = 0.0
    tokens: int = 0
    usd: float = 0.0
    tool_calls: int = 0


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Where and why a turn ended early."""

    turn: str
    step: int
    """The step it ended in; the first is 1."""
    reason: str
    """The failure's code, such as `http_503`, or the exceeded limit, such as `deadline`."""
    attempts: int
    """The attempts made in that step."""
    spent: TurnUsage = TurnUsage()

    def dumps(self) -> str:
        """Return the marker as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def loads(cls, text: str | bytes) -> Marker:
        """Return what `dumps` wrote; raises ValueError for anything else."""
        try:
            return msgspec.json.decode(text, type=cls)
        except UNREADABLE as error:
            raise ValueError(f"not a marker of a turn: {error}") from None

    def __str__(self) -> str:
        return (
            f"{self.reason} in step {self.step} of turn {self.turn},"
            f" after {self.attempts} attempts and {self.spent.seconds:.1f} s"
        )


N = TypeVar("N", int, float)


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn may use; None is no limit."""

    steps: int = 8
    deadline: float = 90.0
    """Seconds from the beginning of the turn."""
    tool_calls: int = 15
    tokens: int | None = None
    usd: float | None = None
    corrections: int = 1
    """Corrective prompts, which say why an answer could not be read."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not 0 <= value < inf:
                raise ConfigError(f"turn: {name} is {value:g}, must be 0 or more")

    def min_with(self, other: TurnLimits) -> TurnLimits:
        """Return the lower of each limit."""
        return TurnLimits(
            steps=min(self.steps, other.steps),
            deadline=min(self.deadline, other.deadline),
            tool_calls=min(self.tool_calls, other.tool_calls),
            tokens=_lower(self.tokens, other.tokens),
            usd=_lower(self.usd, other.usd),
            corrections=min(self.corrections, other.corrections),
        )


class BudgetClaim(NamedTuple):
    """A claimed step or tool call: their numbers, over all outer turns."""

    step: int
    tool_call: int
    exceeded_limit: str = ""
    """The limit that forbids it; empty where it was granted."""


class TurnAccount:
    """The usage of a turn, which counts for all outer turns too."""

    def __init__(self, limits: TurnLimits, now: float, outer: TurnAccount | None = None) -> None:
        self._limits = limits
        self._started = now
        self._outer = outer
        # Tools may run in threads, and two of them must not both claim what is left for one.
        self._lock: Lock = Lock() if outer is None else outer._lock
        self._steps = 0
        self._tool_calls = 0
        self._tokens = 0
        self._usd = 0.0
        self._corrections = 0

    def take(self, now: float, *, steps: int = 0, tool_calls: int = 0) -> BudgetClaim:
        """Claim steps or tool calls, if no limit forbids it."""
        with self._lock:
            accounts = list(self._with_outer())
            exceeded = next(
                filter(
                    None, (account._exceeded_limit(now, steps, tool_calls) for account in accounts)
                ),
                "",
            )
            if not exceeded:
                for account in accounts:
                    account._steps += steps
                    account._tool_calls += tool_calls
            outermost = accounts[-1]
            return BudgetClaim(outermost._steps, outermost._tool_calls, exceeded)

    def may_correct(self) -> bool:
        """Claim a corrective prompt; return whether one was left."""
        with self._lock:
            if any(
                account._corrections >= account._limits.corrections
                for account in self._with_outer()
            ):
                return False
            for account in self._with_outer():
                account._corrections += 1
        return True

    def spend(self, tokens: int, usd: float) -> None:
        """Record what was paid; the next `take` checks the limits."""
        with self._lock:
            for account in self._with_outer():
                account._tokens += tokens
                account._usd += usd

    def spent(self, now: float) -> TurnUsage:
        """Return the usage until now."""
        return TurnUsage(
            seconds=round(now - self._started, 6),
            tokens=self._tokens,
            usd=self._usd,
            tool_calls=self._tool_calls,
        )

    def left(self, now: float) -> TurnLimits:
        """Return what is left, also of the outer turns' limits."""
        left = self._left(now)
        for account in self._with_outer():
            left = left.min_with(account._left(now))
        return left

    def _left(self, now: float) -> TurnLimits:
        limits = self._limits
        return TurnLimits(
            steps=max(0, limits.steps - self._steps),
            deadline=max(0.0, self._started + limits.deadline - now),
            tool_calls=max(0, limits.tool_calls - self._tool_calls),
            tokens=None if limits.tokens is None else max(0, limits.tokens - self._tokens),
            usd=None if limits.usd is None else max(0.0, limits.usd - self._usd),
            corrections=max(0, limits.corrections - self._corrections),
        )

    def _exceeded_limit(self, now: float, steps: int, tool_calls: int) -> str:
        """Return the first limit that forbids this; empty where none does."""
        left = self._left(now)
        if left.deadline <= 0:
            return "deadline"
        if steps > left.steps:
            return "step_budget"
        if tool_calls > left.tool_calls:
            return "tool_budget"
        if left.tokens == 0:
            return "token_budget"
        if left.usd == 0:
            return "dollar_budget"
        return ""

    def _with_outer(self) -> Iterator[TurnAccount]:
        account: TurnAccount | None = self
        while account is not None:
            yield account
            account = account._outer


def _lower(left: N | None, right: N | None) -> N | None:
    return right if left is None else left if right is None else min(left, right)


class TurnState:
    """What the steps of a turn share."""

    def __init__(
        self, id: str, scope: str, account: TurnAccount, options: RetryOptions, timing: Timing
    ) -> None:
        self.id = id
        self.scope = scope
        """Prefix of idempotency keys: for a turn from headers, more than its id."""
        self.account = account
        self.options = options
        self.timing = timing
        self.step = 0
        self._given_up: Marker | None = None

    def begin_step(self) -> int:
        """Claim a step and return its number; raises GiveUp where that is not allowed."""
        claim = self._check(self.account.take(self.timing.clock(), steps=1))
        self.step = claim.step
        return claim.step

    def begin_tool_call(self) -> int:
        """Claim a tool call and return its number; raises GiveUp where that is not allowed."""
        return self._check(self.account.take(self.timing.clock(), tool_calls=1)).tool_call

    def give_up(self, step: int, reason: str, attempts: int) -> GiveUp:
        """End the turn, and return the error to raise."""
        spent = self.account.spent(self.timing.clock())
        self._given_up = Marker(
            turn=self.id, step=step, reason=reason, attempts=attempts, spent=spent
        )
        return GiveUp(self._given_up)

    def _check(self, claim: BudgetClaim) -> BudgetClaim:
        if self._given_up is not None:  # a turn that was given up stays so
            raise GiveUp(self._given_up)
        if claim.exceeded_limit:
            raise self.give_up(self.step, claim.exceeded_limit, 0)
        return claim
