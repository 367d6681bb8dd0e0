"""What is heard of one answer, and what an ear of each dialect has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar

import msgspec

from looptrap.answer.hearing.text import GrowingText
from looptrap.call.content import UNREADABLE

MOST_TEXTS = 1_000
"""Texts that are heard of one answer."""


class Ear(ABC):
    """Takes the events of one answer; remembers its texts and what it takes to end it."""

    __slots__ = ("latest", "texts")

    event: ClassVar[type[msgspec.Struct]]
    """What is decoded of each event, and of a whole answer: nothing that is not needed."""
    _one: ClassVar[msgspec.json.Decoder[Any]]
    _many: ClassVar[msgspec.json.Decoder[Any]]

    def __init_subclass__(cls) -> None:
        cls._one = msgspec.json.Decoder(cls.event)
        cls._many = msgspec.json.Decoder(list[cls.event])  # type: ignore[name-defined]

    def __init__(self) -> None:
        self.texts: dict[Hashable, GrowingText] = {}
        """By the choice or block that they belong to; thoughts apart from what is said."""
        self.latest = b""
        """The latest event that could be read."""

    @property
    def tokens(self) -> int:
        """How many tokens were read, about."""
        return sum(text.size for text in self.texts.values()) // 4

    @property
    def is_full(self) -> bool:
        """Whether more was heard than is kept of an answer that does not end."""
        return len(self.texts) > MOST_TEXTS

    @property
    @abstractmethod
    def can_end(self) -> bool:
        """Whether the answer goes on, and can be ended here with nothing left half done."""

    @abstractmethod
    def hear(self, events: list[Any]) -> None:
        """Take in events."""

    def take(self, data: list[bytes]) -> None:
        """Take in the JSON of events; what is none, or unlike, is passed over."""
        # All in one go costs half as much as one after the other.
        try:
            events = self._many.decode(b"[%b]" % b",".join(data))
        except UNREADABLE:
            events = [event for one in data if (event := self._readable(one)) is not None]
        else:
            self.latest = data[-1] if data else self.latest
        self.hear(events)

    def text(self, key: Hashable) -> GrowingText:
        """Return the text of that name, which begins where there was none."""
        text = self.texts.get(key)
        if text is None:
            text = self.texts[key] = GrowingText()
        return text

    def _readable(self, data: bytes) -> Any:
        try:
            event = self._one.decode(data)
        except UNREADABLE:
            return None
        self.latest = data
        return event
