"""What one listener accepts at most, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Bounds on what clients may send and hold; times in seconds, sizes in bytes."""

    max_head: int = 32 * 1024
    max_headers: int = 128
    max_target: int = 8 * 1024
    max_body: int = 32 * MEGABYTE
    max_connections: int = 10_000
    max_buffered: int = 512 * MEGABYTE
    """Request bytes held for all connections together."""

    head_timeout: float = 15.0
    """From the first byte of a request to the end of its headers."""

    body_timeout: float = 30.0
    """Between two pieces of a request body."""

    keepalive_timeout: float = 75.0
    """Between an answer (or the connection's start) and the next request."""

    write_timeout: float = 60.0
    """How long a client may read nothing of an answer that waits for it."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value <= 0:
                raise ValueError(f"{name} is {value}, must be more than 0")
