"""The trajectory: what an agent did since a person last spoke, round by round."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from looptrap.call.model import Call, Message, ToolCall, ToolResult


class Round(msgspec.Struct, frozen=True, gc=False):
    """One assistant turn with its tool calls, and what came back."""

    text: str
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult | None, ...]
    """In the order of the calls; None where no result has come."""


class Trajectory:
    """The rounds since the last user message, read from the latest back, as far as needed."""

    __slots__ = ("_rounds", "_unread")

    def __init__(self, call: Call) -> None:
        self._unread = _backwards(call)
        self._rounds: list[Round] = []

    def latest(self, most: int) -> list[Round]:
        """Return up to `most` rounds, the latest first."""
        while len(self._rounds) < most:
            found = next(self._unread, None)
            if found is None:
                break
            self._rounds.append(found)
        return self._rounds[:most]


def _backwards(call: Call) -> Iterator[Round]:
    results: dict[str, list[ToolResult]] = {}
    for message in call.backwards():
        for result in reversed(message.results):
            results.setdefault(result.call_id or result.name, []).append(result)
        if _is_person(message):
            return
        if message.role == "assistant":
            yield Round(
                message.text,
                message.calls,
                tuple(_take(results, one) for one in message.calls),
            )
            results.clear()


def _take(results: dict[str, list[ToolResult]], call: ToolCall) -> ToolResult | None:
    waiting = results.get(call.id or call.name)
    return waiting.pop() if waiting else None


def _is_person(message: Message) -> bool:
    return message.role == "user" and not message.results
