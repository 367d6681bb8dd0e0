"""RedisStore: one count for all instances."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from looptrap.store.memory import MAX_FINGERPRINTS
from looptrap.store.model import Balance, Charge, Count, Hit, Settlement, Trip
from looptrap.store.redis.address import parse_store_url
from looptrap.store.redis.cluster import RedisCluster
from looptrap.store.redis.node import NodeOptions, RedisNode, StoreErrorLog
from looptrap.store.redis.request import (
    ChargeRequest,
    CooldownRequest,
    CountsCallback,
    HitRequest,
    ReleaseRequest,
    SettleRequest,
    TripRequest,
)
from looptrap.store.redis.shared_configuration import SharedConfiguration

DEFAULT_TIMEOUT_S = 0.05
PROBE_INTERVAL_S = 1.0


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
        self._addresses, self._is_cluster = parse_store_url(url)
        self._error_log = StoreErrorLog(time.monotonic)
        self._options = NodeOptions(
            timeout=timeout,
            probe_every=probe_every,
            max_fingerprints=max_fingerprints,
            clock=clock,
            error_log=self._error_log,
        )
        self.asked = 0
        """Calls whose hits were to be counted, for metrics."""

    async def start(self) -> None:
        """Connect; a server that cannot be reached is tried again until it can."""
        if self._is_cluster:
            self._server = RedisCluster(self._addresses, self._options)
        else:
            self._server = RedisNode(self._addresses[0], self._options)
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
    ) -> None:
        """Record all hits and charges of one call; `then` gets the results, once, in order.

        Its last argument says whether they are local, the store being away; only then may it be
        called before this returns. Without `now` the server's clock is used.
        """
        self.asked += 1
        request = (
            ChargeRequest(hits, charges, retry, then) if charges else HitRequest(hits, retry, then)
        )
        self._server.take(request, now)

    def settle(self, settlements: Sequence[Settlement], now: float | None) -> None:
        """Replace reservations by the actual amounts."""
        self._server.take(SettleRequest(settlements), now)

    def trip(self, trips: Sequence[Trip], now: float | None) -> None:
        """Refuse these keys until their cooldown ends; the later deadline wins."""
        self._server.take(TripRequest(trips), now)

    async def release(self, key: bytes) -> bool:
        """Forget everything about a key; return whether anything was known."""
        known: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def then(is_known: bool) -> None:
            if not known.done():
                known.set_result(is_known)

        self._server.take(ReleaseRequest(key, then), None)
        return await known

    async def cooldown_left(self, key: bytes, now: float | None = None) -> float:
        """Return how long a key is still refused; asking changes nothing."""
        left: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        def then(seconds: float) -> None:
            if not left.done():
                left.set_result(seconds)

        self._server.take(CooldownRequest(key, then), now)
        return await left

    async def balance(self, charge: Charge) -> Balance:
        """Return the balance of an account; a charge of 0 changes nothing."""
        found: asyncio.Future[Balance] = asyncio.get_running_loop().create_future()

        def then(_counts: Sequence[Count], balances: Sequence[Balance], _is_local: bool) -> None:
            if not found.done():
                found.set_result(balances[0])

        self._server.take(ChargeRequest((), [charge], False, then), None)
        return await found

    @property
    def is_degraded(self) -> bool:
        """Whether a server is away, so that its keys are counted here."""
        return self._server.is_degraded

    @property
    def errors(self) -> int:
        """Failed connections and commands."""
        return self._error_log.errors

    @property
    def batches(self) -> int:
        """Batches sent to servers."""
        return self._server.batches
