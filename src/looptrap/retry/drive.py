"""Driving one call over its course; the loops around this only wait, and call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from threading import Lock

from looptrap.errors import AllProvidersFailed
from looptrap.retry.attempt import Attempt, under_way
from looptrap.retry.breaker import Source
from looptrap.retry.breakers import Breakers
from looptrap.retry.chain import Chain, Link
from looptrap.retry.course import DEADLINE, Course, Failed, Step, Try, Wait
from looptrap.retry.failure import Failure
from looptrap.retry.hook import Event, Hook, tell
from looptrap.retry.policy import RetryPolicy
from looptrap.retry.timing import Timing, timing_here

# Breakers are shared by threads, and take no lock of their own. What this one guards takes
# microseconds, so one does for all of them.
_GUARD = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What calls are retried with."""

    policy: RetryPolicy = RetryPolicy()  # noqa: RUF009 - frozen
    chain: Chain | None = None
    breakers: Breakers | None = None
    hooks: tuple[Hook, ...] = ()
    timing: Timing | None = None
    """None takes the real time, or that of a test around the call."""


Ending = Callable[[Failed, BaseException | None], BaseException]
"""Says what is raised at the end of a failed call, given its latest error."""


class DeadlinePassed(TimeoutError):  # noqa: N818 - what happened, not a fault
    """An attempt was cut: there was no more time for it."""

    def __init__(self, drive: Drive) -> None:
        super().__init__("the deadline passed during the attempt")
        self.drive = drive


class Drive:
    """One call under way: what to do next, who hears of it, and what is raised at the end."""

    __slots__ = (
        "_chain",
        "_course",
        "_ending",
        "_ends",
        "_hooks",
        "_is_owner",
        "_means",
        "_name",
        "_step",
        "_turn",
        "is_won",
        "timing",
    )

    def __init__(
        self,
        means: Means,
        name: str,
        *,
        deadline: float | None = None,
        turn: str = "",
        ending: Ending | None = None,
    ) -> None:
        """Begin now; `deadline` is a moment of the clock."""
        self._means = means
        self._name = name
        self._turn = turn
        self._ending = ending or as_raised
        self.timing = means.timing or timing_here()
        now = self.timing.clock()
        self._chain = means.chain or Chain((Link(name),))
        # A process is one caller, and a turn one of its conversations.
        source = Source("", lambda: turn) if turn else None
        self._course = Course(
            self._chain, means.policy, means.breakers, now=now, deadline=deadline, source=source
        )
        own = means.policy.deadline
        self._ends = min(inf if own is None else now + own, inf if deadline is None else deadline)
        # Inside somebody else's attempt that one retries; two would multiply.
        self._is_owner = under_way() is None
        self._step: Step | None = None
        self.is_won = False

    @property
    def attempts(self) -> int:
        """How many attempts have been made."""
        return self._course.attempts

    def left(self) -> float | None:
        """Return the seconds until the deadline; None where there is none."""
        return None if self._ends == inf else max(0.0, self._ends - self.timing.clock())

    def advance(self) -> Attempt | float:
        """Return the attempt to make now, or the seconds to wait before asking again."""
        step = self._step or self._next()
        self._step = None
        match step:
            case Try(link):
                named = link if self._means.chain is not None else None
                self._tell("attempt", link=named)
                return Attempt(self, self.attempts, named)
            case Wait(seconds, failure):
                self._tell("wait", seconds=seconds, failure=failure)
                return seconds
            case Failed():
                raise self._end(step, None)

    def won(self) -> None:
        """Take note of a success."""
        self.is_won = True
        with _GUARD:
            self._course.succeeded(self.timing.clock())
        self._tell_changes()

    def lost(self, attempt: Attempt, error: BaseException) -> bool:
        """Take note of a failure; say whether another attempt follows, or raise what ends it."""
        if not isinstance(error, Exception):  # cancelled or interrupted: that says nothing
            with _GUARD:
                self._course.abandoned(self.timing.clock())
            return False
        failure = self._failure(error)
        if attempt.binding and self._is_owner and failure.is_retryable:
            error.add_note(f"looptrap: not tried again, {attempt.binding}")
        if failure is DEADLINE or attempt.binding or not self._is_owner:
            link = (attempt.link or self._chain.links[0]).name
            step: Step = Failed(failure, ((link, failure),), self.attempts, failure.retry_after)
        else:
            step = self._next()
        if not isinstance(step, Failed):
            self._step = step
            return True
        raised = self._end(step, error)
        if raised is error:
            return False
        raise raised from raised.__cause__ or error

    def _failure(self, error: Exception) -> Failure:
        """Say what an error means, and have it noted."""
        now = self.timing.clock()
        if isinstance(error, DeadlinePassed) and error.drive is self:
            with _GUARD:
                self._course.abandoned(now)  # our own haste says nothing about the provider
            return DEADLINE
        failure = self._means.policy.classifiers.classify(error, self.timing.wall())
        with _GUARD:
            self._course.failed(failure, now)
        self._tell_changes()
        return failure

    def _next(self) -> Step:
        with _GUARD:
            step = self._course.next(self.timing.clock(), self.timing.chance())
        self._tell_changes()
        return step

    def _end(self, failed: Failed, error: BaseException | None) -> BaseException:
        self._tell("give_up", failure=failed.failure)
        return self._ending(failed, error)

    def _tell_changes(self) -> None:
        for change in self._course.take_changes():
            key = change.key
            circuit = key.provider if key.credential is None else f"{key.provider} {key.credential}"
            self._tell("breaker", circuit=circuit.strip(), state=change.state)

    def _tell(self, kind: str, **more: object) -> None:
        if self._means.hooks:
            told = Event(kind=kind, name=self._name, attempt=self.attempts, turn=self._turn, **more)  # type: ignore[arg-type]
            tell(self._means.hooks, told)


def as_raised(failed: Failed, error: BaseException | None) -> BaseException:
    """Return the call's own error; where several links failed, or none was asked, all of it."""
    if error is None or (len(failed.reasons) > 1 and failed.failure.is_retryable):
        return AllProvidersFailed(failed.reasons, retry_after=failed.retry_after)
    return error
