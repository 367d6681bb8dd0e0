"""Messages, heard."""

from __future__ import annotations

import msgspec

from looptrap.answer.hearing.ear import Ear

_HEARD = frozenset(("text", "thinking"))


class _Part(msgspec.Struct, gc=False):
    """A block, or what is added to one."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: _Part | None = None
    content_block: _Part | None = None
    content: list[_Part] = []
    """Of a whole message."""


class MessageEar(Ear):
    """Hears the blocks of a message."""

    __slots__ = ("is_ending", "open")

    event = _Event

    def __init__(self) -> None:
        super().__init__()
        self.is_ending = False
        self.open: dict[int, str] = {}
        """The kinds of the blocks that have begun and not ended."""

    @property
    def can_end(self) -> bool:
        # A tool call must not be cut in half.
        return not self.is_ending and _HEARD.issuperset(self.open.values())

    def hear(self, events: list[_Event]) -> None:
        for event in events:
            if event.type == "content_block_delta":
                self._add(event.index, event.delta)
            else:
                self._hear_else(event)

    def _hear_else(self, event: _Event) -> None:
        match event.type:
            case "content_block_start":
                self._add(event.index, event.content_block)
                self.open[event.index] = event.content_block.type if event.content_block else ""
            case "content_block_stop":
                self.open.pop(event.index, None)
            case "message_delta" | "message_stop" | "error":
                self.is_ending = True
            case "message":
                for index, part in enumerate(event.content):
                    self._add(index, part)

    def _add(self, index: int, part: _Part | None) -> None:
        said = (part.text or part.thinking) if part is not None else None
        if said:
            self.text(index).pieces.append(said)
