"""Budgets of turns: limits, usage, and what is left; and how that is passed to another process.

`X-Looptrap-Turn` is the id. W3C `baggage` repeats it, with what is left of every limit, for
services in between that do not know Looptrap. Pure: the time is an argument.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec.structs import asdict, replace

from looptrap.dialect.content import UNREADABLE
from looptrap.errors import ConfigError, GiveUp
from looptrap.retry.failure import Headers, text_pairs
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

    def lower_to(self, others: Mapping[str, float | None]) -> TurnLimits:
        """Return the lower of each limit; others cannot raise one."""
        lower: dict[str, Any] = {
            name: other
            for name, other in others.items()
            if other is not None and ((own := getattr(self, name)) is None or other < own)
        }
        return replace(self, **lower)


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
        self._used: defaultdict[str, Any] = defaultdict(int)  # by the name of its limit

    def take(self, now: float, *, steps: int = 0, tool_calls: int = 0) -> BudgetClaim:
        """Claim steps or tool calls, if no limit forbids it."""
        with self._lock:
            accounts = list(self._with_outer())
            checks = (account._exceeded_limit(now, steps, tool_calls) for account in accounts)
            exceeded = next(filter(None, checks), "")
            if not exceeded:
                self._add(steps=steps, tool_calls=tool_calls)
            used = accounts[-1]._used
            return BudgetClaim(used["steps"], used["tool_calls"], exceeded)

    def may_correct(self) -> bool:
        """Claim a corrective prompt; return whether one was left."""
        with self._lock:
            is_left = all(
                account._used["corrections"] < account._limits.corrections
                for account in self._with_outer()
            )
            if is_left:
                self._add(corrections=1)
            return is_left

    def spend(self, tokens: int, usd: float) -> None:
        """Record what was paid; the next `take` checks the limits."""
        with self._lock:
            self._add(tokens=tokens, usd=usd)

    def spent(self, now: float) -> TurnUsage:
        """Return the usage until now."""
        used = self._used
        return TurnUsage(
            seconds=round(now - self._started, 6),
            tokens=used["tokens"],
            usd=float(used["usd"]),
            tool_calls=used["tool_calls"],
        )

    def left(self, now: float) -> TurnLimits:
        """Return what is left, also of the outer turns' limits."""
        left = self._left(now)
        for account in self._with_outer():
            left = left.lower_to(asdict(account._left(now)))
        return left

    def _left(self, now: float) -> TurnLimits:
        limits: dict[str, Any] = asdict(self._limits)
        left: dict[str, Any] = {
            name: None if limit is None else max(0, limit - self._used[name])
            for name, limit in limits.items()
        }
        left["deadline"] = max(0.0, self._started + limits["deadline"] - now)
        return TurnLimits(**left)

    def _add(self, **amounts: float) -> None:
        for account in self._with_outer():
            for name, amount in amounts.items():
                account._used[name] += amount

    def _exceeded_limit(self, now: float, steps: int, tool_calls: int) -> str:
        """Return the first limit that forbids this; empty where none does."""
        left = self._left(now)
        is_exceeded = {
            "deadline": left.deadline <= 0,
            "step_budget": steps > left.steps,
            "tool_budget": tool_calls > left.tool_calls,
            "token_budget": left.tokens == 0,
            "dollar_budget": left.usd == 0,
        }
        return next((name for name, exceeded in is_exceeded.items() if exceeded), "")

    def _with_outer(self) -> Iterator[TurnAccount]:
        account: TurnAccount | None = self
        while account is not None:
            yield account
            account = account._outer


@dataclass(slots=True)
class TurnState:
    """What the steps of a turn share."""

    id: str
    scope: str
    """Prefix of idempotency keys: for a turn from headers, more than its id."""
    account: TurnAccount
    options: RetryOptions
    timing: Timing
    step: int = 0
    _given_up: Marker | None = None

    def begin_step(self) -> int:
        """Claim a step and return its number; raises GiveUp where that is not allowed."""
        self.step = self._claim(steps=1).step
        return self.step

    def begin_tool_call(self) -> int:
        """Claim a tool call and return its number; raises GiveUp where that is not allowed."""
        return self._claim(tool_calls=1).tool_call

    def give_up(self, step: int, reason: str, attempts: int) -> GiveUp:
        """End the turn, and return the error to raise."""
        spent = self.account.spent(self.timing.clock())
        self._given_up = Marker(
            turn=self.id, step=step, reason=reason, attempts=attempts, spent=spent
        )
        return GiveUp(self._given_up)

    def _claim(self, **amounts: int) -> BudgetClaim:
        claim = self.account.take(self.timing.clock(), **amounts)
        if self._given_up is not None:  # a turn that was given up stays so
            raise GiveUp(self._given_up)
        if claim.exceeded_limit:
            raise self.give_up(self.step, claim.exceeded_limit, 0)
        return claim


# Headers

TURN_HEADER = "X-Looptrap-Turn"
BAGGAGE_HEADER = "baggage"

_PREFIX = "looptrap."
_LIMITS = {
    "steps": int,
    "deadline": float,
    "tool_calls": int,
    "tokens": int,
    "usd": float,
    "corrections": int,
}
"""The limits in the headers, and the type of each."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_BAGGAGE_CHARS = 8_192
"""The size that W3C requires everyone to pass on; the rest is ignored."""


class PropagatedTurn(NamedTuple):
    """A turn from headers: its id, and what its sender has left."""

    turn: str
    left: Mapping[str, float]


def is_turn_id(text: str) -> bool:
    """Return whether a text is a valid turn id."""
    return _ID.fullmatch(text) is not None


def write_turn_headers(turn: str, left: TurnLimits, baggage: str = "") -> dict[str, str]:
    """Return the headers of a turn, with the `baggage` of others added."""
    members = [f"{_PREFIX}turn={turn}"]
    for name, kind in _LIMITS.items():
        value = getattr(left, name)
        if value is not None:
            members.append(f"{_PREFIX}{name}={value if kind is int else format(value, '.6f')}")
    others = [member for member in _members(baggage) if not member.startswith(_PREFIX)]
    return {TURN_HEADER: turn, BAGGAGE_HEADER: ",".join(members + others)}


def read_turn_headers(headers: Headers) -> PropagatedTurn | None:
    """Return the turn in headers; None where there is none, or an invalid one."""
    try:
        found = list(text_pairs(headers))
    except (TypeError, ValueError, AttributeError):
        return None
    entries = _entries(",".join(value for name, value in found if name == BAGGAGE_HEADER))
    ids = [value.strip() for name, value in found if name == TURN_HEADER.lower()]
    turn = ids[0] if ids else entries.get("turn", "")
    if not is_turn_id(turn) or entries.get("turn", turn) != turn:
        return None
    left = {
        name: kind(number)
        for name, kind in _LIMITS.items()
        if (number := _number(entries.get(name))) is not None
    }
    return PropagatedTurn(turn, left)


def _members(baggage: str) -> list[str]:
    return [member.strip() for member in baggage[:_MAX_BAGGAGE_CHARS].split(",") if member.strip()]


def _entries(baggage: str) -> dict[str, str]:
    """Return our entries, the first of each name, without their properties."""
    found: dict[str, str] = {}
    for member in _members(baggage):
        name, _, value = member.partition(";")[0].partition("=")
        if name.strip().startswith(_PREFIX):
            found.setdefault(name.strip().removeprefix(_PREFIX), unquote(value.strip()))
    return found


def _number(text: str | None) -> float | None:
    """Return a valid limit; None for anything else."""
    if text is None or len(text) > 32:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < inf else None
