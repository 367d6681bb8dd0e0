"""The end of a stream that its provider left unfinished: an error, in the dialect's form."""

from __future__ import annotations

from looptrap.answer.cut import WRITERS
from looptrap.answer.hearing.hearing import EARS
from looptrap.call.model import Dialect

_DONE = b"[DONE]"
_LAST = tuple(
    b'{"type":"%b"' % name
    for name in (b"message_stop", b"response.completed", b"response.incomplete", b"error")
)
_BLANK_LINES = (b"\n\n", b"\r\n\r\n")


def is_over(latest: bytes) -> bool:
    """Say whether the event that a chunk ends with is the last of its stream."""
    if not latest.endswith(_BLANK_LINES):
        return False
    data = latest.rpartition(b"data:")[2].strip()
    return data == _DONE or data.replace(b" ", b"")[:40].startswith(_LAST)


def error_end(dialect: Dialect, latest: bytes, body: bytes) -> bytes | None:
    """Return what tells of an error after the latest chunk, from the body of a failure.

    None where an event is under way, which nothing could take back, or there are none.
    """
    writer = WRITERS.get(dialect)
    if writer is None or (latest and not latest.endswith(_BLANK_LINES)):
        return None
    return writer.failed(EARS[dialect](), body)
