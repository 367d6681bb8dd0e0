"""Openings: how a conversation begins, which tells one from others where no session is named."""

from __future__ import annotations

from looptrap.call.model import Call

END = 100
"""Bytes from either end of a message that tell it from others, beside its length."""


def opening(call: Call) -> bytes:
    """Return what stays the same in all calls of one conversation; empty where there is none.

    That is the model and about the first two messages, or the one there is: this is asked of every
    call, so only the ends of them are looked at.
    """
    raws, model = call.raws, call.model.encode("utf-8", "surrogatepass")
    if not raws or call.read is None:
        return b""
    first = memoryview(raws[0])
    if len(raws) == 1:
        return b"".join((model, b" %d " % first.nbytes, first[:END], first[-END:]))
    second = memoryview(raws[1])
    sizes = b" %d %d " % (first.nbytes, second.nbytes)
    return b"".join((model, sizes, first[-END:], second[:END], second[-END:]))
