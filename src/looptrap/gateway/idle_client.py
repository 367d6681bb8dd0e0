"""IdleClients: clients that have the answer to a repeated call, and have sent nothing since.

A client that sends a call again uses the connection that it has, or has closed it. So an equal call
that comes over another connection meanwhile is from another client: from a run side by side with
the first one, which has not gone on yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from looptrap.bounded import LruMap
from looptrap.detect.window import MAX_TWINS, WindowKind
from looptrap.engine.model import Plan
from looptrap.store.model import Hit

MAX_REPEATED_CALLS = 256
"""Repeated calls of which the idle clients are known."""


class ClientConnection(Protocol):
    """The connection of a client."""

    requests: int
    """Requests that came over it so far."""

    @property
    def is_idle(self) -> bool:
        """Whether it is open, every request is answered, and nothing of another one is here."""


class Answered(NamedTuple):
    """A repeated call that a connection has the answer to."""

    request: int
    """Its number on the connection."""
    at: float


class IdleClients:
    """The connections that have the answer to each of the latest repeated calls; bounded."""

    def __init__(self) -> None:
        self._clients: LruMap[bytes, dict[ClientConnection, Answered]] = LruMap(MAX_REPEATED_CALLS)
        self.until = 0.0
        """When the last of them is no longer taken for idle: nothing can join a wave then."""

    def note_answer(self, streaks: Sequence[Hit], connection: ClientConnection, now: float) -> None:
        """Note that the latest request of a connection gets its answer: these repeated hits."""
        for hit in streaks:
            if hit.window.kind is WindowKind.STREAK:
                clients = self._clients.get(hit.key, {})
                clients.pop(connection, None)
                if len(clients) == MAX_TWINS:
                    del clients[next(iter(clients))]
                clients[connection] = Answered(connection.requests, now)
                self._clients[hit.key] = clients
                self.until = max(self.until, now + hit.window.seconds)

    def join_waves(self, plan: Plan, connection: ClientConnection, now: float) -> None:
        """Let the hits of a call that is side by side with an idle client join its wave."""
        for place, hit in enumerate(plan.hits):
            clients = self._clients.get(hit.key)
            if clients is not None and not hit.continues and _joins(hit, clients, connection, now):
                plan.hits[place] = replace(hit, joins_wave=True)


def _joins(
    hit: Hit,
    clients: dict[ClientConnection, Answered],
    connection: ClientConnection,
    now: float,
) -> bool:
    own = clients.get(connection)
    if own is not None and own.request == connection.requests - 1:
        return False  # the client itself sends the call again
    return any(
        one is not connection
        and one.requests == answered.request
        and one.is_idle
        and now - answered.at <= hit.window.seconds
        for one, answered in clients.items()
    )
