"""Responses, heard: the end of such a stream repeats all that was said in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from looptrap.answer.hearing.ear import Ear
from looptrap.answer.hearing.text import GrowingText

NOTHING = msgspec.Raw(b"null")
EMPTY = b"{}"

MOST_KEPT = 4 * 1024 * 1024
"""Characters and bytes of an answer that are kept to end it with; one that says more is not cut."""

OUTPUT, REASONING = "response.output_text", "response.reasoning_text"
SUMMARY = "response.reasoning_summary_text"
DELTAS = {f"{kind}.delta": kind for kind in (OUTPUT, REASONING, SUMMARY)}
_ENDS = frozenset(f"response.{end}" for end in ("completed", "failed", "incomplete")) | {"error"}


class _Part(msgspec.Struct, gc=False):
    text: str | None = None


class _Item(msgspec.Struct, gc=False):
    """An item of a whole response."""

    content: list[_Part] | None = None
    summary: list[_Part] | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    sequence_number: int = 0
    output_index: int = 0
    content_index: int | None = None
    summary_index: int | None = None
    delta: str | None = None
    item: msgspec.Raw = NOTHING
    part: msgspec.Raw = NOTHING
    response: msgspec.Raw = NOTHING
    output: list[_Item] = []


class Place(NamedTuple):
    """Where in an item a part stands."""

    field: str
    """`content` or `summary`."""
    number: int


class Part:
    """A text that has begun and not ended: what it was announced as, and all it has said."""

    __slots__ = ("kind", "shape", "text")

    def __init__(self, text: GrowingText) -> None:
        self.kind = ""
        """What its deltas are of: `response.output_text`."""
        self.shape = EMPTY
        self.text = text

    @property
    def is_text(self) -> bool:
        """Whether it is nothing but text: no refusal, no sound."""
        return "text" in _type_of(self.shape, "text")


class Item:
    """An item that has begun and not ended."""

    __slots__ = ("done", "parts", "shape")

    def __init__(self, shape: bytes) -> None:
        self.shape = shape
        self.parts: dict[Place, Part] = {}
        self.done: dict[Place, bytes] = {}
        """Parts that have ended, as they were when they did."""

    @property
    def is_text(self) -> bool:
        """Whether it is nothing but text: a tool call must not be cut in half."""
        return _type_of(self.shape, "") in ("message", "reasoning") and all(
            part.is_text for part in self.parts.values()
        )


class ResponseEar(Ear):
    """Hears the items of a response."""

    __slots__ = ("_kept", "done", "is_ending", "number", "open", "response")

    event = _Event

    def __init__(self) -> None:
        super().__init__()
        self.is_ending = False
        self.number = 0
        """The sequence number of the latest event."""
        self.response = EMPTY
        """The response as it was announced."""
        self.open: dict[int, Item] = {}
        self.done: dict[int, bytes] = {}
        """Items that have ended, as they were when they did."""
        self._kept = 0

    @property
    def is_full(self) -> bool:
        return super().is_full or self._kept > MOST_KEPT

    @property
    def can_end(self) -> bool:
        return (
            not self.is_ending
            and self.response != EMPTY
            and all(item.is_text for item in self.open.values())
        )

    def hear(self, events: list[_Event]) -> None:
        for event in events:
            kind = event.type
            if kind in DELTAS:
                if event.delta:
                    self._kept += len(event.delta)
                    self._part(event, DELTAS[kind]).text.pieces.append(event.delta)
            else:
                self._hear_else(event)
        if events:
            self.number = events[-1].sequence_number

    def _hear_else(self, event: _Event) -> None:
        match event.type:
            case "response.created" | "response.in_progress":
                self.response = _object(event.response)
            case "response.output_item.added":
                self.open[event.output_index] = Item(_object(event.item))
            case "response.output_item.done":
                self.open.pop(event.output_index, None)
                self.done[event.output_index] = bytes(event.item)
                self._kept += len(event.item)
            case "response.content_part.added":
                self._part(event, OUTPUT).shape = _object(event.part)
            case "response.reasoning_summary_part.added":
                self._part(event, SUMMARY).shape = _object(event.part)
            case "response.content_part.done" | "response.reasoning_summary_part.done":
                self._close(event)
            case "":
                for key, said in _texts_of(event.output):
                    self.text(key).pieces.append(said)
            case kind if kind in _ENDS:
                self.is_ending = True

    def _part(self, event: _Event, kind: str) -> Part:
        item = self.open.get(event.output_index)
        if item is None:
            item = self.open[event.output_index] = Item(EMPTY)
        place = _place(event)
        part = item.parts.get(place)
        if part is None:
            text = self.texts[event.output_index, place] = GrowingText(keep=True)
            part = item.parts[place] = Part(text)
        part.kind = kind
        return part

    def _close(self, event: _Event) -> None:
        item = self.open.get(event.output_index)
        if item is not None:
            item.parts.pop(_place(event), None)
            item.done[_place(event)] = bytes(event.part)
            self._kept += len(event.part)


def _type_of(shape: bytes, other: str) -> str:
    return str(msgspec.json.decode(shape).get("type", other))


def _object(raw: msgspec.Raw) -> bytes:
    shape = bytes(raw)
    return shape if shape.startswith(b"{") else EMPTY


def _place(event: _Event) -> Place:
    if event.summary_index is not None:
        return Place("summary", event.summary_index)
    return Place("content", event.content_index or 0)


def _texts_of(items: list[_Item]) -> Iterator[tuple[tuple[int, Place], str]]:
    for index, item in enumerate(items):
        for field, parts in (("content", item.content), ("summary", item.summary)):
            for place, part in enumerate(parts or ()):
                yield (index, Place(field, place)), part.text or ""
