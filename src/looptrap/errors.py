"""Every exception Looptrap raises on purpose.

LooptrapError
├── ConfigError          the configuration cannot be used; lists every mistake at once
├── DatabaseError        the history cannot be read or written, for now
├── CallError            a call handed to the library cannot be read
├── RefusedError         the call was refused; which of these it is says why
│   ├── LoopDetectedError    the agent is going in circles
│   ├── BudgetExceededError  it might cost more than is left of a budget
│   ├── RateLimitedError     too many came at once; says when to come again
│   └── KilledError          an operator has switched off what it belongs to
├── AllProvidersFailed   every link of a chain failed or was skipped; says why, link by link
├── GiveUp               a turn ended early; its marker lets an orchestrator requeue it
└── IdempotencyError     a mutating call cannot be made, or repeated, safely
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class LooptrapError(Exception):
    """Anything Looptrap raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration: where, and what is wrong with what is allowed."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class ConfigError(LooptrapError):
    """The configuration cannot be used; `problems` lists every mistake found."""

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        self.problems = [Problem("", problems)] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(map(str, self.problems)))


class DatabaseError(LooptrapError):
    """The history cannot be read or written, for now; the message says why."""

    def __init__(self, message: str, *, is_final: bool = False, is_refusal: bool = False) -> None:
        """`is_final`: waiting does not help, a person has to do something.

        `is_refusal`: these values will never be taken, others are.
        """
        super().__init__(message)
        self.is_final = is_final
        self.is_refusal = is_refusal


class CallError(LooptrapError):
    """A call handed to the library is not something that can be read as a request."""


class RefusedError(LooptrapError):
    """The call was refused; `message` says why, in words meant for people and models."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # As usual it would be made by its message alone, and most kinds need more than that.
        return _as_it_was, (type(self), *self.args), vars(self)


def _as_it_was(kind: type[RefusedError], *args: object) -> RefusedError:
    """Return a refusal on its way out of a pickle, before it gets its fields."""
    return kind.__new__(kind, *args)


class LoopDetectedError(RefusedError):
    """The call was refused: the agent is going in circles."""

    def __init__(
        self,
        message: str,
        *,
        hit_count: int,
        cooldown_seconds: float,
        fingerprint: str,
        rule: str,
        evidence: Sequence[Any] = (),
    ) -> None:
        super().__init__(message)
        self.hit_count = hit_count
        self.cooldown_seconds = cooldown_seconds
        self.fingerprint = fingerprint
        self.rule = rule
        self.evidence = tuple(evidence)


class BudgetExceededError(RefusedError):
    """The call was refused: it might cost more than is left of a budget."""

    def __init__(self, message: str, *, budget: str, percent: int, fingerprint: str) -> None:
        super().__init__(message)
        self.budget = budget
        self.percent = percent
        """How much of the budget is used or reserved."""
        self.fingerprint = fingerprint
        """Of the account: releasing it begins the budget anew."""


class RateLimitedError(RefusedError):
    """The call was refused: too many came at once."""

    def __init__(self, message: str, *, rate: str, retry_after: float) -> None:
        super().__init__(message)
        self.rate = rate
        self.retry_after = retry_after
        """Seconds after which there is room for it."""


class KilledError(RefusedError):
    """The call was refused: an operator has switched off what it belongs to."""

    def __init__(self, message: str, *, rule: str) -> None:
        super().__init__(message)
        self.rule = rule
        """Of the kill switch."""


class AllProvidersFailed(LooptrapError):  # noqa: N818 - an outcome, named as people say it
    """Every link of a chain failed or was skipped; `reasons` has each link's name and failure."""

    def __init__(
        self, reasons: Sequence[tuple[str, Any]], *, retry_after: float | None = None
    ) -> None:
        self.reasons = tuple(reasons)
        self.retry_after = retry_after
        """The seconds after which asking again may help; None where nobody said."""
        told = "; ".join(f"{link}: {failure}" for link, failure in self.reasons)
        super().__init__(f"all providers failed: {told}")


class GiveUp(LooptrapError):  # noqa: N818 - what a turn does, not a fault
    """A turn ended early; `marker` is serialisable and says where, why and what was spent."""

    def __init__(self, marker: Any) -> None:
        super().__init__(f"gave up: {marker}")
        self.marker = marker


class IdempotencyError(LooptrapError):
    """A mutating call cannot be made, or repeated, safely."""
