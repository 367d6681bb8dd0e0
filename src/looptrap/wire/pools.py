"""The pools of every origin: one TLS setting, one look at the environment, one timer."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from looptrap.wire.flight import UpstreamLimits
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool
from looptrap.wire.proxy import Proxies

SWEEP_INTERVAL = 0.5


class Pools:
    """Makes a pool for each origin on first use and sweeps them all while any exists."""

    def __init__(
        self,
        limits: UpstreamLimits,
        *,
        environ: Mapping[str, str],
        ca_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._proxies = Proxies(environ)
        self._ca_file = ca_file
        self._clock = clock
        self._pools: dict[Origin, Pool] = {}
        self._timer: asyncio.TimerHandle | None = None

    def pool(self, origin: Origin) -> Pool:
        """Return the pool of an origin; called on the loop that will run it."""
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = Pool(
                origin,
                self._limits,
                ssl=self._tls if origin.scheme == "https" else None,
                proxy=self._proxies.choose(origin),
                clock=self._clock,
            )
            if self._timer is None:
                self._schedule_sweep()
        return pool

    def __iter__(self) -> Iterator[Pool]:
        return iter(self._pools.values())

    def sweep(self) -> None:
        """End what has passed its deadline, in every pool."""
        for pool in list(self._pools.values()):
            pool.sweep()

    async def close(self) -> None:
        """Close every connection of every pool."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.close()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Trust the system's authorities and those of `ca_file`."""
        context = ssl.create_default_context()
        if self._ca_file is not None:
            context.load_verify_locations(cafile=self._ca_file)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _schedule_sweep(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL, self._sweep_and_repeat)

    def _sweep_and_repeat(self) -> None:
        # First the next one: a sink that raises must not end all time-outs.
        self._schedule_sweep()
        self.sweep()
