"""How a store deals with its servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from looptrap.store.redis.trouble import Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The same for all servers of a store."""

    timeout: float
    """Seconds after which a batch is answered from memory."""
    probe_every: float
    """Seconds from one look at a server that is away to the next."""
    max_fingerprints: int
    """How many keys the memory tracks that counts while a server is away."""
    clock: Callable[[], float]
    """The time of what is counted here."""
    trouble: Trouble
