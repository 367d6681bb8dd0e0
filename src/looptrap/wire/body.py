"""Request bodies in pieces, sized or chunked, parsed strictly and within limits."""

from __future__ import annotations

import re

from looptrap.wire.limits import ServerLimits
from looptrap.wire.refusal import RequestRefused, malformed_request

_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?", re.DOTALL)
_TRAILER_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*", re.DOTALL)
_MAX_CHUNK_LINE = 256
_SMALL_PIECE_BYTES = 4096  # a list of one-byte pieces would cost many times the bytes sent


def body_too_large(limit: int) -> RequestRefused:
    """Return the refusal of a body that exceeds `limit` bytes."""
    message = f"The request body is larger than {limit} bytes."
    return RequestRefused(413, "request_too_large", message)


def _trailers_too_large() -> RequestRefused:
    return RequestRefused(431, "headers_too_large", "The trailers of the body are too large.")


class SizedBody:
    """A body of exactly `length` bytes."""

    __slots__ = ("_missing", "_pieces", "size")

    def __init__(self, length: int) -> None:
        self._missing = length
        self._pieces: list[bytes | bytearray] = []
        self.size = 0

    def feed(self, data: bytes, at: int) -> int | None:
        """Consume body bytes; return how many bytes follow the body, None if it is incomplete."""
        left = len(data) - at - self._missing
        piece = data[at : at + self._missing]
        if len(piece) < _SMALL_PIECE_BYTES and self._pieces:
            self._add_small(piece)
        else:
            self._pieces.append(piece)
        self.size += len(piece)
        self._missing -= len(piece)
        return left if left >= 0 else None

    def content(self) -> bytes:
        """Return the whole body."""
        return b"".join(self._pieces)

    def _add_small(self, piece: bytes) -> None:
        """Append a small piece to one growing buffer."""
        last = self._pieces[-1]
        if isinstance(last, bytearray):
            last += piece
        else:
            self._pieces.append(bytearray(piece))


class ChunkedBody:
    """A chunked body; extensions and trailers are checked and dropped."""

    __slots__ = ("_content", "_limits", "_missing", "_partial", "_trailer_bytes")

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        # One growing buffer: a list of one-byte chunks would cost many times the bytes sent.
        self._content = bytearray()
        self._partial = b""
        self._missing = 0  # of the current chunk, with the line end after its data
        self._trailer_bytes = -1  # -1: the last chunk has not come yet

    @property
    def size(self) -> int:
        """Bytes held so far."""
        return len(self._content) + len(self._partial)

    def feed(self, data: bytes, at: int) -> int | None:
        """Consume body bytes; return how many bytes follow the body, None if it is incomplete."""
        if self._partial:
            data = self._partial + data[at:]
            at = 0
            self._partial = b""
        end = len(data)
        while True:
            if self._missing:
                at = self._take_data(data, at)
                if self._missing:
                    self._partial = data[at:]
                    return None
            line_end = data.find(b"\n", at)
            if line_end < 0:
                self._hold_line(data[at:end])
                return None
            line = data[at:line_end]
            at = line_end + 1
            if line[-1:] != b"\r":
                raise malformed_request("a line of the chunked body ends without CR")
            if self._trailer_bytes < 0:
                self._start_chunk(line[:-1])
            elif len(line) == 1:
                return end - at
            else:
                self._drop_trailer(line)

    def _take_data(self, data: bytes, at: int) -> int:
        """Copy the current chunk's data from `at` on; return where the rest starts."""
        content = min(self._missing - 2, len(data) - at)
        if content > 0:
            self._content += memoryview(data)[at : at + content]
            self._missing -= content
            at += content
        if self._missing == 2 and len(data) > at:
            line_end = data[at : at + 2]
            if not b"\r\n".startswith(line_end):
                raise malformed_request("the data of a chunk does not end where its size says")
            if len(line_end) == 2:
                self._missing = 0
                at += 2
        return at

    def _start_chunk(self, line: bytes) -> None:
        match = _CHUNK_LINE.fullmatch(line) if len(line) <= _MAX_CHUNK_LINE else None
        if match is None:
            raise malformed_request("invalid chunk size")
        size = int(match[1], 16)
        if size == 0:
            self._trailer_bytes = 0
        elif len(self._content) + size > self._limits.max_body:
            raise body_too_large(self._limits.max_body)
        else:
            self._missing = size + 2

    def _drop_trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line)
        if self._trailer_bytes > self._limits.max_head:
            raise _trailers_too_large()
        if _TRAILER_LINE.fullmatch(line[:-1]) is None:
            raise malformed_request("invalid trailer")

    def _hold_line(self, line: bytes) -> None:
        """Keep the start of a line whose end has not come yet."""
        if self._trailer_bytes < 0:
            if len(line) > _MAX_CHUNK_LINE + 1:
                raise malformed_request("invalid chunk size")
        elif self._trailer_bytes + len(line) > self._limits.max_head:
            raise _trailers_too_large()
        self._partial = line

    def content(self) -> bytes:
        """Return the whole body."""
        return bytes(self._content)
