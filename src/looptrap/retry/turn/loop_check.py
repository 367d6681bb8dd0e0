"""The loop check on tool calls: the same one again, and it still brings the same."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from looptrap.call.content import UNREADABLE, arguments, flatten
from looptrap.call.model import Call, Message, Request, ToolCall, ToolResult
from looptrap.detect.signals import ROUNDS, Look
from looptrap.detect.signals.repeat import Repeat
from looptrap.detect.trajectory import Trajectory

TIMES = 3
INTERRUPTION = (
    f"You have called the same tool {TIMES} times with the same arguments."
    " The approach is not working. Try a different strategy."
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


class LoopCheck:
    """Remembers the latest tool calls of an agent, and reads them as the gateway does."""

    def __init__(self) -> None:
        # Polls are looked for further back than anything else.
        look = Look(ROUNDS["repeat"], first=TIMES)
        self._messages: deque[msgspec.Raw] = deque(maxlen=2 * look.rounds * look.patience)
        self._with_results = Repeat(look)
        self._without = Repeat(look._replace(with_results=False))

    def message(self, name: str, given: object, result: object) -> str | None:
        """Take note of a call; return what to tell the model when it goes in circles."""
        call = ToolCall("1", name, _readable(arguments, given))
        self._add(Message("assistant", calls=(call,)))
        repeat = self._without
        if result is not None:
            self._add(Message("tool", results=(ToolResult("1", _readable(flatten, result)),)))
            repeat = self._with_results
        found = repeat(Trajectory(self._history()))
        return INTERRUPTION if found is not None and found.count >= TIMES else None

    def _add(self, message: Message) -> None:
        self._messages.append(msgspec.Raw(_encode(message)))

    def _history(self) -> Call:
        return Call(Request(), "openai_chat", raws=list(self._messages), read=_decode)


def _readable(read: Any, value: object) -> str:
    """Return a value as text: in canonical form, where it has one."""
    try:
        text: str = read(value)
    except (*UNREADABLE, TypeError):
        return repr(value)
    return text
