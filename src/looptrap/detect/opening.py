"""Openings: how a conversation begins, which tells one from others where no session is named."""

from __future__ import annotations

from hashlib import blake2b

from looptrap.call.model import Call

DERIVED = "~"
"""How the name of a session begins that no client gave."""

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


def session_name(call: Call, secret: bytes) -> str:
    """Return a name for the session of a call whose client gave none; empty where none is told."""
    begin = opening(call)
    return derived(begin, secret) if begin else ""


def derived(begin: bytes, secret: bytes) -> str:
    """Return the name of the session that begins so."""
    return DERIVED + blake2b(begin, digest_size=8, key=secret[:64]).hexdigest()
