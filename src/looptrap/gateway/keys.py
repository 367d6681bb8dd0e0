"""Gateway keys: `lt-<id>-<43 random characters>`, shown once, stored as digests."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from hmac import compare_digest
from math import inf
from typing import TypeVar

import msgspec

from looptrap.errors import ConfigError, Problem
from looptrap.gateway.state_file import GatewayKey, GatewayState, StateFile
from looptrap.policy.kind import NAME
from looptrap.schema.wording import found, quoted, suggestion

PREFIX = b"lt-"
"""The prefix of every gateway key, and of no provider's credential."""

T = TypeVar("T")
KeyTuple = tuple[GatewayKey, ...]
NewKey = tuple[GatewayKey, str]
"""A key that was made, and its text, which is not stored."""
KeyChange = Callable[[KeyTuple], tuple[KeyTuple, T]]
"""From all keys, returns all keys after a change, and its result."""


def add(file: StateFile, name: str, *, project: str = "", now: datetime) -> NewKey:
    """Make a key and keep it in the file; return it with its text, which is shown only here."""
    return _change(file, lambda keys: with_key_added(keys, name, project, now))


def revoke(file: StateFile, name: str, *, now: datetime) -> GatewayKey:
    """Refuse a key from now on; it stays in the file, so that its holder learns why."""
    _check_file(file, name)
    return _change(file, lambda keys: with_key_revoked(keys, name, now))


def rotate(file: StateFile, name: str, *, grace: float = 0.0, now: datetime) -> NewKey:
    """Replace a key by another of its name; the earlier one is valid for `grace` more seconds."""
    _check_file(file, name)
    return _change(file, lambda keys: with_key_rotated(keys, name, grace, now))


def _check_file(file: StateFile, name: str) -> None:
    check_name("NAME", name)
    if file.read() is None:
        raise ConfigError(f"there is no key named {quoted(name)}: {file.path} does not exist")


def _change(file: StateFile, change: KeyChange[T]) -> T:
    results: list[T] = []

    def update(state: GatewayState) -> GatewayState:
        keys, result = change(state.keys)
        results.append(result)
        return msgspec.structs.replace(state, keys=keys)

    file.update(update)
    return results[-1]


class FileKeyStore:
    """Keys in a state file.

    A ConfigError says what is wrong; with a shared store, an OSError says that it is down.
    """

    def __init__(self, file: StateFile) -> None:
        self._file = file

    async def add(self, name: str, project: str = "") -> NewKey:
        """Make a key."""
        return await asyncio.to_thread(add, self._file, name, project=project, now=_now())

    async def rotate(self, name: str, grace: float = 0.0) -> NewKey:
        """Replace a key by another of its name; the earlier one stays valid for `grace` seconds."""
        return await asyncio.to_thread(rotate, self._file, name, grace=grace, now=_now())

    async def revoke(self, name: str) -> GatewayKey:
        """Refuse a key from now on."""
        return await asyncio.to_thread(revoke, self._file, name, now=_now())

    async def list_keys(self) -> KeyTuple:
        """Return all keys."""
        state = await asyncio.to_thread(self._file.read)
        return state.keys if state is not None else ()


def _now() -> datetime:
    return datetime.now(UTC)


def with_key_added(
    keys: KeyTuple, name: str, project: str, now: datetime
) -> tuple[KeyTuple, NewKey]:
    """Return the keys with a new one, and that one with its text; its name must not be in use."""
    check_name("NAME", name)
    if project:
        check_name("project", project)
    if any(key.name == name and key.revoked is None for key in keys):
        raise ConfigError(
            f"there is a key named {quoted(name)} already: revoke it first, or rotate it"
        )
    taken = {key.id for key in keys}
    key_id = next(one for one in iter(lambda: secrets.token_hex(4), "") if one not in taken)
    text = f"lt-{key_id}-{secrets.token_urlsafe(32)}"
    digest = _digest(text.encode()).hex()
    key = GatewayKey(name=name, id=key_id, digest=digest, project=project, created=now)
    return (*keys, key), (key, text)


def with_key_revoked(keys: KeyTuple, name: str, now: datetime) -> tuple[KeyTuple, GatewayKey]:
    """Return the keys with those of that name revoked, and the latest of these."""
    if not any(key.name == name and not is_revoked(key, now) for key in keys):
        raise _no_active_key_error(name, keys)
    revoked = _revoked_from(keys, name, now)
    return revoked, [key for key in revoked if key.name == name and key.revoked == now][-1]


def with_key_rotated(
    keys: KeyTuple, name: str, grace: float, now: datetime
) -> tuple[KeyTuple, NewKey]:
    """Return the keys with another one in place of that name's, and that one with its text."""
    before = next((key for key in keys if key.name == name and key.revoked is None), None)
    if before is None:
        raise _no_active_key_error(name, keys)
    ended = _revoked_from(keys, name, now + timedelta(seconds=grace))
    return with_key_added(ended, name, before.project, now)


