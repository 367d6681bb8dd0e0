"""The trail of a run: what its tools were asked, and what they answered, round by round."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain
from threading import Lock

import msgspec

from looptrap.detect.failure import failure_of, is_empty_result
from looptrap.dialect.model import Message, ToolCall, ToolResult

MAX_ROUNDS = 64
"""So many of the latest rounds are kept: no rule of the default preset looks at more."""

MAX_CALLS_PER_ROUND = 32
"""So many calls make one round at most."""

MAX_CALLS = 128
"""So many calls are kept at most, in however few rounds."""

IDLE_RESET_S = 900.0
"""Seconds without any call after which another begins anew: a loop does not wait that long."""

FAILED_VARIANTS = 2
"""So many other arguments in vain: then new ones are expected to be so too."""

UNKNOWN_RESULT = "something new"
"""What a call is expected to bring of which nothing is known."""

_encode = msgspec.json.Encoder().encode
decode_message = msgspec.json.Decoder(Message).decode


class RecordedToolCall(msgspec.Struct, gc=False):
    """One call of a tool, and its result once it has come."""

    call: ToolCall
    result: ToolResult | None = None

    def answers(self, name: str, arguments: str) -> bool:
        """Say whether it was this that was asked."""
        return self.call.name == name and self.call.arguments == arguments


class _Round:
    """Calls that began before any of them had ended: a model asked for them together."""

    __slots__ = ("raws", "uses")

    def __init__(self) -> None:
        self.uses: list[RecordedToolCall] = []
        self.raws: tuple[msgspec.Raw, ...] = ()
        """The round as a history has it, once all of it has ended."""

    @property
    def is_open(self) -> bool:
        return len(self.uses) < MAX_CALLS_PER_ROUND and all(use.result is None for use in self.uses)

    def close(self) -> None:
        """Write the round down if nothing is missing."""
        results = tuple(use.result for use in self.uses if use.result is not None)
        if len(results) == len(self.uses):
            self.raws = _encode_round(tuple(use.call for use in self.uses), results)


class ToolHistory:
    """The latest rounds of one run. Thread-safe."""

    def __init__(self, name: str) -> None:
        self.name = name
        """What tells the run from others."""
        self._rounds: deque[_Round] = deque(maxlen=MAX_ROUNDS)
        self._until = 0.0
        self._lock = Lock()

    def history(self, name: str, arguments: str, now: float) -> list[msgspec.Raw]:
        """Return the rounds that have ended, and the call about to be made as the latest.

        It is expected to bring what it brought the last time. With new arguments that is something
        new, unless others have failed too, or brought nothing: then it is what came of the latest.
        """
        with self._lock:
            if now > self._until:
                self._rounds.clear()
            expected = self._expected(name, arguments)
            before = chain.from_iterable(one.raws for one in self._rounds)
            return [*before, *_encode_round((ToolCall("0", name, arguments),), (expected,))]

    def begin(self, name: str, arguments: str, now: float) -> RecordedToolCall:
        """Note a call that is being made; `end` it."""
        with self._lock:
            self._until = now + IDLE_RESET_S
            if not self._rounds or not self._rounds[-1].is_open:
                self._rounds.append(_Round())
                while sum(len(one.uses) for one in self._rounds) >= MAX_CALLS:
                    self._rounds.popleft()
            uses = self._rounds[-1].uses
            uses.append(RecordedToolCall(ToolCall(str(len(uses)), name, arguments)))
            return uses[-1]

    def end(self, use: RecordedToolCall, text: str, is_error: bool, now: float) -> None:
        """Note what a call brought."""
        with self._lock:
            self._until = now + IDLE_RESET_S
            use.result = ToolResult(use.call.id, text, is_error)
            for one in reversed(self._rounds):
                if any(other is use for other in one.uses):
                    one.close()
                    return

    def _expected(self, name: str, arguments: str) -> ToolResult:
        ended = list(self._backwards())
        for use, result in ended:
            if use.answers(name, arguments):
                return ToolResult("0", result.text, result.is_error)
        by_arguments: dict[str, ToolResult] = {}
        for use, result in ended:
            if use.call.name == name:
                by_arguments.setdefault(use.call.arguments, result)
        others = list(by_arguments.values())[:FAILED_VARIANTS]
        if len(others) == FAILED_VARIANTS and all(map(_is_useless, others)):
            return ToolResult("0", others[0].text, others[0].is_error)
        return ToolResult("0", UNKNOWN_RESULT)

    def _backwards(self) -> Iterator[tuple[RecordedToolCall, ToolResult]]:
        """Yield what has been answered, the latest first, of rounds that have ended."""
        for one in reversed(self._rounds):
            if one.raws:
                for use in reversed(one.uses):
                    if use.result is not None:
                        yield use, use.result


def _is_useless(result: ToolResult) -> bool:
    return failure_of(result.text, result.is_error) is not None or is_empty_result(result.text)


def _encode_round(
    calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]
) -> tuple[msgspec.Raw, msgspec.Raw]:
    """Return a round as the two messages of a history."""
    asked, told = Message("assistant", "", calls), Message("tool", "", (), results)
    return msgspec.Raw(_encode(asked)), msgspec.Raw(_encode(told))
