"""RedisStore: one count for all instances."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from looptrap.store.memory import MAX_FINGERPRINTS
from looptrap.store.model import Balance, Charge, Hit, Note, Settlement, Trip
from looptrap.store.redis.address import DEFAULT_PORT, parse_store_url
from looptrap.store.redis.connection import resolve
from looptrap.store.redis.node import NodeOptions, RedisNode
from looptrap.store.redis.request import (
    CountsCallback,
    StoreRequest,
    answer_request,
    cooldown_request,
    hit_request,
    release_request,
    remember_request,
    settle_request,
    trip_request,
)
from looptrap.store.redis.shared_configuration import SharedConfiguration
from looptrap.store.redis.topology import RedisCluster, Sentinels

DEFAULT_TIMEOUT_S = 0.05
PROBE_INTERVAL_S = 1.0

T = TypeVar("T")


class RedisStore:
    """Counts in Redis or Valkey, and in this process while that cannot be reached.

    A batch without a reply in time may have been counted by the server nevertheless.
    """

    configuration: SharedConfiguration
    """Settings that instances share; set when the store has been started."""
    _server: RedisNode | RedisCluster

    def __init__(
        self,
        url: str,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        max_fingerprints: int = MAX_FINGERPRINTS,
        probe_every: float = PROBE_INTERVAL_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plan = parse_store_url(url)
        self._options = NodeOptions(
            timeout=timeout,
            probe_every=probe_every,
            max_fingerprints=max_fingerprints,
            clock=clock,
        )
        self.asked = 0
        """Calls whose hits were to be counted, for metrics."""

    async def start(self) -> None:
        """Connect; a server that cannot be reached is tried again until it can."""
        plan = self._plan
        match plan.kind:
            case "cluster":
                self._server = RedisCluster(plan.servers, self._options)
            case "sentinel":
                unknown = plan.primary.at(plan.primary_name, DEFAULT_PORT)
                locate = Sentinels(plan).locate
                self._server = RedisNode(unknown, self._options, locate=locate)
            case "single":
                self._server = RedisNode(plan.servers[0], self._options)
        self.configuration = SharedConfiguration(self._server)
        await self._server.start()

    async def stop(self) -> None:
        """Close all connections; pending requests get local counts."""
        await self.configuration.stop()
        await self._server.stop()

    def ask(
        self,
        hits: Sequence[Hit],
        now: float | None,
        *,
        retry: bool,
        then: CountsCallback,
        charges: Sequence[Charge] = (),
        recalls: Sequence[bytes] = (),
    ) -> None:
        """Record all hits and charges of one call, and recall notes under keys.

        `then` gets the results, once, in order; a note is empty where none is known.
        Its last argument says whether they are local, the store being away; only then may it be
        called before this returns. Without `now` the server's clock is used.
        """
        self.asked += 1
        self._server.take(hit_request(hits, retry, then, charges, recalls), now)

    def settle(self, settlements: Sequence[Settlement], now: float | None) -> None:
        """Replace reservations by the actual amounts."""
        self._server.take(settle_request(settlements), now)

    def answer(
        self, hits: Sequence[Hit], now: float | None, then: Callable[[], object] = lambda: None
    ) -> None:
        """Note that a call with these hits, in a row, was answered; call `then` once that is."""
        self._server.take(answer_request(hits, then), now)

    def trip(self, trips: Sequence[Trip], now: float | None) -> None:
        """Refuse these keys until their cooldown ends; the later deadline wins."""
        self._server.take(trip_request(trips), now)

    def remember(self, notes: Sequence[Note], now: float | None) -> None:
        """Write notes, in order; one is forgotten `RUN_MEMORY_S` seconds after it was written."""
        self._server.take(remember_request(notes), now)

    async def release(self, key: bytes) -> bool:
        """Forget everything about a key; return whether anything was known."""
        return await self._result(partial(release_request, key))

    async def cooldown_left(self, key: bytes, now: float | None = None) -> float:
        """Return how long a key is still refused; asking changes nothing."""
        return await self._result(partial(cooldown_request, key), now)

    async def balance(self, charge: Charge) -> Balance:
        """Return the balance of an account; a charge of 0 changes nothing."""
        return await self._result(
            lambda then: hit_request(
                (), False, lambda _counts, balances, *_others: then(balances[0]), [charge]
            )
        )

    async def _result(
        self, make: Callable[[Callable[[T], None]], StoreRequest], now: float | None = None
    ) -> T:
        """Send a request whose callback gets one value, and return that."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._server.take(make(partial(resolve, result)), now)
        return await result

    @property
    def is_degraded(self) -> bool:
        """Whether a server is away, so that its keys are counted here."""
        return self._server.is_degraded

    @property
    def errors(self) -> int:
        """Failed connections and commands."""
        return self._options.error_log.errors

    @property
    def batches(self) -> int:
        """Batches sent to servers."""
        return self._server.batches
