"""One step of a turn: a call with retries, or a question whose answer is read."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from inspect import isawaitable
from typing import Any, NamedTuple

from looptrap.errors import GiveUp
from looptrap.retry.attempt import under_way
from looptrap.retry.chain import Chain
from looptrap.retry.course import Failed
from looptrap.retry.decorate import name_of
from looptrap.retry.drive import Drive, as_raised
from looptrap.retry.loop import Make, run_as
from looptrap.retry.turn.corrective import conversation, is_bad_output
from looptrap.retry.turn.run import Run

Talk = Generator[Any, Any, Any]


class Asked(NamedTuple):
    """What to ask next."""

    question: Any


class Read(NamedTuple):
    """What the answer means."""

    result: Any


class Step:
    """Takes one step of a turn when it is first run, however often it is tried or asked."""

    __slots__ = ("_drives", "_is_owner", "_number", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._number = 0
        self._is_owner = False
        self._drives: list[Drive] = []

    def call(self, fn: Callable[..., Any], make: Make, chain: Chain | None = None) -> Any:
        """Call a function of whatever kind, with the turn's policy."""
        means = self._run.means if chain is None else replace(self._run.means, chain=chain)

        def begin() -> Drive:
            if not self._number:
                self._number = self._run.begin_step()
                self._is_owner = under_way() is None
            now = self._run.timing.clock()
            drive = Drive(
                replace(means, timing=self._run.timing),
                name_of(fn),
                deadline=now + self._run.account.left(now).deadline,
                turn=self._run.id,
                ending=self._ending,
            )
            self._drives.append(drive)
            return drive

        return run_as(fn, begin, make)

    def ask(
        self,
        ask: Callable[[Any], Any],
        prompt: Any,
        parse: Callable[[Any], Any],
        correct: Callable[[Any, Any, Exception], Any],
    ) -> Any:
        """Ask and read the answer, with one correction where the turn has one left."""
        talk = conversation(prompt, parse, correct, self._run.account.may_correct, self._is_bad)
        answer = self._put(ask, next(talk))
        if isawaitable(answer):
            return self._go_on(talk, ask, answer)
        while not isinstance(said := self._tell(talk, answer), Read):
            answer = self._put(ask, said.question)
        return said.result

    async def _go_on(self, talk: Talk, ask: Callable[[Any], Any], answer: Any) -> Any:
        while not isinstance(said := self._tell(talk, await answer), Read):
            answer = self._put(ask, said.question)
        return said.result

    def _tell(self, talk: Talk, answer: Any) -> Asked | Read:
        """Hand an answer over; raise what it means when it cannot be read, and nothing is left."""
        try:
            return Asked(talk.send(answer))
        except StopIteration as end:
            return Read(end.value)
        except Exception as error:
            if not self._is_owner or not self._is_bad(error):
                raise
            raise self._run.give_up(self._number, "bad_output", self._attempts) from error

    def _put(self, ask: Callable[[Any], Any], question: Any) -> Any:
        return self.call(ask, lambda _attempt: ask(question))

    def _is_bad(self, error: Exception) -> bool:
        return is_bad_output(error, self._run.means.policy.classifiers)

    @property
    def _attempts(self) -> int:
        return sum(drive.attempts for drive in self._drives)

    def _ending(self, failed: Failed, error: BaseException | None) -> BaseException:
        """Return what is raised at the end: GiveUp, unless somebody else is to decide."""
        if isinstance(error, GiveUp):
            return error  # a turn inside this one says more exactly where it ended
        cause = as_raised(failed, error)
        if not self._is_owner or failed.failure.bucket == "tool":
            return cause
        now = self._run.timing.clock()
        is_late = self._run.account.left(now).deadline <= 0
        reason = "deadline" if is_late else failed.failure.reason
        given_up = self._run.give_up(self._number, reason, self._attempts)
        given_up.__cause__ = cause
        if cause is not error:
            cause.__cause__ = error
        return given_up
