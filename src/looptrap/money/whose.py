"""Whose account a call is charged to: a keyed digest of a name and of descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from looptrap.call.descriptor import Descriptor, descriptor
from looptrap.call.model import LONGEST_NAME, Call
from looptrap.detect.canonical import join
from looptrap.detect.fingerprint import VERSION, payer
from looptrap.detect.opening import session_name

NEEDED = frozenset(("turn",))
"""Descriptors without which there is nobody to charge."""

CLAIM = "jwt:"
"""How descriptors begin for which somebody vouches."""


def kept_apart(by: Sequence[str]) -> tuple[str, ...]:
    """Return the descriptors that tell accounts apart, the caller's among them where it must be.

    Callers are kept apart, whatever clients claim, unless a project is counted as one, or claims
    that somebody vouches for say whose account it is.
    """
    is_apart = "caller" in by or "project" in by or any(one.startswith(CLAIM) for one in by)
    return tuple(by) if is_apart else ("caller", *by)


class Whose:
    """Tells the accounts of one budget or rate apart."""

    __slots__ = ("_by", "_claims", "_named", "_needed", "_secret", "names")

    def __init__(self, secret: bytes, name: Sequence[str], by: Sequence[str]) -> None:
        self._secret = secret[:64]
        self.names = kept_apart(by)
        """The descriptors, in the order of their values."""
        self._claims = [i for i, one in enumerate(self.names) if one.startswith(CLAIM)]
        self._by = tuple(self._descriptor(one) for one in self.names)
        self._needed = [i for i, one in enumerate(self.names) if one in NEEDED]
        self._named = blake2b(
            join(name), digest_size=16, key=self._secret, person=b"looptrap-$%d" % VERSION
        )

    def values(self, call: Call) -> list[str] | None:
        """Return the values of all descriptors; None where there is nobody to charge."""
        values = [by(call) for by in self._by]
        for i in self._needed:
            if not values[i]:
                return None
        if self._claims and not any(values[i] for i in self._claims):
            # Claims that are not there vouch for nobody.
            values.append(call.request.caller)
        return values

    def named(self, values: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Return values with their descriptors; one that is over is the caller's."""
        told = [value[:LONGEST_NAME] for value in values]
        return tuple(zip((*self.names, "caller"), told, strict=False))

    def key(self, values: Sequence[str]) -> bytes:
        """Return the key of the account with these values."""
        keyed = self._named.copy()
        keyed.update(join(values))
        return keyed.digest()

    def _descriptor(self, name: str) -> Descriptor:
        if name == "project":
            return payer
        if name == "session":
            return lambda call: call.request.session or session_name(call, self._secret)
        return descriptor(name)
