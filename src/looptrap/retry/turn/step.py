"""One step of a turn: a call with retries, or a question whose answer is parsed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from looptrap.errors import GiveUp
from looptrap.retry.decorator import function_name
from looptrap.retry.policy import Chain
from looptrap.retry.run import (
    AttemptCall,
    RetryRun,
    current_attempt,
    drive,
    drive_async,
    final_error,
    run_like,
)
from looptrap.retry.schedule import FinalFailure
from looptrap.retry.turn.budget import TurnState

MAX_ERROR_CHARS = 500
"""Characters of an error in a corrective prompt; more would only cost."""


def corrective_prompt(prompt: Any, answer: Any, error: Exception) -> Any:
    """Return the prompt, a text or a list of chat messages, with the answer and its error added."""
    shortened = str(error)[:MAX_ERROR_CHARS]
    correction = (
        f"Your answer could not be read: {shortened}\nAnswer again, in the format asked for."
    )
    if isinstance(prompt, str):
        return f"{prompt}\n\nYou answered:\n{answer}\n\n{correction}"
    if isinstance(prompt, list):
        answered = [{"role": "assistant", "content": answer}] if isinstance(answer, str) else []
        return [*prompt, *answered, {"role": "user", "content": correction}]
    raise TypeError(
        f"a prompt of type {type(prompt).__name__} cannot be corrected by itself: give `correct`"
    )


class TurnStep:
    """Claims one step of a turn when it is first run, however many attempts it takes."""

    def __init__(self, turn: TurnState) -> None:
        self._turn = turn
        self._number = 0
        self._is_owner = False
        self._retry_runs: list[RetryRun] = []

    def call(self, fn: Callable[..., Any], make: AttemptCall, chain: Chain | None = None) -> Any:
        """Call a function of any kind with the turn's policy."""
        options = self._turn.options if chain is None else replace(self._turn.options, chain=chain)

        def begin() -> RetryRun:
            if not self._number:
                self._number = self._turn.begin_step()
                self._is_owner = current_attempt() is None
            now = self._turn.timing.clock()
            retry_run = RetryRun(
                replace(options, timing=self._turn.timing),
                function_name(fn),
                deadline=now + self._turn.account.left(now).deadline,
                turn=self._turn.id,
                error_factory=self._final_error,
            )
            self._retry_runs.append(retry_run)
            return retry_run

        return run_like(fn, begin, make)

    def ask(
        self,
        ask: Callable[[Any], Any],
        prompt: Any,
        parse: Callable[[Any], Any],
        correct: Callable[[Any, Any, Exception], Any],
    ) -> Any:
        """Ask and parse the answer, with one correction where the turn has one left."""
        first = self._ask(ask, prompt)

        def steps() -> Generator[Any, Any, Any]:
            """Yield answers, to be awaited; return the parsed one."""
            answer = yield first
            with self._giving_up():
                try:
                    return parse(answer)
                except Exception as error:
                    if not self._is_bad(error) or not self._turn.account.may_correct():
                        raise
                    better = correct(prompt, answer, error)
                    if better == prompt:  # the same prompt is never sent again
                        error.add_note(
                            "looptrap: not corrected, since the corrective prompt was the same"
                        )
                        raise
            answer = yield self._ask(ask, better)
            with self._giving_up():
                return parse(answer)

        return drive_async(steps()) if isawaitable(first) else drive(steps())

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Give the turn up where an answer cannot be parsed."""
        try:
            yield
        except Exception as error:
            if not self._is_owner or not self._is_bad(error):
                raise
            raise self._turn.give_up(self._number, "bad_output", self._attempts) from error

    def _ask(self, ask: Callable[[Any], Any], question: Any) -> Any:
        return self.call(ask, lambda _attempt: ask(question))

    def _is_bad(self, error: Exception) -> bool:
        """Return whether an error means that an answer could not be parsed."""
        classifiers = self._turn.options.policy.classifiers
        return isinstance(error, ValueError) or classifiers.classify(error).reason == "bad_output"

    @property
    def _attempts(self) -> int:
        return sum(retry_run.attempts for retry_run in self._retry_runs)

    def _final_error(self, failed: FinalFailure, error: BaseException | None) -> BaseException:
        """Return the final error: GiveUp, unless an outer attempt or the model decides."""
        if isinstance(error, GiveUp):
            return error  # an inner turn says more exactly where it ended
        cause = final_error(failed, error)
        if not self._is_owner or failed.failure.bucket == "tool":
            return cause
        now = self._turn.timing.clock()
        is_late = self._turn.account.left(now).deadline <= 0
        reason = "deadline" if is_late else failed.failure.reason
        given_up = self._turn.give_up(self._number, reason, self._attempts)
        given_up.__cause__ = cause
        if cause is not error:
            cause.__cause__ = error
        return given_up
