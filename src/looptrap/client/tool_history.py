"""ToolHistory: the calls of tools in one run and their results, round by round."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain
from threading import Lock

import msgspec

from looptrap.detect.failure import failure_of, is_empty_result
from looptrap.dialect.model import Message, ToolCall, ToolResult

MAX_ROUNDS = 64
"""The latest rounds that are kept: no rule of the default preset looks at more."""

MAX_CALLS_PER_ROUND = 32
MAX_CALLS = 128
"""Calls that are kept, of all rounds."""

IDLE_RESET_S = 900.0
"""Seconds without any call after which the history is dropped: a loop does not wait so long."""

FAILED_VARIANTS = 2
"""Different arguments that failed; after them, new arguments are expected to fail too."""

UNKNOWN_RESULT = "something new"
"""The expected result of a call of which nothing is known."""

_encode = msgspec.json.Encoder().encode
decode_message = msgspec.json.Decoder(Message).decode


class RecordedToolCall(msgspec.Struct, gc=False):
    """One call of a tool, and its result once there is one."""

    call: ToolCall
    result: ToolResult | None = None


class _Round:
    """Calls that began before any of them had ended: a model made them together."""

    __slots__ = ("calls", "raws")

    def __init__(self) -> None:
        self.calls: list[RecordedToolCall] = []
        self.raws: tuple[msgspec.Raw, ...] = ()
        """The round as encoded messages, once all its calls have ended."""

    @property
    def is_open(self) -> bool:
        return len(self.calls) < MAX_CALLS_PER_ROUND and all(
            one.result is None for one in self.calls
        )

    def close(self) -> None:
        """Encode the round if all its calls have ended."""
        results = tuple(one.result for one in self.calls if one.result is not None)
        if len(results) == len(self.calls):
            self.raws = _encode_round(tuple(one.call for one in self.calls), results)


class ToolHistory:
    """The latest rounds of one run. Thread-safe."""

    def __init__(self, name: str) -> None:
        self.name = name
        """Distinguishes the run from others."""
        self._rounds: deque[_Round] = deque(maxlen=MAX_ROUNDS)
        self._expires = 0.0
        self._lock = Lock()

    def history(self, name: str, arguments: str, now: float) -> list[msgspec.Raw]:
        """Return the rounds that have ended, and the call about to be made as the latest.

        It is expected to have the result that it had the last time. With new arguments that is a
        new one, unless others have failed or returned nothing: then it is the latest of theirs.
        """
        with self._lock:
            if now > self._expires:
                self._rounds.clear()
            expected = self._expected(name, arguments)
            before = chain.from_iterable(one.raws for one in self._rounds)
            return [*before, *_encode_round((ToolCall("0", name, arguments),), (expected,))]

    def begin(self, name: str, arguments: str, now: float) -> RecordedToolCall:
        """Record a call that is being made; `end` records its result."""
        with self._lock:
            self._expires = now + IDLE_RESET_S
            if not self._rounds or not self._rounds[-1].is_open:
                self._rounds.append(_Round())
                while sum(len(one.calls) for one in self._rounds) >= MAX_CALLS:
                    self._rounds.popleft()
            calls = self._rounds[-1].calls
            calls.append(RecordedToolCall(ToolCall(str(len(calls)), name, arguments)))
            return calls[-1]

    def end(self, recorded: RecordedToolCall, text: str, is_error: bool, now: float) -> None:
        """Record the result of a call."""
        with self._lock:
            self._expires = now + IDLE_RESET_S
            recorded.result = ToolResult(recorded.call.id, text, is_error)
            for one in reversed(self._rounds):
                if any(other is recorded for other in one.calls):
                    one.close()
                    return

    def _expected(self, name: str, arguments: str) -> ToolResult:
        latest: dict[str, ToolResult] = {}  # by arguments, the latest call first
        for call, result in self._ended_calls():
            if call.name == name:
                latest.setdefault(call.arguments, result)
        if arguments in latest:
            return ToolResult("0", latest[arguments].text, latest[arguments].is_error)
        others = list(latest.values())[:FAILED_VARIANTS]
        if len(others) == FAILED_VARIANTS and all(map(_is_useless, others)):
            return ToolResult("0", others[0].text, others[0].is_error)
        return ToolResult("0", UNKNOWN_RESULT)

    def _ended_calls(self) -> Iterator[tuple[ToolCall, ToolResult]]:
        """Yield the calls of rounds that have ended, the latest first."""
        for one in reversed(self._rounds):
            if one.raws:
                for recorded in reversed(one.calls):
                    if recorded.result is not None:
                        yield recorded.call, recorded.result


def _is_useless(result: ToolResult) -> bool:
    return failure_of(result.text, result.is_error) is not None or is_empty_result(result.text)


def _encode_round(
    calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]
) -> tuple[msgspec.Raw, msgspec.Raw]:
    messages = Message("assistant", "", calls), Message("tool", "", (), results)
    return msgspec.Raw(_encode(messages[0])), msgspec.Raw(_encode(messages[1]))
