"""Fingerprints: versioned keyed digests of caller, content and rule name."""

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
    """Return whether a fingerprint is that of a history, which no other history shares."""
    return fingerprint.partition("-")[0].endswith("h")


def fingerprint_key(fingerprint: str) -> tuple[bytes, bool]:
    """Return the store key that a fingerprint names, and whether that of a history."""
    version, _, digest = fingerprint.partition("-")
    if version not in (f"{VERSION}", f"{VERSION}h") or len(digest) != 32:
        raise ValueError(f"{fingerprint!r} is not a fingerprint of version {VERSION}")
    return bytes.fromhex(digest), version.endswith("h")


class Fingerprint:
    """A keyed digest of a rule's name, the descriptors it counts by, and the equal content."""

    __slots__ = ("_by", "_named")

    def __init__(self, secret: bytes, name: Sequence[str], by: Sequence[str]) -> None:
        self._named = blake2b(
            join(name), digest_size=14, key=secret[:64], person=b"looptrap-%d" % VERSION
        )
        self._by = _reader(_scoped(by))

    def key(self, call: Call, content: bytes) -> bytes:
        """Return the key under which a store counts calls equal to this one.

        It begins with two bytes that all keys of a call share: a sharded store keeps them together
        and finds the shard by the key alone.
        """
        keyed = self._named.copy()
        keyed.update(b"".join((b"\xfe", join(self._by(call)), b"\xfe", content)))
        return place_of(call) + keyed.digest()

    def keys(self, call: Call, begin: bytes, one: bytes, other: bytes) -> tuple[bytes, bytes]:
        """Return the keys of two contents that begin alike, and so are digested once up to there.

        They are those of `key`, of `begin + one` and of `begin + other`.
        """
        keyed = self._named.copy()
        keyed.update(b"".join((b"\xfe", join(self._by(call)), b"\xfe", begin)))
        second = keyed.copy()
        keyed.update(one)
        second.update(other)
        place = place_of(call)
        return place + keyed.digest(), place + second.digest()


def place_of(call: Call) -> bytes:
    """Return the two bytes with which all keys of a call begin."""
    return _place(call.request.project or call.request.caller)


# The bound keeps callers that come and go from filling the memory.
@lru_cache(maxsize=4096)
def _place(payer: str) -> bytes:
    return blake2b(payer.encode("utf-8", "surrogatepass"), digest_size=2).digest()


def _scoped(by: Sequence[str]) -> Sequence[str]:
    """Add the caller, whatever clients claim, unless a rule counts a whole project."""
    return by if "caller" in by or "project" in by else ("caller", *by)


def _reader(by: Sequence[str]) -> Callable[[Call], Sequence[str]]:
    """Return a function that reads all of these from a call: plain attributes in one step."""
    if len(by) > 1 and "project" not in by and all(name in ATTRIBUTES for name in by):
        return attrgetter(*(ATTRIBUTES[name] for name in by))
    readers = [descriptor(name) if name != "project" else payer for name in by]
    return lambda call: [read(call) for read in readers]


def payer(call: Call) -> str:
    """Return the project; a caller without one is a project of its own."""
    request = call.request
    return f"project {request.project}" if request.project else f"caller {request.caller}"


DERIVED = "~"
"""Prefix of a session name that no client gave."""

END = 100
"""Bytes from either end of a message that identify it, beside its length."""


def conversation_opening(call: Call) -> bytes:
    """Return what stays the same in all calls of one conversation; empty where there is none.

    That is the model and the first one or two messages. It is computed for every call, so only the
    ends of the messages are read.
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
    """Return a session name for a call whose client gave none; empty without a conversation."""
    begin = conversation_opening(call)
    return derived_session(begin, secret) if begin else ""


def derived_session(begin: bytes, secret: bytes) -> str:
    """Return the name of the session with this opening."""
    return DERIVED + blake2b(begin, digest_size=8, key=secret[:64]).hexdigest()
