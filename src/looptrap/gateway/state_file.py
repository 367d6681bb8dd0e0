"""The state file: the digest secret and the gateway keys.

JSON of mode 0600, replaced atomically, under a lock; a damaged file, or one that is not ours, is an
error and never replaced.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from looptrap.errors import ConfigError, Problem
from looptrap.policy.kind import NAME
from looptrap.schema.wording import escaped

SECRET_VARIABLE = "LOOPTRAP_SECRET"

_SECRET_BYTES = 32
_FORMAT = 1
_LOCK_POLL_S = 0.01

Name = Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
Time = Annotated[datetime, Meta(tz=True)]
Stamp = tuple[int, int, int]
"""Modification time, size and inode: another stamp, another content."""


class GatewayKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A gateway key as it is stored: its digest, never its text."""

    name: Name
    id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}\Z")]
    digest: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    project: Annotated[str, Meta(pattern=rf"\A(?:{NAME.pattern})?\Z")] = ""
    created: Time
    revoked: Time | None = None

    def __repr__(self) -> str:
        return f"Key(name={self.name!r}, id={self.id!r})"


class GatewayState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the file; names are unique among keys that are not revoked."""

    looptrap: Literal[1] = 1
    """The format of the file."""
    secret: Annotated[bytes, Meta(min_length=_SECRET_BYTES, max_length=_SECRET_BYTES)]
    keys: tuple[GatewayKey, ...] = ()

    def __post_init__(self) -> None:
        ids = [key.id for key in self.keys]
        names = [key.name for key in self.keys if key.revoked is None]
        if len(set(ids)) < len(ids) or len(set(names)) < len(names):
            raise ValueError("two keys have the same id or name")

    def __repr__(self) -> str:
        return f"State(keys={self.keys!r})"


class _FormatMark(msgspec.Struct):
    """The field that distinguishes a state file from other JSON."""

    looptrap: int


class StateFile:
    """Reads and writes the state file at `path`."""

    def __init__(self, path: str | Path, *, lock_timeout: float = 10.0) -> None:
        self.path = Path(path)
        self._lock_timeout = lock_timeout

    def read(self) -> GatewayState | None:
        """Return the content; None when there is no file."""
        return self.read_stamped()[1]

    def read_stamped(self) -> tuple[Stamp | None, GatewayState | None]:
        """Return the content, with the stamp of exactly that."""
        try:
            # Not blocking: opening a pipe would wait for its writer.
            with _open_descriptor(self.path, os.O_NONBLOCK) as descriptor:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise self._error("is not a regular file")
                with open(descriptor, "rb", closefd=False) as file:
                    content = file.read()
        except FileNotFoundError:
            return None, None
        except OSError as error:
            raise self._error(f"cannot be read: {error.strerror}") from None
        return _stamp(status), self._decode(content)

    def stamp(self) -> Stamp | None:
        """Return the stamp of the content; None when there is no file."""
        try:
            return _stamp(self.path.stat())
        except OSError:
            return None

    def update(self, change: Callable[[GatewayState], GatewayState]) -> GatewayState:
        """Replace the latest state by its `change`; a missing file is made."""
        with self._locked():
            before = self.read()
            after = change(before or GatewayState(secret=secrets.token_bytes(_SECRET_BYTES)))
            if after is not before:
                self._write(after)
        return after

    def secret(self) -> bytes:
        """Return the digest secret, made on first use."""
        return (self.read() or self.update(lambda state: state)).secret

    def exposure(self) -> str | None:
        """Return a warning that others than the owner can open the file; None if they cannot."""
        try:
            mode = stat.S_IMODE(self.path.stat().st_mode)
        except OSError:
            return None
        if not mode & 0o077:
            return None
        return f"{self.path}: open to others (mode {mode:04o}), should be 0600: chmod 600 it"

    def _decode(self, content: bytes) -> GatewayState:
        """Decode the content; errors say what is wrong with it and repeat no value."""
        aside = "move it away or name another file"
        try:
            mark = msgspec.json.decode(content, type=_FormatMark)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._error(f"is not a Looptrap state file: {aside}") from None
        if mark.looptrap != _FORMAT:
            raise self._error(
                f"has format {mark.looptrap}, this version of Looptrap reads {_FORMAT}: {aside}"
            )
        try:
            return msgspec.json.decode(content, type=GatewayState)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._error(f"is damaged: {escaped(str(error))}: restore it or {aside}") from None

    def _write(self, state: GatewayState) -> None:
        content = msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n"
        # Of a link, the target is replaced.
        target = Path(os.path.realpath(self.path))
        try:
            write_atomically(target, content, partial(_keep_owner, target))
            with _open_descriptor(target.parent, os.O_DIRECTORY) as folder:
                os.fsync(folder)
        except OSError as error:
            raise self._error(f"cannot be written: {error.strerror}") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other writers out by a lock on the folder, since the file itself is replaced."""
        deadline = time.monotonic() + self._lock_timeout
        path = Path(os.path.realpath(self.path)).parent
        try:
            with _open_descriptor(path, os.O_DIRECTORY) as folder:
                while True:
                    try:
                        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() >= deadline:
                            raise self._error(
                                f"is locked by another process for over {self._lock_timeout:g} s"
                            ) from None
                        time.sleep(_LOCK_POLL_S)
                yield
        except OSError as error:
            raise self._error(f"cannot be written: {error.strerror}") from None

    def _error(self, message: str) -> ConfigError:
        return ConfigError([Problem(str(self.path), message)])


def secret_from_env(env: Mapping[str, str]) -> bytes | None:
    """Return the digest secret of the environment, from any text; None without one."""
    text = env.get(SECRET_VARIABLE)
    if not text:
        return None
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_SECRET_BYTES).digest()


def digest_secret(file: StateFile, env: Mapping[str, str]) -> bytes:
    """Return the environment's digest secret, else the file's, made there on first use."""
    return secret_from_env(env) or file.secret()


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextmanager
def _open_descriptor(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_atomically(target: Path, content: bytes, prepare: Callable[[int], object]) -> None:
    """Put a file with this content in the place of another, at once.

    `prepare` gets the descriptor of the new file before anything is written to it.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            prepare(descriptor)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _keep_owner(target: Path, descriptor: int) -> None:
    """Keep the owner of the file: root adding a key must not lock the gateway out."""
    with suppress(FileNotFoundError, PermissionError):
        status = target.stat()
        os.fchown(descriptor, status.st_uid, status.st_gid)
