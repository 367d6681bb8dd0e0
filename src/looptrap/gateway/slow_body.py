"""Slow bodies: compressed ones are unpacked, for judging only; long ones are read in turn.

Pacer limits the loop's time for requests that take long to read.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

REST_RATIO = 3.0
"""Seconds of rest after each second of such work: all of it gets a quarter of the time."""

FREE_WORK_S = 0.001
"""Seconds of each job without rest: any request may take as long."""

MAX_WAITING_REQUESTS = 1_024
"""Requests that wait for their turn; one more is refused."""

Work = Callable[[], None]


class Pacer:
    """Does work at once if there was little of it lately, else later, callers in turn."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._queues: OrderedDict[str, deque[Work]] = OrderedDict()
        self._waiting = 0
        self._resting_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more requests may wait."""
        return self._waiting >= MAX_WAITING_REQUESTS

    def submit(self, caller: str, work: Work) -> None:
        """Do some work for a caller, now or in its turn; it must not raise."""
        if not self._waiting and self._clock() >= self._resting_until:
            self._do(work)
            return
        self._queues.setdefault(caller, deque()).append(work)
        self._waiting += 1
        self._start_timer()

    def finish(self) -> None:
        """Do all work that waits: the gateway is about to stop."""
        while self._waiting:
            self._do(self._next())

    def _start_timer(self) -> None:
        if self._timer is None and self._waiting:
            delay = max(0.0, self._resting_until - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._waiting:
            self._do(self._next())
            self._start_timer()

    def _next(self) -> Work:
        """Take the first job of the caller who has waited longest since its last one."""
        caller, queue = self._queues.popitem(last=False)
        work = queue.popleft()
        if queue:
            self._queues[caller] = queue
        self._waiting -= 1
        return work

    def _do(self, work: Work) -> None:
        began = self._clock()
        work()
        ended = self._clock()
        self._resting_until = ended + max(0.0, ended - began - FREE_WORK_S) * REST_RATIO


_WINDOW_BITS = {b"gzip": (31,), b"x-gzip": (31,), b"deflate": (15, -15)}
"""What zlib calls the formats of an encoding; deflate may lack its header."""
_GZIP_MAGIC = b"\x1f\x8b"

MAX_GZIP_MEMBERS = 64
"""Members of a gzip body that are unpacked: each member copies the rest of the body."""

MAX_INLINE_BYTES = 256 << 10
"""Unpacked bytes of a body that the loop unpacks, in less than a millisecond."""

MAX_INLINE_PACKED_BYTES = 16 << 10
"""Packed bytes of a body that the loop tries to unpack."""

MAX_WAITING_BODIES = 256
"""Bodies that wait for the thread; one more is refused."""


class TooLargeError(Exception):
    """A body unpacks to more bytes than are allowed."""


def decode_body(body: bytes, encoding: bytes, limit: int) -> bytes:
    """Return the body unpacked, or as it is where that is not possible.

    What a lenient provider reads is read: several members, deflate without its header, a body that
    is cut off or has trailing bytes. Unknown or stacked encodings stay as they are. Raises
    TooLargeError beyond `limit` bytes.
    """
    names = [one.strip().lower() for one in encoding.split(b",")]
    names = [name for name in names if name not in (b"", b"identity")]
    for bits in _WINDOW_BITS.get(names[0], ()) if len(names) == 1 else ():
        with suppress(zlib.error):
            return _inflate(body, bits, limit)
    return body


def _inflate(body: bytes, bits: int, limit: int) -> bytes:
    """Return what the members of a body unpack to; raises zlib.error if the first one does not."""
    pieces: list[bytes] = []
    size = 0
    for _ in range(MAX_GZIP_MEMBERS):
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
    """The memory that an unpacked body takes; freed when this object is deleted."""

    __slots__ = ("_size", "_unpacker")

    def __init__(self, unpacker: Unpacker, size: int) -> None:
        self._unpacker = unpacker
        self._size = size
        unpacker.held += size

    def __del__(self) -> None:
        self._unpacker.held -= self._size


class Unpacker:
    """Unpacks bodies, large ones in a thread, and counts the unpacked bytes that are in use."""

    def __init__(self) -> None:
        self.held = 0
        """Bytes of unpacked bodies whose calls are not over."""
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more bodies may wait for the thread."""
        return self._waiting >= MAX_WAITING_BODIES

    def hold(self, plain: bytes, max_bytes: int) -> Unpacked | None:
        """Count an unpacked body while it is in use; None where that exceeds `max_bytes`."""
        return Unpacked(self, len(plain)) if self.held + len(plain) <= max_bytes else None

    def unpack_now(self, body: bytes, encoding: bytes) -> bytes | None:
        """Return a small body unpacked; None for a larger one."""
        if len(body) > MAX_INLINE_PACKED_BYTES:
            return None
        try:
            return decode_body(body, encoding, MAX_INLINE_BYTES)
        except TooLargeError:
            return None

    def unpack_later(
        self, body: bytes, encoding: bytes, limit: int, then: Callable[[bytes], None]
    ) -> None:
        """Call `then` with a body unpacked in the thread; as it is where it is too large."""
        if self._threads is None:
            # One thread: then only one body is unpacked whose size is not counted yet.
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="looptrap-unpack")
        loop = asyncio.get_running_loop()
        self._waiting += 1

        def work() -> None:
            try:
                plain = decode_body(body, encoding, limit)
            except (TooLargeError, MemoryError):
                plain = body
            loop.call_soon_threadsafe(done, plain)

        def done(plain: bytes) -> None:
            self._waiting -= 1
            then(plain)

        self._threads.submit(work)

    def close(self) -> None:
        """End the thread."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
