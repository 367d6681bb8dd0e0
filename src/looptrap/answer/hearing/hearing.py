"""The hearing of one answer: chunks are kept as they pass, and read a few KB at a time."""

from __future__ import annotations

from looptrap.answer.hearing.anthropic import MessageEar
from looptrap.answer.hearing.ear import Ear
from looptrap.answer.hearing.framing import Elements, Framing, framing_of
from looptrap.answer.hearing.gemini import CandidateEar
from looptrap.answer.hearing.openai_chat import ChatEar
from looptrap.answer.hearing.openai_responses import ResponseEar
from looptrap.call.model import Dialect

SHORT = 16 * 1024
"""A stream of fewer bytes is not read at all: it is over before a cut would have saved anything."""

READ = 4 * 1024
"""From then on, so many bytes are kept before they are read."""

LOOK = 1024
"""So many characters a text must have grown to be looked at again."""

MOST = 4 * 1024 * 1024
"""An answer in one piece, or an event, that is larger than this is not heard."""

EARS: dict[Dialect, type[Ear]] = {
    "openai_chat": ChatEar,
    "openai_completions": ChatEar,
    "openai_responses": ResponseEar,
    "anthropic": MessageEar,
    "gemini": CandidateEar,
}


class Hearing:
    """Reads one answer while it passes."""

    __slots__ = ("_framing", "_held", "_room", "_stream", "ear", "is_lost")

    def __init__(self, ear: Ear, stream: bool) -> None:
        self._framing: Framing | None = None
        self._held: list[bytes] = []
        self._room = SHORT
        self._stream = stream
        self.ear = ear
        self.is_lost = False
        """Whether more came than is kept: nothing more is heard."""

    def feed(self, chunk: bytes) -> bool:
        """Take note of the next chunk; say whether it is time to read."""
        self._held.append(chunk)
        self._room -= len(chunk)
        return self._room <= 0

    def read(self) -> list[str]:
        """Read what was kept; return the texts that have grown enough for a look."""
        data = b"".join(self._held)
        self._held = []
        framing = self._framing
        if framing is None:
            framing = self._framing = framing_of(data)
        self.ear.take(framing.feed(data))
        # A large event is searched for its end as often as it doubles, not every few KB.
        self._room = max(READ, len(framing.rest))
        self.is_lost = self._room > MOST or self.ear.is_full
        return [text.look() for text in self.ear.texts.values() if text.grow() >= LOOK]

    def finish(self) -> list[str]:
        """Read the rest; return the texts with something new in them."""
        if self._stream and self._framing is None:
            return []
        heard = self.read()
        if self._framing is not None:
            self.ear.take(self._framing.finish())
        return heard + [text.look() for text in self.ear.texts.values() if text.grow()]

    @property
    def is_between_events(self) -> bool:
        """Whether all that has passed are complete events: asked after reading."""
        return self._framing is not None and self._framing.end_in(b"") == 0

    def take_event(self, chunk: bytes) -> int | None:
        """Read the next chunk up to where the event under way ends; None when it goes on."""
        if self._framing is None:
            return None
        end = self._framing.end_in(chunk)
        self.ear.take(self._framing.feed(chunk[:end]))
        return end

    @property
    def array_opening(self) -> bytes | None:
        """What must precede another element of an array; None where there is no array."""
        if not isinstance(self._framing, Elements):
            return None
        return b"" if self._framing.rest.strip() else b",\n"


def hearing_of(dialect: Dialect, stream: bool) -> Hearing | None:
    """Return what hears an answer of a dialect; None where it has nothing to say."""
    ear = EARS.get(dialect)
    return Hearing(ear(), stream) if ear is not None else None
