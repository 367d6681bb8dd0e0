"""The beginning of an answer, held back until it is known whether it is a good one."""

from __future__ import annotations

import msgspec

from looptrap.answer.hearing.framing import Framing, Whole, framing_of
from looptrap.call.content import UNREADABLE
from looptrap.retry.classify import classify_answer, classify_event
from looptrap.retry.failure import Failure

MOST_HELD = 64 * 1024
"""Bytes of a failed answer that are read; one that is longer is judged by these."""

MOST_PEEKED = 256 * 1024
"""Bytes of a stream that are held back; OpenAI repeats all instructions in its first event."""

OPENINGS = frozenset(
    (
        "message_start",
        "ping",
        "response.created",
        "response.queued",
        "response.in_progress",
    )
)
"""Events that say nothing yet: a failure may still follow."""

Fields = list[tuple[bytes, bytes]]


class _Typed(msgspec.Struct, gc=False):
    type: str = ""


_decode_type = msgspec.json.Decoder(_Typed).decode


class Held:
    """One answer so far."""

    __slots__ = (
        "_framing",
        "chunks",
        "has_body",
        "headers",
        "is_whole",
        "length",
        "peeks",
        "reason",
        "size",
        "status",
    )

    def __init__(
        self,
        status: int,
        reason: bytes,
        headers: Fields,
        length: int | None,
        has_body: bool,
        *,
        peeks: bool,
    ) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.length = length
        self.has_body = has_body
        self.peeks = peeks
        """Whether its first events decide: it is a stream that began well."""
        self.chunks: list[bytes] = []
        self.size = 0
        self.is_whole = False
        self._framing: Framing | None = None

    @property
    def is_failed(self) -> bool:
        """Whether its status says that it is no answer."""
        return self.status >= 400

    def take(self, chunk: bytes) -> None:
        """Keep what has come."""
        self.chunks.append(chunk)
        self.size += len(chunk)

    def classified(self, now: float) -> Failure:
        """Return what a failed answer means; `now` is in seconds since 1970."""
        body = b"".join(self.chunks)
        failure = classify_answer(self.status, self.headers, body[:MOST_HELD], now)
        return failure or Failure("permanent", f"http_{self.status}")

    def look(self, chunk: bytes) -> Failure | bool:
        """Look at the next chunk of a stream: it failed, it is good (True), or neither yet."""
        framing = self._framing
        if framing is None:
            if not chunk.strip():
                return False
            framing = self._framing = framing_of(chunk)
        if isinstance(framing, Whole):
            return True
        for data in framing.feed(chunk):
            failure = classify_event(data)
            if failure is not None:
                return failure
            if not _is_opening(data):
                return True
        return self.size > MOST_PEEKED


def is_encoded(headers: Fields) -> bool:
    """Say whether a body is encoded, so that its events cannot be read."""
    return any(len(name) == 16 and name.lower() == b"content-encoding" for name, _ in headers)


def _is_opening(data: bytes) -> bool:
    try:
        return _decode_type(data).type in OPENINGS
    except UNREADABLE:
        return False