def _revoked_from(keys: KeyTuple, name: str, end: datetime) -> KeyTuple:
    """Return the keys, of which those of a name are revoked from then on, or earlier."""
    return tuple(
        msgspec.structs.replace(key, revoked=end)
        if key.name == name and not is_revoked(key, end)
        else key
        for key in keys
    )


def is_revoked(key: GatewayKey, now: datetime) -> bool:
    """Return whether a key is refused by then; one that was replaced may be valid for a while."""
    return key.revoked is not None and key.revoked <= now


class KeyRing:
    """The keys of a gateway, by id: those of its file and those of a shared store.

    Once there was a key, keys stay required: revoking the last one, or losing the file, must not
    open the gateway to everybody.
    """

    def __init__(
        self, file: StateFile | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._file = file
        self._clock = clock
        self._next_end = inf
        """When the next key ends that was replaced."""
        self._own: KeyTuple = ()
        self._shared: KeyTuple = ()
        self._by_id: dict[bytes, tuple[bytes, GatewayKey]] = {}
        self._stamp, state = file.read_stamped() if file is not None else (None, None)
        self.generation = 0
        """Raised with every change: what follows from the earlier keys is void."""
        self.has_keys = False
        self.replace(state.keys if state is not None else ())

    def refresh(self) -> bool:
        """Read the file again if it changed, and return whether it did.

        A missing or damaged file is an error, raised once; the earlier keys stay in force.
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
        """Use these keys as those of the file."""
        self._own = tuple(keys)
        self._index()

    def share(self, keys: Iterable[GatewayKey]) -> None:
        """Use these keys of a shared store beside those of the file."""
        self._shared = tuple(keys)
        self._index()

    def require(self) -> None:
        """Require a key of everybody, also while there is none."""
        self.has_keys = True
        self.generation += 1

    def _index(self) -> None:
        self._by_id = {}
        # The earliest revoked last: a key that is revoked in one place is revoked.
        for key in sorted((*self._own, *self._shared), key=_end, reverse=True):
            self._by_id[key.id.encode()] = bytes.fromhex(key.digest), key
        self.has_keys = self.has_keys or bool(self._by_id)
        self.generation += 1
        now = self._clock()
        ends = (_end(key) for _, key in self._by_id.values())
        self._next_end = min((end for end in ends if end > now), default=inf)

    def expire(self) -> None:
        """Void what follows from keys that were valid until now."""
        if self._clock() >= self._next_end:
            self._index()

    @property
    def keys(self) -> list[GatewayKey]:
        """All keys, also revoked ones, by name and age."""
        keys = [key for _, key in self._by_id.values()]
        return sorted(keys, key=lambda key: (key.name, key.created))

    def is_own(self, name: str) -> bool:
        """Return whether a valid key of this name is in the file, not in a shared store."""
        return any(key.name == name and key.revoked is None for key in self._own)

    def is_revoked(self, key: GatewayKey) -> bool:
        """Return whether a key is refused now."""
        return self._clock() >= _end(key)

    def find(self, text: bytes) -> GatewayKey | None:
        """Return the key, revoked or not, with this text; None for any other text."""
        key_id = text[len(PREFIX) :].partition(b"-")[0]
        digest, key = self._by_id.get(key_id, _NO_KEY)
        # An unknown id costs the same digest and comparison as a wrong secret.
        return key if compare_digest(_digest(text), digest) else None


def _end(key: GatewayKey) -> float:
    return inf if key.revoked is None else key.revoked.timestamp()


_NO_KEY: tuple[bytes, GatewayKey | None] = (bytes(32), None)


def _digest(text: bytes) -> bytes:
    # Unkeyed: 256 random bits cannot be guessed, and keys outlive a change of the digest secret.
    return blake2b(text, digest_size=32, person=b"looptrap-key").digest()


def check_name(place: str, name: str) -> None:
    """Raise ConfigError for an invalid name of a key or project."""
    if name.startswith("lt-"):
        # Perhaps a key, pasted by mistake: not repeated.
        raise ConfigError([Problem(place, "begins with lt-, as only keys themselves do")])
    if not re.fullmatch(NAME.pattern, name):
        raise ConfigError([Problem(place, f"is {found(name)}, must be {NAME.form}")])


def _no_active_key_error(name: str, keys: Iterable[GatewayKey]) -> ConfigError:
    revoked = [key.revoked for key in keys if key.name == name and key.revoked is not None]
    if revoked:
        return ConfigError(f"key {quoted(name)} was revoked on {max(revoked):%Y-%m-%d} already")
    names = [key.name for key in keys if key.revoked is None]
    return ConfigError(f"there is no key named {quoted(name)}{suggestion(name, names)}")
