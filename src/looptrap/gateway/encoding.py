"""Packed request bodies: unpacked for judging only, never for forwarding."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
_RAW_DEFLATE = -15
_GZIP_MAGIC = b"\x1f\x8b"

MOST_MEMBERS = 64
"""Members of a gzip body that are unpacked: each one more copies the rest of the body."""

AT_ONCE = 256 << 10
"""Bytes that are unpacked on the loop, which takes less than a millisecond; more go to a thread."""

SMALL = 16 << 10
"""Packed bytes beyond which a body goes to the thread without a try."""

MOST_WAITING = 256
"""Bodies that wait for the thread; one more is refused."""


class TooLargeError(Exception):
    """A body unpacks to more bytes than there may be."""


def decoded(body: bytes, encoding: bytes, limit: int) -> bytes:
    """Return the body unpacked, or as it is where that cannot be had.

    What a lenient provider reads is read: several members, deflate without its header, a body that
    is cut off or has something behind its end. Unknown or stacked encodings stay as they are.
    Raises TooLargeError beyond `limit` bytes.
    """
    names = [
        name for one in encoding.split(b",") if (name := one.strip()) not in (b"", b"identity")
    ]
    bits = _WINDOW_BITS.get(names[0].lower()) if len(names) == 1 else None
    if bits is None:
        return body
    try:
        return _inflated(body, bits, limit)
    except zlib.error:
        if bits != _WINDOW_BITS[b"deflate"]:
            return body
    try:
        return _inflated(body, _RAW_DEFLATE, limit)
    except zlib.error:
        return body


def _inflated(body: bytes, bits: int, limit: int) -> bytes:
    """Return what the members of a body unpack to; raises zlib.error if the first one does not."""
    pieces: list[bytes] = []
    size = 0
    for _ in range(MOST_MEMBERS):
        decoder = zlib.decompressobj(bits)
        try:
            piece = decoder.decompress(body, limit - size + 1)
        except zlib.error:
            if not pieces:
                raise
            break
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise TooLargeError
        body = decoder.unused_data
        if not body.startswith(_GZIP_MAGIC):
            break
    return b"".join(pieces) if len(pieces) > 1 else pieces[0]


class Unpacked:
    """The room that an unpacked body takes, which is free again when this object is gone."""

    __slots__ = ("_size", "_unpacker")

    def __init__(self, unpacker: Unpacker, size: int) -> None:
        self._unpacker = unpacker
        self._size = size
        unpacker.held += size

    def __del__(self) -> None:
        self._unpacker.held -= self._size


class Unpacker:
    """Unpacks bodies, large ones in a thread, and counts what is unpacked and still in use."""

    def __init__(self) -> None:
        self.held = 0
        """Bytes of unpacked bodies whose calls are not over."""
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None

    @property
    def is_full(self) -> bool:
        """Whether so many bodies wait for the thread that no more may."""
        return self._waiting >= MOST_WAITING

    def hold(self, plain: bytes, room: int) -> Unpacked | None:
        """Count an unpacked body for as long as it is in use; None where there is no room."""
        return Unpacked(self, len(plain)) if self.held + len(plain) <= room else None

    def at_once(self, body: bytes, encoding: bytes) -> bytes | None:
        """Return a body unpacked; None where that may take long."""
        if len(body) > SMALL:
            return None
        try:
            return decoded(body, encoding, AT_ONCE)
        except TooLargeError:
            return None

    def later(
        self, body: bytes, encoding: bytes, limit: int, then: Callable[[bytes], None]
    ) -> None:
        """Unpack a body in the thread and hand it on, as it is where it unpacks to too much."""
        if self._threads is None:
            # One thread: one body at a time is unpacked whose size is not counted yet.
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="looptrap-unpack")
        loop = asyncio.get_running_loop()
        self._waiting += 1

        def work() -> None:
            try:
                plain = decoded(body, encoding, limit)
            except (TooLargeError, MemoryError):
                plain = body
            loop.call_soon_threadsafe(done, plain)

        def done(plain: bytes) -> None:
            self._waiting -= 1
            then(plain)

        self._threads.submit(work)

    def close(self) -> None:
        """Let the thread end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
