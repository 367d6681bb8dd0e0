"""What the fake provider answers, and how the answer is interrupted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from looptrap.dialect.fake_answer import FakeToolCall, Tokens
from looptrap.dialect.stream import sse_event

WAIT_TIMEOUT_S = 5.0
"""Seconds after which a test that waits has failed."""


class Signal:
    """Happens once; can be set and waited for from any thread and any loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._wakers: list[Callable[[], object]] = []

    @property
    def is_set(self) -> bool:
        """Has it happened?"""
        return self._event.is_set()

    def set(self) -> None:
        """Let it happen; wake all who wait."""
        with self._lock:
            self._event.set()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    async def wait(self, timeout: float | None = WAIT_TIMEOUT_S) -> None:
        """Return once it has happened; raise TimeoutError after `timeout` seconds."""
        woken = asyncio.Event()
        wake = partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set)
        with self._lock:
            if self._event.is_set():
                return
            self._wakers.append(wake)
        try:
            await asyncio.wait_for(woken.wait(), timeout)
        finally:
            with self._lock:
                if wake in self._wakers:
                    self._wakers.remove(wake)

    def wait_blocking(self, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Do what `wait` does, where there is no loop."""
        if not self._event.wait(timeout):
            raise TimeoutError(f"nothing happened within {timeout} seconds")


class Gate:
    """Holds an answer back from the moment it is `reached` until it is opened."""

    def __init__(self) -> None:
        self.reached = Signal()
        self.opened = Signal()
        self.abandoned = Signal()
        """The client went away while its answer waited here."""

    def open(self) -> None:
        """Let the answer go on."""
        self.opened.set()

    async def passed(self) -> None:
        """Return when the gate is open; called where the answer is sent."""
        self.reached.set()
        try:
            await self.opened.wait(timeout=None)
        except asyncio.CancelledError:
            self.abandoned.set()
            raise


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """The model speaks, in whatever dialect it was asked."""

    text: str
    calls: tuple[FakeToolCall, ...] = ()
    tokens: Tokens | None = None


@dataclass(frozen=True, slots=True)
class StatusReply:
    """A status with a body: JSON, bytes as they are, or (None) the dialect's own error."""

    code: int
    body: object
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RawReply:
    """Bytes for the socket, HTTP or not; then the connection is closed."""

    data: bytes


@dataclass(frozen=True, slots=True)
class EventsReply:
    """A stream of server-sent events, written as they are."""

    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait at `gate` after that many chunks; with None, before the first byte of the head."""

    gate: Gate
    after_chunks: int | None


@dataclass(frozen=True, slots=True)
class Disconnect:
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

    content: ModelTurn | StatusReply | RawReply | EventsReply
    pauses: tuple[Pause, ...] = ()
    cut: Disconnect | None = None

    @staticmethod
    def text(text: str = "All done.", *, tokens: Tokens | None = None) -> Reply:
        """Say something; tokens are counted by size unless given."""
        return Reply(ModelTurn(text, (), tokens))

    @staticmethod
    def tool_call(
        name: str,
        arguments: Mapping[str, object],
        *,
        text: str = "",
        tokens: Tokens | None = None,
    ) -> Reply:
        """Ask for a tool; `text` is what the model says before."""
        return Reply(ModelTurn(text, (FakeToolCall(name, arguments),), tokens))

    @staticmethod
    def status(code: int, body: object = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Answer with a status; without a body, with the dialect's own error."""
        return Reply(StatusReply(code, body, headers or {}))

    @staticmethod
    def raw(data: bytes) -> Reply:
        """Write these bytes to the socket and close it."""
        return Reply(RawReply(data))

    @staticmethod
    def sse(*steps: bytes | Mapping[str, object] | Gate) -> Reply:
        """Stream these events (JSON data, or bytes as they are); wait at each gate among them."""
        chunks: list[bytes] = []
        pauses: list[Pause] = []
        for step in steps:
            if isinstance(step, Gate):
                pauses.append(Pause(step, len(chunks)))
            else:
                chunks.append(step if isinstance(step, bytes) else sse_event(step))
        return Reply(EventsReply(tuple(chunks)), tuple(pauses))

    @staticmethod
    def pause(gate: Gate, reply: Reply | None = None, *, after_chunks: int | None = None) -> Reply:
        """Send `reply`, waiting at `gate`: before the head, or after that many chunks."""
        reply = reply or Reply.text()
        return replace(reply, pauses=(*reply.pauses, Pause(gate, after_chunks)))

    @staticmethod
    def hang(reply: Reply | None = None, *, after_chunks: int | None = None) -> Reply:
        """Stop sending for good, before the head or after that many chunks; keep the connection."""
        return Reply.pause(Gate(), reply, after_chunks=after_chunks)

    @staticmethod
    def drop(
        reply: Reply | None = None,
        *,
        after_chunks: int | None = None,
        after_bytes: int | None = None,
    ) -> Reply:
        """Close the connection before a byte, or after so much of the body (0: the head)."""
        return replace(reply or Reply.text(), cut=Disconnect(after_chunks, after_bytes))
