"""Fingerprints: versioned keyed digests of who sends what, under which rule's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter

from looptrap.detect.canonical import join
from looptrap.dialect.descriptor import ATTRIBUTES, descriptor
from looptrap.dialect.model import Call

VERSION = 1
"""Raised when a store must not mix old keys with new ones: that resets all counts and budgets. A
change that merely makes some prompts equal that were not before does not raise it."""


def fingerprint_text(key: bytes, is_history: bool = False) -> str:
    """Return a store key as people see it: in refusals, logs and releases."""
    return f"{VERSION}{'h' if is_history else ''}-{key.hex()}"


def is_history_fingerprint(fingerprint: str) -> bool:
    """Say whether a fingerprint is that of a history, which no other history shares."""
    return fingerprint.partition("-")[0].endswith("h")


def fingerprint_key(fingerprint: str) -> tuple[bytes, bool]:
    """Return the store key that a fingerprint names, and whether that of a history."""
    version, _, digest = fingerprint.partition("-")
    if version not in (f"{VERSION}", f"{VERSION}h") or len(digest) != 32:
        raise ValueError(f"{fingerprint!r} is not a fingerprint of version {VERSION}")
    return bytes.fromhex(digest), version.endswith("h")


class Fingerprint:
    """A keyed digest of a rule's name, of whom it counts for, and of what must be equal."""

    __slots__ = ("_by", "_named")

    def __init__(self, secret: bytes, name: Sequence[str], by: Sequence[str]) -> None:
        self._named = blake2b(
            join(name),
            digest_size=14,
            key=secret[:64],
            person=b"looptrap-%d" % VERSION,
        )
        self._by = _reader(_scoped(by))

    def key(self, call: Call, content: bytes) -> bytes:
        """Return the key under which a store counts calls equal to this one.

        It begins with two bytes that all keys of a call share: a store that is spread over several
        places keeps them together, and finds a key's place by the key alone.
        """
        keyed = self._named.copy()
        keyed.update(b"\xfe%b\xfe%b" % (join(self._by(call)), content))
        return _place(call.request.project or call.request.caller) + keyed.digest()


# The bound keeps callers that come and go from filling the memory.
@lru_cache(maxsize=4096)
def _place(payer: str) -> bytes:
    return blake2b(payer.encode("utf-8", "surrogatepass"), digest_size=2).digest()


def _scoped(by: Sequence[str]) -> Sequence[str]:
    """Keep callers apart, whatever clients claim, unless a rule counts a project as one."""
    return by if "caller" in by or "project" in by else ("caller", *by)


def _reader(by: Sequence[str]) -> Callable[[Call], Sequence[str]]:
    """Return what reads all of these from a call: attributes, which most are, in one go."""
    if len(by) > 1 and "project" not in by and all(one in ATTRIBUTES for one in by):
        return attrgetter(*(ATTRIBUTES[one] for one in by))
    each = [descriptor(one) if one != "project" else payer for one in by]
    return lambda call: [read(call) for read in each]


def payer(call: Call) -> str:
    """Return the project; a caller without one is a project of its own."""
    request = call.request
    return f"project {request.project}" if request.project else f"caller {request.caller}"


DERIVED = "~"
"""How the name of a session begins that no client gave."""

END = 100
"""Bytes from either end of a message that tell it from others, beside its length."""


def conversation_opening(call: Call) -> bytes:
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


def derived_session_of(call: Call, secret: bytes) -> str:
    """Return a name for the session of a call whose client gave none; empty where none is told."""
    begin = conversation_opening(call)
    return derived_session(begin, secret) if begin else ""


def derived_session(begin: bytes, secret: bytes) -> str:
    """Return the name of the session that begins so."""
    return DERIVED + blake2b(begin, digest_size=8, key=secret[:64]).hexdigest()
