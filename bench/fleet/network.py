"""Network namespaces on one bridge: machines with addresses of their own, and links to cut."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Self

from bench.rig import MissingPartError, PartFailedError

NETWORK = "198.18.{third}.{last}"
"""Addresses for measurements (RFC 2544), which no other network uses."""
OUTSIDE = 1
"""The last part of the address of the bridge itself, where this process is."""


class Network:
    """Namespaces by name, while the context lasts; the names given are in one network."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._prefix = f"lt{os.getpid()}"
        self._third = os.getpid() % 256
        self.outside = self._address(OUTSIDE)
        """The address at which the namespaces reach this process."""

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def address(self, name: str) -> str:
        """Return the address of a namespace."""
        return self._address(OUTSIDE + 1 + self._names.index(name))

    def inside(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one in a namespace."""
        return ["ip", "netns", "exec", self._space(name), *command]

    def cut(self, *names: str) -> None:
        """Drop all that these namespaces send to each other, until it is mended."""
        # A bridge passes nothing from one isolated port to another.
        for name in names:
            self._isolate(name, True)

    def mend(self, *names: str) -> None:
        """End a cut."""
        for name in names:
            self._isolate(name, False)

    def _make(self) -> None:
        bridge = self._prefix
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self.outside}/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for name in self._names:
            space, cable = self._space(name), self._cable(name)
            _run("ip", "netns", "add", space)
            _run("ip", "link", "add", cable, "type", "veth", "peer", "eth0", "netns", space)
            _run("ip", "link", "set", cable, "master", bridge, "up")
            for device in ("lo", "eth0"):
                _run("ip", "-n", space, "link", "set", device, "up")
            _run("ip", "-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")

    def _remove(self) -> None:
        # Namespaces that are deleted keep their cables for a moment.
        links = [*map(self._cable, self._names), self._prefix]
        commands = [["ip", "link", "delete", link] for link in links]
        commands += [["ip", "netns", "delete", self._space(name)] for name in self._names]
        for command in commands:
            subprocess.run(command, stderr=subprocess.DEVNULL)

    def _isolate(self, name: str, is_isolated: bool) -> None:
        state = "on" if is_isolated else "off"
        _run("bridge", "link", "set", "dev", self._cable(name), "isolated", state)

    def _address(self, last: int) -> str:
        return NETWORK.format(third=self._third, last=last)

    def _space(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def _cable(self, name: str) -> str:
        return f"{self._prefix}-{self._names.index(name)}"


def check_permission() -> None:
    """Raise MissingPartError where namespaces cannot be made."""
    for program in ("ip", "bridge"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            raise MissingPartError(f"{program} is missing: apt-get install iproute2")
    try:
        with Network(["probe"]):
            pass
    except PartFailedError as error:
        message = f"network namespaces cannot be made here, which needs root on Linux ({error})"
        raise MissingPartError(message) from None


def _run(*command: str) -> None:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path})
    if done.returncode:
        raise PartFailedError(f"{' '.join(command)}: {done.stderr.strip()}")
