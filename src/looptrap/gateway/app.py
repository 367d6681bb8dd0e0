"""App: makes a running gateway of a configuration; Runtime: what its requests need of it."""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from errno import EADDRINUSE
from os import sysconf
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

from looptrap.config import Config
from looptrap.config.kind import MEMORY, Address
from looptrap.dialect.model import BYTES_PER_TOKEN, Call, Usage
from looptrap.engine import Counters, PolicyEngine
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.auth import (
    Authenticator,
    check_exposure,
    check_token,
    is_loopback,
    projects_by_key,
    token_from_env,
)
from looptrap.gateway.browser import Browsers
from looptrap.gateway.capture import Capture
from looptrap.gateway.handler import Gateway
from looptrap.gateway.judge import Judge
from looptrap.gateway.jwt_claims import ClaimsReader
from looptrap.gateway.keys import FileKeyStore, KeyRing
from looptrap.gateway.logs import AccessLog, TracebackFilter, decision_log
from looptrap.gateway.request_context import InboundHeaderReader, RequestContexts
from looptrap.gateway.router import build_router
from looptrap.gateway.shared_settings import (
    EntryStore,
    SharedEntries,
    SharedSettings,
    key_cache_file,
)
from looptrap.gateway.shared_settings.shared_keys import KeyStore, SharedKeyStore
from looptrap.gateway.state_file import StateFile, secret_from_env
from looptrap.gateway.tls import os_error_text, server_tls_context, upstream_ca_file
from looptrap.gateway.trace import Tracer
from looptrap.gateway.upstream import UpstreamState
from looptrap.incident.recorder import IncidentRecorder, SightingLog
from looptrap.money.estimate import is_charged
from looptrap.money.price import Prices
from looptrap.store.memory import MemoryStore
from looptrap.store.redis import RedisStore
from looptrap.wire.pool import Pools
from looptrap.wire.server import Server

KEYS_POLL_INTERVAL_S = 1.0
"""Seconds between two reads of the state file."""

log = logging.getLogger("looptrap")


class Runtime:
    """All that requests need of the configuration; a reload makes another."""

    def __init__(
        self,
        config: Config,
        *,
        env: Mapping[str, str],
        secret: bytes,
        ring: KeyRing,
        tally: Counters,
        claims: ClaimsReader,
        clock: Callable[[], float],
    ) -> None:
        gateway = config.gateway
        self.config = config
        self.prices = Prices(config.prices, config.price_fallback)
        self.engine = PolicyEngine(
            config.policies,
            projects=config.projects,
            kill_switches=config.kill_switches,
            tools=config.tools,
            budgets=config.budgets,
            prices=self.prices,
            secret=secret,
            tally=tally,
        )
        self.routes = build_router(config, env)
        self.authenticator = Authenticator(
            ring,
            secret=secret,
            projects=projects_by_key(config.projects),
            carriers=self.routes.carriers,
        )
        self.inbound = InboundHeaderReader(
            config.session_headers, relay_compressed=gateway.relay_compressed
        )
        browsers = Browsers(gateway.allowed_origins, gateway.listen.host)
        self.contexts = RequestContexts(self.authenticator, self.inbound, claims, clock, browsers)
        self.block_status = config.block_status
        token = token_from_env(gateway.decision_token_env, "gateway.decision_token_env", env)
        check_token("gateway.decision_token_env", token, gateway.listen.host)
        self.decision_token = token.encode()
        self._clock = clock

    def input_cost(self, call: Call) -> int | None:
        """Return the estimated cost of a call's input, in nano-dollars."""
        price = self.prices.of(call.model, "", self._clock())
        tokens = len(call.request.body) // BYTES_PER_TOKEN
        return price.cost(Usage(tokens)) if price is not None and is_charged(call) else None


