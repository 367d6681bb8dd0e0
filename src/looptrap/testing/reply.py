"""Replies of the fake provider, and their interruptions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from looptrap.dialect.content import encode
from looptrap.dialect.model import ToolCall
from looptrap.dialect.stream import EVENT_STREAM, sse_event

WAIT_TIMEOUT_S = 5.0
"""A test that waits longer has failed."""


class Signal:
    """An event that is set once; threads and loops can set it and wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._wakers: list[Callable[[], object]] = []

    @property
    def is_set(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()

    def set(self) -> None:
        """Set it, and wake all waiting threads and tasks."""
        with self._lock:
            self._event.set()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    async def wait(self, timeout: float | None = WAIT_TIMEOUT_S) -> None:
        """Return once it is set; raise TimeoutError after `timeout` seconds."""
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
        """Wait in a thread without a loop."""
        if not self._event.wait(timeout):
            raise TimeoutError(f"the signal was not set within {timeout} seconds")


class Gate:
    """Delays an answer from the moment it has `reached` the gate until the gate is opened."""

    def __init__(self) -> None:
        self.reached = Signal()
        self.opened = Signal()
        self.abandoned = Signal()
        """Set if the client left while its answer waited here."""

    def open(self) -> None:
        """Let the answer continue."""
        self.opened.set()

    async def passed(self) -> None:
        """Return when the gate is open; called by the provider."""
        self.reached.set()
        try:
            await self.opened.wait(timeout=None)
        except asyncio.CancelledError:
            self.abandoned.set()
            raise


@dataclass(frozen=True, slots=True)
class Tokens:
    """The usage of a call: `cached` is a part of `input`, `reasoning` of `output`."""

    input: int
    output: int
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A model's answer, in the dialect of the request."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    tokens: Tokens | None = None


@dataclass(frozen=True, slots=True)
class StatusReply:
    """A status with a body: JSON, bytes, or (None) the dialect's own error."""

    code: int
    body: object
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RenderedReply:
    """An answer ready for the wire; a stream has no length."""

    status: int
    headers: list[tuple[bytes, bytes]]
    chunks: list[bytes]
    streams: bool = False

    @classmethod
    def stream(cls, chunks: Iterable[bytes], content_type: bytes = EVENT_STREAM) -> RenderedReply:
        """Return a stream of these chunks."""
        headers = [(b"Content-Type", content_type), (b"Cache-Control", b"no-cache")]
        return cls(200, headers, list(chunks), streams=True)


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait at `gate` after that many chunks; with None, before the head."""

    gate: Gate
    after_chunks: int | None


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The end of a connection after a part of the body; with neither, before any byte."""

    after_chunks: int | None
    after_bytes: int | None

    @property
    def is_before_head(self) -> bool:
        """Whether nothing is sent."""
        return self.after_chunks is None and self.after_bytes is None

    def truncate(self, chunks: list[bytes]) -> list[bytes]:
        """Return the chunks that are sent before the connection closes."""
        chunks = chunks[: self.after_chunks]
        if self.after_bytes is None:
            return chunks
        sent, rest = [], self.after_bytes
        for chunk in chunks:
            sent.append(chunk[:rest])
            rest -= len(sent[-1])
        return list(filter(None, sent))


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the script, made by one of the functions below."""

    content: ModelTurn | StatusReply | RenderedReply | bytes
    """Bytes are for the socket, HTTP or not; then the connection closes."""
    pauses: tuple[Pause, ...] = ()
    cut: Disconnect | None = None

    @staticmethod
    def text(text: str = "All done.", *, tokens: Tokens | None = None) -> Reply:
        """Answer with a text; without `tokens`, usage is estimated from the size."""
        return Reply(ModelTurn(text, (), tokens))

    @staticmethod
    def tool_call(
        name: str, arguments: Mapping[str, object], *, text: str = "", tokens: Tokens | None = None
    ) -> Reply:
        """Call a tool, after a text if there is one."""
        call = ToolCall("", name, encode(arguments).decode())
        return Reply(ModelTurn(text, (call,), tokens))

    @staticmethod
    def status(code: int, body: object = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Answer with a status and a body; without a body, with the dialect's own error."""
        return Reply(StatusReply(code, body, headers or {}))

    @staticmethod
    def raw(data: bytes) -> Reply:
        """Write these bytes to the socket and close it."""
        return Reply(data)

    @staticmethod
    def sse(*steps: bytes | Mapping[str, object] | Gate) -> Reply:
        """Stream these events (JSON data, or bytes); wait at each gate among them."""
        chunks: list[bytes] = []
        pauses: list[Pause] = []
        for step in steps:
            if isinstance(step, Gate):
                pauses.append(Pause(step, len(chunks)))
            else:
                chunks.append(step if isinstance(step, bytes) else sse_event(step))
        return Reply(RenderedReply.stream(chunks), tuple(pauses))

    @staticmethod
    def pause(gate: Gate, reply: Reply | None = None, *, after_chunks: int | None = None) -> Reply:
        """Send `reply`, but wait at `gate` before the head, or after that many chunks."""
        reply = reply or Reply.text()
        return replace(reply, pauses=(*reply.pauses, Pause(gate, after_chunks)))

    @staticmethod
    def hang(reply: Reply | None = None, *, after_chunks: int | None = None) -> Reply:
        """Stop before the head, or after that many chunks; keep the connection open."""
        return Reply.pause(Gate(), reply, after_chunks=after_chunks)

    @staticmethod
    def drop(
        reply: Reply | None = None,
        *,
        after_chunks: int | None = None,
        after_bytes: int | None = None,
    ) -> Reply:
        """Close the connection before any byte, or after a part of the body (0: the head)."""
        return replace(reply or Reply.text(), cut=Disconnect(after_chunks, after_bytes))
