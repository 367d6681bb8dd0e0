"""Bounds and timeouts: of the server, and of the connections to providers."""

from __future__ import annotations

from dataclasses import fields

from looptrap.schema import Number, Size, Table, seconds, setting, settings

MEGABYTE = 1 << 20


@settings
class ServerLimits:
    """Bounds on what clients may send and hold; seconds and bytes."""

    max_body: int = setting(
        "the largest request body", Size(1 << 10, 1 << 30), default=32 * MEGABYTE
    )
    max_buffered: int = setting(
        "request bytes held for all connections together",
        Size(1 << 20, 1 << 40),
        default=512 * MEGABYTE,
    )
    max_head: int = setting("the largest request head", Size(1 << 10, 1 << 20), default=32 * 1024)
    max_headers: int = setting(
        "the largest number of request headers", Number(low=8, high=10_000, whole=True), default=128
    )
    max_target: int = setting("the longest URL", Size(256, 1 << 20), default=8 * 1024)
    max_connections: int = setting(
        "clients connected at once", Number(low=1, high=1_000_000, whole=True), default=10_000
    )
    head_timeout: float = setting("for a request's head to arrive", seconds(), default=15.0)
    body_timeout: float = setting("between two pieces of a request's body", seconds(), default=30.0)
    keepalive_timeout: float = setting(
        "for the next request of a connection", seconds(), default=75.0
    )
    write_timeout: float = setting(
        "for a client to read more of an answer", seconds(), default=60.0
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) <= 0:
                value = getattr(self, each.name)
                raise ValueError(f"{each.name} is {value}, must be more than 0")


SERVER_LIMITS = Table.of(ServerLimits)


@settings
class UpstreamLimits:
    """Timeouts in seconds and bounds of one pool."""

    connect_timeout: float = setting("for a connection to a provider", seconds(), default=10.0)
    """For name look-up, TCP, proxy and TLS together, and for a place in the queue."""
    first_byte_timeout: float = setting(
        "for a provider's answer to begin", seconds(), default=600.0
    )
    """From the sending of a request to the complete head of its answer."""
    idle_timeout: float = setting(
        "between two pieces of a provider's answer", seconds(), default=300.0
    )
    keepalive: float = 55.0
    """How long an unused connection is kept."""
    max_connections: int = 1024
    max_queued: int = 1024
    max_head_bytes: int = 65_536
    max_headers: int = 256

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "first_byte_timeout", "idle_timeout", "keepalive"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, must be more than 0 seconds")
        for name in ("max_connections", "max_head_bytes", "max_headers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, must be 1 or more")
        if self.max_queued < 0:
            raise ValueError(f"max_queued is {self.max_queued}, must be 0 or more")


UPSTREAM_LIMITS = Table.of(UpstreamLimits)
