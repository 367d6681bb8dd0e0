"""One step of a turn: a call with retries, or a question whose answer is parsed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from inspect import isawaitable
from typing import Any, NamedTuple, TypeVar

from looptrap.errors import GiveUp
from looptrap.retry.attempt import current_attempt
from looptrap.retry.classify.exception import Classifiers
from looptrap.retry.decorator import function_name
from looptrap.retry.policy import Chain
from looptrap.retry.run import AttemptCall, RetryRun, final_error, run_like
from looptrap.retry.schedule import FinalFailure
from looptrap.retry.turn.budget import TurnState

M = TypeVar("M")
A = TypeVar("A")
R = TypeVar("R")

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


def is_bad_output(error: Exception, classifiers: Classifiers) -> bool:
    """Return whether an error means that an answer could not be parsed."""
    return isinstance(error, ValueError) or classifiers.classify(error).reason == "bad_output"


def ask_with_correction(
    prompt: M,
    parse: Callable[[A], R],
    correct: Callable[[M, A, Exception], M],
    may_correct: Callable[[], bool],
    is_bad: Callable[[Exception], bool],
) -> Generator[M, A, R]:
    """Yield prompts, get answers, return the parsed answer: two prompts at most.

    Raises the parser's error when no correction is left; the same prompt is never sent again.
    """
    answer = yield prompt
    try:
        return parse(answer)
    except Exception as error:
        if not is_bad(error) or not may_correct():
            raise
        better = correct(prompt, answer, error)
        if better == prompt:
            error.add_note("looptrap: not corrected, since the corrective prompt was the same")
            raise
    return parse((yield better))


Conversation = Generator[Any, Any, Any]


class NextQuestion(NamedTuple):
    """The next prompt."""

    question: Any


class ParsedAnswer(NamedTuple):
    """The parsed answer."""

    result: Any


class TurnStep:
    """Claims one step of a turn when it is first run, however many attempts it takes."""

    __slots__ = ("_is_owner", "_number", "_retry_runs", "_run")

    def __init__(self, run: TurnState) -> None:
        self._run = run
        self._number = 0
        self._is_owner = False
        self._retry_runs: list[RetryRun] = []

    def call(self, fn: Callable[..., Any], make: AttemptCall, chain: Chain | None = None) -> Any:
        """Call a function of any kind with the turn's policy."""
        options = self._run.options if chain is None else replace(self._run.options, chain=chain)

        def begin() -> RetryRun:
            if not self._number:
                self._number = self._run.begin_step()
                self._is_owner = current_attempt() is None
            now = self._run.timing.clock()
            retry_run = RetryRun(
                replace(options, timing=self._run.timing),
                function_name(fn),
                deadline=now + self._run.account.left(now).deadline,
                turn=self._run.id,
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
        """Ask and read the answer, with one correction where the turn has one left."""
        conversation = ask_with_correction(
            prompt, parse, correct, self._run.account.may_correct, self._is_bad
        )
        answer = self._ask(ask, next(conversation))
        if isawaitable(answer):
            return self._ask_async(conversation, ask, answer)
        while not isinstance(step := self._send_answer(conversation, answer), ParsedAnswer):
            answer = self._ask(ask, step.question)
        return step.result

    async def _ask_async(
        self, conversation: Conversation, ask: Callable[[Any], Any], answer: Any
    ) -> Any:
        while not isinstance(step := self._send_answer(conversation, await answer), ParsedAnswer):
            answer = self._ask(ask, step.question)
        return step.result

    def _send_answer(self, conversation: Conversation, answer: Any) -> NextQuestion | ParsedAnswer:
        """Send an answer to the conversation; raise GiveUp when it cannot be parsed."""
        try:
            return NextQuestion(conversation.send(answer))
        except StopIteration as end:
            return ParsedAnswer(end.value)
        except Exception as error:
            if not self._is_owner or not self._is_bad(error):
                raise
            raise self._run.give_up(self._number, "bad_output", self._attempts) from error

    def _ask(self, ask: Callable[[Any], Any], question: Any) -> Any:
        return self.call(ask, lambda _attempt: ask(question))

    def _is_bad(self, error: Exception) -> bool:
        return is_bad_output(error, self._run.options.policy.classifiers)

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
        now = self._run.timing.clock()
        is_late = self._run.account.left(now).deadline <= 0
        reason = "deadline" if is_late else failed.failure.reason
        given_up = self._run.give_up(self._number, reason, self._attempts)
        given_up.__cause__ = cause
        if cause is not error:
            cause.__cause__ = error
        return given_up
