"""What the fake provider answers, and how the answer is interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from looptrap.testing.gate import Gate
from looptrap.testing.said import Tokens, ToolCall, event


@dataclass(frozen=True, slots=True)
class Turn:
    """The model speaks, in whatever dialect it was asked."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    tokens: Tokens | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """A status with a body: JSON, bytes as they are, or (None) the dialect's own error."""

    code: int
    body: object
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes for the socket, HTTP or not; then the connection is closed."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of server-sent events, written as they are."""

    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait at `gate` after so many chunks; with None, before the first byte of the head."""

    gate: Gate
    after_chunks: int | None


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the connection after so much of the body; with neither, before any byte."""

    after_chunks: int | None
    after_bytes: int | None

    @property
    def comes_first(self) -> bool:
        """Does it leave nothing at all to send?"""
        return self.after_chunks is None and self.after_bytes is None

    def leave(self, chunks: list[bytes]) -> list[bytes]:
        """Return what is still sent of `chunks`."""
        if self.after_chunks is not None:
            chunks = chunks[: self.after_chunks]
        if self.after_bytes is None:
            return chunks
        kept, room = [], self.after_bytes
        for chunk in chunks:
            kept.append(chunk[:room])
            room -= len(kept[-1])
        return list(filter(None, kept))


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the script; made by the functions below."""

    content: Turn | Status | Raw | Events
    pauses: tuple[Pause, ...] = ()
    cut: Cut | None = None

    @staticmethod
    def text(text: str = "All done.", *, tokens: Tokens | None = None) -> Reply:
        """Say something; tokens are counted by size unless given."""
        return Reply(Turn(text, (), tokens))

    @staticmethod
    def tool_call(
        name: str,
        arguments: Mapping[str, object],
        *,
        text: str = "",
        tokens: Tokens | None = None,
    ) -> Reply:
        """Ask for a tool; `text` is what the model says before."""
        return Reply(Turn(text, (ToolCall(name, arguments),), tokens))

    @staticmethod
    def status(code: int, body: object = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Answer with a status; without a body, with the dialect's own error."""
        return Reply(Status(code, body, headers or {}))

    @staticmethod
    def raw(data: bytes) -> Reply:
        """Write these bytes to the socket and close it."""
        return Reply(Raw(data))

    @staticmethod
    def sse(*steps: bytes | Mapping[str, object] | Gate) -> Reply:
        """Stream these events (JSON data, or bytes as they are); wait at each gate among them."""
        chunks: list[bytes] = []
        pauses: list[Pause] = []
        for step in steps:
            if isinstance(step, Gate):
                pauses.append(Pause(step, len(chunks)))
            else:
                chunks.append(step if isinstance(step, bytes) else event(step))
        return Reply(Events(tuple(chunks)), tuple(pauses))

    @staticmethod
    def pause(gate: Gate, reply: Reply | None = None, *, after_chunks: int | None = None) -> Reply:
        """Send `reply`, waiting at `gate`: before the head, or after so many chunks."""
        reply = reply or Reply.text()
        return replace(reply, pauses=(*reply.pauses, Pause(gate, after_chunks)))

    @staticmethod
    def hang(reply: Reply | None = None, *, after_chunks: int | None = None) -> Reply:
        """Stop sending for good, before the head or after so many chunks; keep the connection."""
        return Reply.pause(Gate(), reply, after_chunks=after_chunks)

    @staticmethod
    def drop(
        reply: Reply | None = None,
        *,
        after_chunks: int | None = None,
        after_bytes: int | None = None,
    ) -> Reply:
        """Close the connection before a byte, or after so much of the body (0: the head)."""
        return replace(reply or Reply.text(), cut=Cut(after_chunks, after_bytes))
