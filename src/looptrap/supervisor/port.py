"""One port for all workers: free when they start, and the same for each."""

from __future__ import annotations

import socket
from dataclasses import replace

from looptrap.config.kind import Address
from looptrap.errors import ConfigError, Problem


class Port:
    """An address that is ours for as long as this is open; it takes no connections itself."""

    def __init__(self, wanted: Address) -> None:
        """Find the port for 0; raise ConfigError where somebody else listens already."""
        self.address = wanted
        self._held: list[socket.socket] = []
        try:
            for family, _, _, _, place in socket.getaddrinfo(
                wanted.host, wanted.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                self._hold(family, place)
        except OSError as error:
            self.close()
            why = (error.strerror or str(error)).lower()
            problem = Problem("gateway.listen", f"cannot listen at {wanted}: {why}")
            raise ConfigError([problem]) from None

    def close(self) -> None:
        """Let others have it."""
        for held in self._held:
            held.close()

    def _hold(self, family: int, place: tuple[object, ...]) -> None:
        # Sockets that share a port do not mind another gateway's: this one does.
        with _bound(family, (place[0], self.address.port, *place[2:]), shares=False) as probe:
            found = probe.getsockname()
        self._held.append(_bound(family, found, shares=True))
        self.address = replace(self.address, port=found[1])


def _bound(family: int, place: tuple[object, ...], *, shares: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(place)
    except BaseException:
        bound.close()
        raise
    return bound