class App:
    """One gateway: its store, its keys, its listener and its connections to providers."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
        has_embedded_store: bool = False,
        sighting_log: SightingLog | None = None,
    ) -> None:
        """An embedded store ends with its workers, so keys are not kept there.

        A sighting log takes the place of the configured decision log.
        """
        gateway = config.gateway
        self.config = config
        self._env = env
        self._clock = clock
        self.started = clock()
        self.listening: list[tuple[str, int]] = []
        self._state = StateFile(gateway.state)
        self._shared_store = shared = self._open_shared_store()
        self.store = shared or MemoryStore(config.max_fingerprints)
        fixed_secret = secret_from_env(env)
        if shared is None:
            self.secret = fixed_secret or self._state.secret()
            """The key of the digests that are made now; a shared store may replace it."""
        else:
            self.secret = fixed_secret or secrets.token_bytes(32)
        self.ring = KeyRing(self._state, clock)
        self._keys_are_shared = shared is not None and not has_embedded_store
        self._entries = SharedEntries(
            shared,
            secret=self.secret if fixed_secret is None else None,
            on_secret=self._adopt_secret,
            on_change=self._on_shared_change,
        )
        cache_file = key_cache_file(config) if shared is not None else None
        self.shared_settings = SharedSettings(
            self._entries, self.ring, clock, cache_file=cache_file
        )
        if shared is None:
            self._check_exposure()
        self.tally = Counters()
        self.pools = Pools(gateway.upstream_limits, environ=env, ca_file=upstream_ca_file(gateway))
        self.capture = self._new_capture()
        form, decision_form = gateway.access_log, gateway.decision_log
        if sighting_log is None and decision_form != "off":
            sighting_log = decision_log(decision_form)
        self._access_log = AccessLog(form, clock) if form != "off" else None
        self.tracer = Tracer.of(config.traces, env)
        writers = (self._access_log, self.capture, self.tracer)
        self._writers = [one for one in writers if one is not None]
        self.recorder = IncidentRecorder(
            config,
            env,
            secret=self.secret,
            store=shared,
            log=sighting_log,
            estimate=lambda call: self.gateway.runtime.input_cost(call),
            clock=clock,
        )
        self.attempts = UpstreamState(alert=self.recorder.alert, store=shared, wall_clock=clock)
        self.claims = ClaimsReader.under(gateway)
        self.gateway = Gateway(
            self._runtime(config),
            self.pools,
            Judge(self.store, fails_closed=config.on_store_error == "block"),
            on_settled=self._access_log,
            capture=self.capture,
            attempts=self.attempts,
            recorder=self.recorder,
            tracer=self.tracer,
            clock=clock,
        )
        self.server = Server(
            self.gateway,
            gateway.server_limits,
            refuse=self.gateway.refuse,
            on_error=_log_handler_error,
        )
        self._traceback_filter = TracebackFilter()
        self._keys_timer: asyncio.TimerHandle | None = None

    async def start(self, *, reuse_port: bool = False) -> list[tuple[str, int]]:
        """Listen, on a shared port if need be; return the addresses and ports."""
        settings = self.config.gateway
        tls = server_tls_context(settings)
        self._traceback_filter.install()
        for writer in self._writers:
            writer.start()
        if self._shared_store is not None:
            await self._shared_store.start()
            await self._entries.start()
            self.attempts.start()
        try:
            await self.recorder.start()
            self._check_exposure()
            host, port = settings.listen.host, settings.listen.port
            self.listening = await self.server.listen(host, port, ssl=tls, reuse_port=reuse_port)
        except OSError as error:
            await self.stop()
            raise listen_error("listen", settings.listen, error) from None
        except ConfigError:
            await self.stop()
            raise
        if warning := self._state.exposure():
            log.warning("%s", warning)
        self._refresh_keys()
        return self.listening

    async def stop(self) -> None:
        """Drain for `stop_delay`, finish the calls in flight within the grace period, and close."""
        settings = self.config.gateway
        if self.listening and settings.stop_delay:
            self.server.drain()
            await asyncio.sleep(settings.stop_delay)
        if self._keys_timer is not None:
            self._keys_timer.cancel()
        self.gateway.forward_delayed()
        await self.server.close(settings.grace)
        self.gateway.close()
        await self.pools.close()
        await self.attempts.stop()
        await self.recorder.stop()
        await self._entries.stop()
        if self._shared_store is not None:
            await self._shared_store.stop()
        for writer in self._writers:
            await asyncio.to_thread(writer.stop)
        self._traceback_filter.uninstall()

    def reload(self, config: Config) -> list[str]:
        """Use another configuration; counts, cooldowns and connections stay.

        Return the settings that changed and take effect only at the next start.
        """
        claims = ClaimsReader.under(config.gateway, self.claims.refused)
        self.gateway.runtime = self._runtime(config, claims)
        self.claims = claims
        waiting = self.config.pending_restart(config)
        self.config = config
        return waiting

    def key_store(self, name: str) -> KeyStore:
        """Return where the key of a name is, or is to be: the shared store, if there is one."""
        shared = self._shared_store
        if shared is None or not self._keys_are_shared or self.ring.is_own(name):
            return FileKeyStore(self._state)
        return SharedKeyStore(EntryStore(shared.configuration))

    async def follow_keys(self) -> None:
        """Use the keys as they are now, in the file and in the shared store."""
        self.ring.refresh()
        await self._entries.refresh()

    def _runtime(self, config: Config, claims: ClaimsReader | None = None) -> Runtime:
        return Runtime(
            self.shared_settings.over(config),
            claims=claims or self.claims,
            clock=self._clock,
            env=self._env,
            secret=self.secret,
            ring=self.ring,
            tally=self.tally,
        )

    def _open_shared_store(self) -> RedisStore | None:
        config = self.config
        if config.store == MEMORY:
            return None
        return RedisStore(
            config.store,
            timeout=config.store_timeout,
            max_fingerprints=config.max_fingerprints,
            clock=self._clock,
        )

    @property
    def ignored(self) -> int:
        """How many entries of the shared store could not be used."""
        return self._entries.ignored

    def _check_exposure(self) -> None:
        """Refuse to serve anybody; a store that is down may have keys."""
        settings, ring = self.config.gateway, self.ring
        host, is_open = settings.listen.host, settings.allow_anonymous
        are_keys_known = self._shared_store is None or self._entries.is_read
        if not are_keys_known and not is_open and not is_loopback(host):
            log.warning("the store has not said which keys there are: everybody is asked for one")
            ring.require()
        check_exposure(host, has_keys=ring.has_keys, allow_anonymous=is_open)

    def _on_shared_change(self) -> None:
        """Apply what was changed at run time, here or on another instance."""
        if self.shared_settings.follow():
            self.gateway.runtime = self._runtime(self.config)

    def _adopt_secret(self, secret: bytes) -> None:
        self.secret = secret
        self.gateway.runtime = self._runtime(self.config)
        self.recorder.rekey(secret)
        if self.capture is not None:
            self.capture.rekey(secret)

    def _new_capture(self) -> Capture | None:
        form, settings = self.config.capture, self.config.gateway
        if form == "off" or settings.capture_dir is None:
            return None
        return Capture(
            form,
            settings.capture_dir,
            limit=settings.capture_limit,
            secret=self.secret,
            clock=self._clock,
        )

    def _refresh_keys(self) -> None:
        loop = asyncio.get_running_loop()
        self._keys_timer = loop.call_later(KEYS_POLL_INTERVAL_S, self._refresh_keys)
        self._traceback_filter.log_counts()
        self.ring.expire()
        try:
            self.ring.refresh()
        except ConfigError as error:
            log.error("%s", error)


def listen_error(setting: str, address: Address, error: OSError) -> ConfigError:
    """Return the mistake of an address at which nothing can listen, and what to do about it."""
    message = f"cannot listen at {address}: {os_error_text(error)}"
    if error.errno == EADDRINUSE:
        message += ": perhaps by another Looptrap (`ss -ltnp` says by whom): stop it, or set"
        message += f" another --{setting}"
    return ConfigError([Problem(f"gateway.{setting}", message)])


def _log_handler_error(error: Exception) -> None:
    log.error("a request failed inside the gateway", exc_info=error)


GEN0_THRESHOLD, GEN1_THRESHOLD, GEN2_THRESHOLD = 20_000, 20, 20
"""Python's own are 700, 10 and 10. What a request leaves is freed without the collector, since
it has no reference cycles, and looking for them all the time costs a tenth of the CPU."""

MEMORY_CHECK_INTERVAL_S = 1.0

MIN_GROWTH_BYTES = 64 << 20
"""Bytes by which the process may grow before a full collection. The thresholds above count objects,
and a cycle of three may hold a body of megabytes: an exception with its traceback makes one
easily."""

MIN_GROWTH_DIVISOR = 4
"""A large process may grow by this part of its size instead: the larger it is, the longer a
collection takes, and a store that fills must not cost one every second."""


def resident_bytes() -> int:
    """Return the resident size of this process; without /proc, the highest it ever had."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * sysconf("SC_PAGE_SIZE")
    except OSError:
        return getrusage(RUSAGE_SELF).ru_maxrss  # in bytes on macOS, the one such system we run on


class MemoryWatch:
    """Runs a full collection whenever the process has grown since the last one."""

    def __init__(
        self, size: Callable[[], int] = resident_bytes, collect: Callable[[], object] = gc.collect
    ) -> None:
        self._size = size
        self._collect = collect
        self._threshold = self._next()

    def look(self) -> None:
        """Collect if the process has grown enough since the last time."""
        if self._size() > self._threshold:
            self._collect()
            self._threshold = self._next()

    def repeat(self) -> None:
        """Look now, and again every second while the loop runs."""
        self.look()
        asyncio.get_running_loop().call_later(MEMORY_CHECK_INTERVAL_S, self.repeat)

    def _next(self) -> int:
        size = self._size()
        return size + max(MIN_GROWTH_BYTES, size // MIN_GROWTH_DIVISOR)


def tune_gc() -> None:
    """Collect seldom, and never what was made at the start; call it when all is up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GEN0_THRESHOLD, GEN1_THRESHOLD, GEN2_THRESHOLD)
    MemoryWatch().repeat()
