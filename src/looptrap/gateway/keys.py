"""Gateway keys: `lt-<id>-<43 random characters>`, shown once, kept as digests."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from hmac import compare_digest

import msgspec

from looptrap.errors import ConfigError, Problem
from looptrap.gateway.state_file import GatewayKey, GatewayState, StateFile
from looptrap.policy.kind import NAME
from looptrap.schema.wording import found, quoted, suggestion

PREFIX = b"lt-"
"""How every gateway key begins, and no provider's credential does."""


def add(file: StateFile, name: str, *, project: str = "", now: datetime) -> tuple[GatewayKey, str]:
    """Make a key of that name and keep it in the file; return it with its text, shown only here."""
    check_name("NAME", name)
    if project:
        check_name("project", project)
    made: list[tuple[GatewayKey, str]] = []

    def change(state: GatewayState) -> GatewayState:
        made.append(new_key(name, state.keys, project=project, now=now))
        return msgspec.structs.replace(state, keys=(*state.keys, made[-1][0]))

    file.update(change)
    return made[-1]


def revoke(file: StateFile, name: str, *, now: datetime) -> GatewayKey:
    """Refuse that key from now on; it stays in the file, so that its holder is told why."""
    check_name("NAME", name)
    if file.read() is None:
        raise ConfigError(f"there is no key named {quoted(name)}: {file.path} does not exist")
    revoked: list[GatewayKey] = []

    def change(state: GatewayState) -> GatewayState:
        keys, one = with_key_revoked(state.keys, name, now)
        revoked.append(one)
        return msgspec.structs.replace(state, keys=keys)

    file.update(change)
    return revoked[-1]


def new_key(
    name: str, keys: Sequence[GatewayKey], *, project: str, now: datetime
) -> tuple[GatewayKey, str]:
    """Make a key beside others, and its text; its name must be free among those in force."""
    if any(key.name == name and key.revoked is None for key in keys):
        raise ConfigError(f"there is a key named {quoted(name)} already: revoke it first")
    taken = {key.id for key in keys}
    key_id = next(one for one in iter(lambda: secrets.token_hex(4), "") if one not in taken)
    text = f"lt-{key_id}-{secrets.token_urlsafe(32)}"
    digest = _digest(text.encode()).hex()
    return GatewayKey(name=name, id=key_id, digest=digest, project=project, created=now), text


def with_key_revoked(
    keys: Sequence[GatewayKey], name: str, now: datetime
) -> tuple[tuple[GatewayKey, ...], GatewayKey]:
    """Return the keys with the one of that name revoked, and that one."""
    place = next((i for i, key in enumerate(keys) if key.name == name and not key.revoked), None)
    if place is None:
        raise _no_active_key_error(name, keys)
    revoked = msgspec.structs.replace(keys[place], revoked=now)
    return (*keys[:place], revoked, *keys[place + 1 :]), revoked


class KeyRing:
    """The keys a gateway knows, looked up by id: those of its file and those of a shared store.

    Once a key was there, keys stay required: revoking the last one, or losing the file, must not
    open the gateway to everybody.
    """

    def __init__(self, file: StateFile | None = None) -> None:
        self._file = file
        self._own: tuple[GatewayKey, ...] = ()
        self._shared: tuple[GatewayKey, ...] = ()
        self._by_id: dict[bytes, tuple[bytes, GatewayKey]] = {}
        self._stamp, state = file.read_stamped() if file is not None else (None, None)
        self.generation = 0
        """Raised with every change: what was concluded from the keys before is void."""
        self.has_keys = False
        self.replace(state.keys if state is not None else ())

    def refresh(self) -> bool:
        """Read the file again if it changed, and say whether it did.

        A file gone or damaged is an error, raised once; the keys known before stay in force.
        """
        if self._file is None or (stamp := self._file.stamp()) == self._stamp:
            return False
        self._stamp = stamp
        self._stamp, state = self._file.read_stamped()
        if state is None:
            message = "is gone; the keys read before stay in force"
            raise ConfigError([Problem(str(self._file.path), message)])
        self.replace(state.keys)
        return True

    def replace(self, keys: Iterable[GatewayKey]) -> None:
        """Know these keys and, beside the shared ones, no others."""
        self._own = tuple(keys)
        self._sort()

    def share(self, keys: Iterable[GatewayKey]) -> None:
        """Know these keys of a shared store beside those of the file."""
        self._shared = tuple(keys)
        self._sort()

    def require(self) -> None:
        """Ask everybody for a key, also while none is known."""
        self.has_keys = True
        self.generation += 1

    def _sort(self) -> None:
        self._by_id = {}
        # The revoked last: what is revoked in one place is revoked.
        for key in sorted((*self._own, *self._shared), key=lambda key: key.revoked is not None):
            self._by_id[key.id.encode()] = bytes.fromhex(key.digest), key
        self.has_keys = self.has_keys or bool(self._by_id)
        self.generation += 1

    @property
    def keys(self) -> list[GatewayKey]:
        """All that are known, revoked ones too, by name and age."""
        every = [key for _, key in self._by_id.values()]
        return sorted(every, key=lambda key: (key.name, key.created))

    def find(self, text: bytes) -> GatewayKey | None:
        """Return the key, revoked or not, whose text this is; None for any other text."""
        key_id = text[len(PREFIX) :].partition(b"-")[0]
        known, key = self._by_id.get(key_id, _NO_KEY)
        # An unknown id costs the same digest and comparison as a wrong secret.
        return key if compare_digest(_digest(text), known) else None


_NO_KEY: tuple[bytes, GatewayKey | None] = (bytes(32), None)


def _digest(text: bytes) -> bytes:
    # Unkeyed: 256 random bits cannot be guessed, and keys outlive a change of the digest secret.
    return blake2b(text, digest_size=32, person=b"looptrap-key").digest()


def check_name(place: str, name: str) -> None:
    """Refuse what is no name of a key or project."""
    if name.startswith("lt-"):
        # Perhaps a key pasted by mistake: not repeated.
        raise ConfigError([Problem(place, "begins with lt-, as only keys themselves do")])
    if not re.fullmatch(NAME.pattern, name):
        raise ConfigError([Problem(place, f"is {found(name)}, must be {NAME.form}")])


def _no_active_key_error(name: str, keys: Iterable[GatewayKey]) -> ConfigError:
    revoked = [key.revoked for key in keys if key.name == name and key.revoked is not None]
    if revoked:
        return ConfigError(f"key {quoted(name)} was revoked on {max(revoked):%Y-%m-%d} already")
    names = [key.name for key in keys if key.revoked is None]
    return ConfigError(f"there is no key named {quoted(name)}{suggestion(name, names)}")
