"""generateContent, heard."""

from __future__ import annotations

import msgspec

from looptrap.answer.hearing.ear import Ear


class _Part(msgspec.Struct, gc=False):
    text: str | None = None
    thought: bool = False


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part] = []


class _Candidate(msgspec.Struct, gc=False):
    index: int = 0
    content: _Content | None = None
    finish_reason: str | None = msgspec.field(default=None, name="finishReason")


class _Response(msgspec.Struct, gc=False):
    candidates: list[_Candidate] = []


class CandidateEar(Ear):
    """Hears the candidates of a response."""

    __slots__ = ("open",)

    event = _Response

    def __init__(self) -> None:
        super().__init__()
        self.open: set[int] = set()
        """The candidates that have begun and not ended."""

    @property
    def can_end(self) -> bool:
        return bool(self.open)

    def hear(self, events: list[_Response]) -> None:
        for event in events:
            for candidate in event.candidates:
                index = candidate.index
                for part in candidate.content.parts if candidate.content else ():
                    if part.text:
                        key = (index, "thought") if part.thought else index
                        self.text(key).pieces.append(part.text)
                if candidate.finish_reason is None:
                    self.open.add(index)
                else:
                    self.open.discard(index)
