"""Gateway keys: `lt-<id>-<43 random characters>`, shown once, kept as digests."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b
from hmac import compare_digest

import msgspec

from looptrap.errors import ConfigError, Problem
from looptrap.gateway.state import Key, State, StateFile
from looptrap.policy.setting.kind import NAME
from looptrap.schema.wording import found, quoted, suggestion

PREFIX = b"lt-"
"""How every gateway key begins, and no provider's credential does."""


def add(file: StateFile, name: str, *, project: str = "", now: datetime) -> tuple[Key, str]:
    """Make a key of that name and keep it in the file; return it with its text, shown only here."""
    _check_name("NAME", name)
    if project:
        _check_name("project", project)
    secret = secrets.token_urlsafe(32)
    made: list[tuple[Key, str]] = []

    def change(state: State) -> State:
        if any(key.name == name and key.revoked is None for key in state.keys):
            raise ConfigError(f"there is a key named {quoted(name)} already: revoke it first")
        taken = {key.id for key in state.keys}
        key_id = next(one for one in iter(lambda: secrets.token_hex(4), "") if one not in taken)
        text = f"lt-{key_id}-{secret}"
        key = Key(
            name=name,
            id=key_id,
            digest=_digest(text.encode()).hex(),
            project=project,
            created=now,
        )
        made.append((key, text))
        return msgspec.structs.replace(state, keys=(*state.keys, key))

    file.update(change)
    return made[-1]


def revoke(file: StateFile, name: str, *, now: datetime) -> Key:
    """Refuse that key from now on; it stays in the file, so that its holder is told why."""
    _check_name("NAME", name)
    if file.read() is None:
        raise ConfigError(f"there is no key named {quoted(name)}: {file.path} does not exist")

    def change(state: State) -> State:
        live = [key for key in state.keys if key.revoked is None]
        if all(key.name != name for key in live):
            raise _not_live(name, state.keys)
        return msgspec.structs.replace(
            state,
            keys=tuple(
                msgspec.structs.replace(key, revoked=now)
                if key.name == name and key.revoked is None
                else key
                for key in state.keys
            ),
        )

    return [key for key in file.update(change).keys if key.name == name][-1]


class KeyRing:
    """The keys a gateway knows, looked up by id; follows its file when told to `refresh`.

    Once a key was there, keys stay required: revoking the last one, or losing the file, must not
    open the gateway to everybody.
    """

    def __init__(self, file: StateFile | None = None) -> None:
        self._file = file
        self._by_id: dict[bytes, tuple[bytes, Key]] = {}
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

    def replace(self, keys: Iterable[Key]) -> None:
        """Know these keys and no others."""
        self._by_id = {key.id.encode(): (bytes.fromhex(key.digest), key) for key in keys}
        self.has_keys = self.has_keys or bool(self._by_id)
        self.generation += 1

    def find(self, text: bytes) -> Key | None:
        """Return the key, revoked or not, whose text this is; None for any other text."""
        key_id = text[len(PREFIX) :].partition(b"-")[0]
        known, key = self._by_id.get(key_id, _NOBODY)
        # An unknown id costs the same digest and comparison as a wrong secret.
        return key if compare_digest(_digest(text), known) else None


_NOBODY: tuple[bytes, Key | None] = (bytes(32), None)


def _digest(text: bytes) -> bytes:
    # Unkeyed: 256 random bits cannot be guessed, and keys outlive a change of the digest secret.
    return blake2b(text, digest_size=32, person=b"looptrap-key").digest()


def _check_name(place: str, name: str) -> None:
    if name.startswith("lt-"):
        # Perhaps a key pasted by mistake: not repeated.
        raise ConfigError([Problem(place, "begins with lt-, as only keys themselves do")])
    if not re.fullmatch(NAME.pattern, name):
        raise ConfigError([Problem(place, f"is {found(name)}, must be {NAME.form}")])


def _not_live(name: str, keys: Iterable[Key]) -> ConfigError:
    revoked = [key.revoked for key in keys if key.name == name and key.revoked is not None]
    if revoked:
        return ConfigError(f"key {quoted(name)} was revoked on {max(revoked):%Y-%m-%d} already")
    names = [key.name for key in keys if key.revoked is None]
    return ConfigError(f"there is no key named {quoted(name)}{suggestion(name, names)}")
