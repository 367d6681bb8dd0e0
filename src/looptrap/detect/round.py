"""A round: one assistant turn with its tool calls, and what came back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

from msgspec import Raw

from looptrap.detect.call_kind import (
    adds_something,
    changes_something,
    is_poll,
    is_put_off,
    is_step,
)
from looptrap.detect.failure import (
    failure_of,
    is_check,
    is_empty_result,
    is_success_report,
    is_test_report,
)
from looptrap.detect.similarity import (
    MAX_COMPARED_CHARS,
    differs_only_in_noise,
    is_similar,
    shares_most_words,
)
from looptrap.dialect.model import Message, ToolCall, ToolResult

NUDGE_MARK = "[looptrap]"
"""The first line of every nudge."""


def without_nudge(text: str) -> str:
    """Return a text without the nudge at its end."""
    start = text.find(NUDGE_MARK)
    return text if start < 0 else text[:start].rstrip()


T = TypeVar("T")


class cached_field(Generic[T]):  # noqa: N801 - used as a decorator
    """Like functools.cached_property, without the lock that Python 3.11 takes at each first use."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> cached_field[T]: ...
    @overload
    def __get__(self, owner: object, kind: type[Any]) -> T: ...
    def __get__(self, owner: object | None, kind: type[Any]) -> cached_field[T] | T:
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._work_out(owner)
        return value


MAX_RESULT_CHARS = 65_536
"""Results are compared by so many of their first characters, and by their length."""

Reader = Callable[[Raw], Message]


class Round:
    """One assistant turn with its tool calls, and what came back; looked into as needed."""

    def __init__(
        self, said: Message | Raw, answers: Sequence[Message | Raw], read: Reader | None = None
    ) -> None:
        self._said = said
        self._answers = answers
        """What tools answered, the latest first; like `said`, read with `read` where still raw."""
        self._read = read

    @cached_field
    def said(self) -> Message:
        """What the assistant said, and asked for."""
        return self._message(self._said)

    @cached_field
    def text(self) -> str:
        """The words."""
        return self.said.text

    @cached_field
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls."""
        return self.said.calls

    @cached_field
    def size(self) -> int:
        """How much came back, about: of what is still raw, without reading it."""
        if self._read is None:
            return len(self.result)
        return sum(memoryview(raw).nbytes for raw in self._answers if isinstance(raw, Raw))

    @cached_field
    def results(self) -> tuple[ToolResult | None, ...]:
        """In the order of the calls; None where no result has come."""
        found: dict[str, list[ToolResult]] = {}
        for message in map(self._message, self._answers):
            for result in reversed(message.results):
                found.setdefault(result.call_id or result.name, []).append(result)
        return tuple(_take(found, one) for one in self.calls)

    def _message(self, one: Message | Raw) -> Message:
        if isinstance(one, Message):
            return one
        assert self._read is not None  # nothing is left raw without it
        return self._read(one)

    @cached_field
    def asked(self) -> frozenset[tuple[str, str]]:
        """What was asked for: names and arguments; parallel twins are one, their order is none."""
        return frozenset((call.name, call.arguments) for call in self.calls)

    @cached_field
    def names(self) -> frozenset[str]:
        """The tools that were called."""
        return frozenset(call.name for call in self.calls)

    @cached_field
    def arguments(self) -> str:
        """All arguments, as far as they are compared for likeness."""
        return " ".join(sorted(call.arguments for call in self.calls))[:MAX_COMPARED_CHARS]

    @cached_field
    def result(self) -> str:
        """All results, in the order of what was asked."""
        pairs = zip(self.calls, self.results, strict=True)
        told = sorted((call.name, call.arguments, one.text) for call, one in pairs if one)
        text = told[0][2] if len(told) == 1 else "\n".join(dict.fromkeys(t for _, _, t in told))
        return without_nudge(text) if NUDGE_MARK in text else text

    @cached_field
    def failure(self) -> str | None:
        """What went wrong, if it did."""
        if not self.calls:
            return None
        return failure_of(
            self.result, any(one is not None and one.is_error for one in self.results)
        )

    @cached_field
    def failures(self) -> int:
        """How many of its calls went wrong."""
        if len(self.calls) < 2:
            return int(self.failure is not None)
        found = [one for one in self.results if one is not None]
        return sum(failure_of(one.text, one.is_error) is not None for one in found)

    @property
    def answered(self) -> int:
        """How many messages of tools came back: of what is still raw, without reading it."""
        return len(self._answers)

    @cached_field
    def is_report(self) -> bool:
        """Whether what went wrong is a report that counts failures: fewer are other ones."""
        return self.failure is not None and is_test_report(self.failure)

    @cached_field
    def is_fruitless(self) -> bool:
        """Whether it neither failed nor brought anything."""
        return bool(self.calls) and self.failure is None and is_empty_result(self.result)

    @cached_field
    def is_fine(self) -> bool:
        """Whether it says that there is nothing wrong; a check may do so by saying nothing."""
        if self.is_fruitless:
            return is_check(f"{' '.join(self.names)} {self.arguments}")
        return self.failure is None and is_success_report(self.result)

    @cached_field
    def lands(self) -> bool:
        """Whether a call of it changed something, as far as its own result tells."""
        return any(
            changes_something(call.name, call.arguments)
            and one is not None
            and failure_of(one.text, one.is_error) is None
            for call, one in zip(self.calls, self.results, strict=True)
        )

    @cached_field
    def adds(self) -> bool:
        """Whether a call of it added something, by its name."""
        return self.lands and any(adds_something(one.name, one.arguments) for one in self.calls)

    @cached_field
    def is_poll(self) -> bool:
        """Whether it asked for the state of something that goes on by itself, or is to wait."""
        # What a failure says of its circumstances ("error while running x") is no state.
        state = self.result if self.failure is None else ""
        return self.is_put_off or is_poll(self.names, self.arguments, state)

    @cached_field
    def is_put_off(self) -> bool:
        """Whether it was told to come again later."""
        return is_put_off(self.result)

    @cached_field
    def is_step(self) -> bool:
        """Whether it made one more step that went well, and showed no more than that."""
        return self.failure is None and is_step(self.names, self.result)

    def has_result_of(self, other: Round) -> bool:
        """Say whether the results are the same, volatile tokens aside."""
        one, two = self.result, other.result
        if one == two:
            return True
        # Volatile tokens change a length by little: mostly this saves looking closer.
        if abs(len(one) - len(two)) > 16 + len(one) // 16:
            return False
        are_failures = self.failure is not None and other.failure is not None
        return differs_only_in_noise(one[:MAX_RESULT_CHARS], two[:MAX_RESULT_CHARS], are_failures)

    def repeats(self, other: Round) -> bool:
        """Say whether the same was asked, with the same result."""
        return self.asked == other.asked and self.has_result_of(other)

    def fails_like(self, other: Round, percent: float) -> bool:
        """Say whether both failed, in almost the same words; of reports, in the same ones."""
        one, two = self.failure, other.failure
        if one is None or two is None or one == two or self.is_report:
            return one == two is not None
        return is_similar(one, two, percent) and shares_most_words(one, two)


def _take(results: dict[str, list[ToolResult]], call: ToolCall) -> ToolResult | None:
    waiting = results.get(call.id or call.name)
    return waiting.pop() if waiting else None
