"""PostgreSQL for the benchmarks: a temporary server on a loopback port."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from bench.rig import PATIENCE, TICKS, MissingPartError, free_port

OWNER = "postgres"
"""The user that the server runs as where the benchmark runs as root: it refuses root."""


class Postgres:
    """A server, and what it has used."""

    def __init__(
        self,
        folder: Path,
        settings: Sequence[str] = (),
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        inside: Callable[[Sequence[str]], list[str]] = list,
    ) -> None:
        """`inside` returns the command that runs another one where the server is to be."""
        self.port = free_port() if port is None else port
        self.url = f"postgresql://postgres@{host}:{self.port}/postgres"
        self.process: subprocess.Popen[bytes] | None = None
        self._data = folder / "data"
        self._log = folder / "log"
        programs = _programs()
        as_owner = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]
        if os.getuid():
            as_owner = []
        else:
            shutil.chown(folder, OWNER, OWNER)
        initdb = [str(programs / "initdb"), "-D", str(self._data), "-U", "postgres", "-A", "trust"]
        subprocess.run(
            [*as_owner, *initdb, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
        options = [f"unix_socket_directories={folder}", f"listen_addresses={host}", *settings]
        command = [*as_owner, str(programs / "postgres"), "-D", str(self._data)]
        command += ["-p", str(self.port), *(text for one in options for text in ("-c", one))]
        self._command = inside(command)

    def start(self) -> None:
        """Run it, and wait until it answers."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.client().close()
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                return

    def client(self) -> psycopg.Connection:
        """Return a connection of one's own."""
        return psycopg.connect(self.url, autocommit=True, connect_timeout=5)

    def send(self, number: int) -> None:
        """Send a signal to all its processes."""
        for pid in self._pids():
            with suppress(ProcessLookupError):  # its processes come and go
                os.kill(pid, number)

    def kill(self) -> None:
        """End it like a power cut."""
        if self.process is not None and self.process.poll() is None:
            self.send(signal.SIGCONT)
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """End it in an orderly way."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(PATIENCE)

    def cpu(self) -> float:
        """Return the CPU seconds that its processes have used, those of ended ones too."""
        used = 0.0
        for pid in self._pids():
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            used += sum(map(int, fields[11:15] if pid == self._pid else fields[11:13])) / TICKS
        return used

    @property
    def _pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def _pids(self) -> list[int]:
        found = [self._pid]
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self._pid:
                found.append(int(stat.parent.name))
        return found


def _programs() -> Path:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: int(one.parts[-3])
    )
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    if program is None:
        raise MissingPartError("initdb is missing: apt-get install postgresql")
    return Path(program).parent


@contextmanager
def running(*settings: str) -> Iterator[Postgres]:
    """Run a server with these settings for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="bench-pg-", ignore_cleanup_errors=True) as folder:
        one = Postgres(Path(folder), settings)
        try:
            one.start()
            yield one
        finally:
            one.kill()
