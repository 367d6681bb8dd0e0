"""The corrective retry of a turn: another prompt, which says what was wrong with the answer."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from looptrap.retry.classify.classifiers import Classifiers

M = TypeVar("M")
A = TypeVar("A")
R = TypeVar("R")

LONGEST = 500
"""Characters of an error that the model is told; more of it would only be paid for."""


def corrective_prompt(prompt: Any, answer: Any, error: Exception) -> Any:
    """Return the prompt with what was answered, and why that cannot be used.

    Made for a text, and for a list of messages as chat clients take them.
    """
    told = str(error)[:LONGEST]
    asked = f"Your answer could not be read: {told}\nAnswer again, in the format asked for."
    if isinstance(prompt, str):
        return f"{prompt}\n\nYou answered:\n{answer}\n\n{asked}"
    if isinstance(prompt, list):
        said = [{"role": "assistant", "content": answer}] if isinstance(answer, str) else []
        return [*prompt, *said, {"role": "user", "content": asked}]
    raise TypeError(
        f"a prompt of type {type(prompt).__name__} cannot be corrected by itself: give `correct`"
    )


def is_bad_output(error: Exception, classifiers: Classifiers) -> bool:
    """Say whether an answer could not be read: what parsers raise, and what is classified so."""
    return isinstance(error, ValueError) or classifiers.classify(error).reason == "bad_output"


def conversation(
    prompt: M,
    parse: Callable[[A], R],
    correct: Callable[[M, A, Exception], M],
    may_correct: Callable[[], bool],
    is_bad: Callable[[Exception], bool],
) -> Generator[M, A, R]:
    """Yield what to ask, get what was answered, return what that means: two questions at most.

    Raises what the parser raised when nothing is left to be asked; the same is never asked again.
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
