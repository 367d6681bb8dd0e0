"""Chat Completions and legacy Completions, heard."""

from __future__ import annotations

import msgspec

from looptrap.answer.hearing.ear import Ear


class _Said(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Said | None = None
    message: _Said | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] = []


class ChatEar(Ear):
    """Hears the choices of a completion."""

    __slots__ = ("calling", "open")

    event = _Chunk

    def __init__(self) -> None:
        super().__init__()
        self.open: set[int] = set()
        """The choices that have begun and not ended."""
        self.calling = False
        """Whether a choice wants a tool: a call must not be cut in half."""

    @property
    def can_end(self) -> bool:
        return bool(self.open) and not self.calling

    def hear(self, events: list[_Chunk]) -> None:
        for event in events:
            for choice in event.choices:
                index = choice.index
                if choice.finish_reason is None:
                    self.open.add(index)
                else:
                    self.open.discard(index)
                said = choice.delta or choice.message
                if said is None:
                    self.text(index).pieces.append(choice.text or "")
                    continue
                if said.content:
                    self.text(index).pieces.append(said.content)
                elif thought := said.reasoning_content or said.reasoning:
                    self.text((index, "thought")).pieces.append(thought)
                if said.tool_calls:
                    self.calling = True
