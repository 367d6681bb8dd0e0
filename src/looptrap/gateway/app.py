"""The composition root: a configuration becomes a running gateway."""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from os import sysconf
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

from looptrap.config import Config
from looptrap.config.kind import MEMORY
from looptrap.engine import Counters
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.access_log import AccessLog
from looptrap.gateway.auth import check_exposure, is_loopback
from looptrap.gateway.capture import Capture
from looptrap.gateway.decision_log import decision_log
from looptrap.gateway.handler import Gateway
from looptrap.gateway.judge import Judge
from looptrap.gateway.jwt_claims import ClaimsReader
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.repeats import Repeats
from looptrap.gateway.runtime import Runtime
from looptrap.gateway.shared_settings import SharedEntries, SharedSettings, key_cache_file
from looptrap.gateway.state_file import StateFile, digest_secret, secret_from_env
from looptrap.gateway.tls import os_error_text, server_tls_context, upstream_ca_file
from looptrap.gateway.trace import Tracer
from looptrap.gateway.upstream import UpstreamState
from looptrap.incident.recorder import IncidentRecorder
from looptrap.store.memory import MemoryStore
from looptrap.store.redis import RedisStore
from looptrap.wire.pool import Pools
from looptrap.wire.server import Server

KEYS_POLL_INTERVAL_S = 1.0
"""Seconds between two looks at the state file."""

log = logging.getLogger("looptrap")


class App:
    """One gateway: its store, its keys, its listener and its connections to providers."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        gateway = config.gateway
        self.config = config
        self._env = env
        self._clock = clock
        self.started = clock()
        self.listening: list[tuple[str, int]] = []
        self._state = StateFile(gateway.state)
        self.store = self._new_store()
        self._secret = self._first_secret()
        self.ring = KeyRing(self._state)
        self._agreement = self._new_agreement()
        remembered = key_cache_file(config) if isinstance(self.store, RedisStore) else None
        self.agreed = SharedSettings(self._agreement, self.ring, clock, remembered=remembered)
        if isinstance(self.store, MemoryStore):
            self._check_exposure()
        self.tally = Counters()
        self.pools = Pools(gateway.upstream_limits, environ=env, ca_file=upstream_ca_file(gateway))
        self.capture = self._new_capture()
        form = gateway.access_log
        self._access_log = AccessLog(form, clock) if form != "off" else None
        self.tracer = Tracer.of(config.traces, env)
        shared = self.store if isinstance(self.store, RedisStore) else None
        log_form = gateway.decision_log
        self.desk = IncidentRecorder(
            config,
            env,
            secret=self._secret,
            store=shared,
            log=None if log_form == "off" else decision_log(log_form),
            estimate=lambda call: self.gateway.runtime.input_cost(call),
            clock=clock,
        )
        self.attempts = UpstreamState(tell=self.desk.alert, store=shared, wall_clock=clock)
        self.claims = ClaimsReader.under(gateway)
        self.gateway = Gateway(
            self._runtime(config),
            self.pools,
            Judge(self.store, fails_closed=config.on_store_error == "block"),
            on_settled=self._access_log,
            capture=self.capture,
            attempts=self.attempts,
            recorder=self.desk,
            tracer=self.tracer,
            clock=clock,
        )
        self.server = Server(
            self.gateway,
            gateway.server_limits,
            refuse=self.gateway.refuse,
            on_error=_log_handler_error,
        )
        self._repeats = Repeats()
        self._keys_timer: asyncio.TimerHandle | None = None

    async def start(self, *, reuse_port: bool = False) -> list[tuple[str, int]]:
        """Listen, with others at the same port if need be; return the addresses and ports found."""
        settings = self.config.gateway
        tls = server_tls_context(settings)
        self._repeats.install()
        if self._access_log is not None:
            self._access_log.start()
        if self.capture is not None:
            self.capture.start()
        if self.tracer is not None:
            self.tracer.start()
        if isinstance(self.store, RedisStore):
            await self.store.start()
            await self._agreement.start()
        try:
            await self.desk.start()
            self._check_exposure()
            host, port = settings.listen.host, settings.listen.port
            self.listening = await self.server.listen(host, port, ssl=tls, reuse_port=reuse_port)
        except OSError as error:
            await self.stop()
            raise ConfigError(
                [
                    Problem(
                        "gateway.listen",
                        f"cannot listen at {settings.listen}: {os_error_text(error)}",
                    )
                ]
            ) from None
        except ConfigError:
            await self.stop()
            raise
        if warning := self._state.exposure():
            log.warning("%s", warning)
        self._look_at_keys()
        return self.listening

    async def stop(self) -> None:
        """Take no more, wake who sleeps, finish what is in flight within the grace, close."""
        if self._keys_timer is not None:
            self._keys_timer.cancel()
        self.gateway.forward_delayed()
        await self.server.close(self.config.gateway.grace)
        self.gateway.close()
        await self.pools.close()
        await self.attempts.stop()
        await self.desk.stop()
        await self._agreement.stop()
        if isinstance(self.store, RedisStore):
            await self.store.stop()
        if self._access_log is not None:
            await asyncio.to_thread(self._access_log.stop)
        if self.capture is not None:
            await asyncio.to_thread(self.capture.stop)
        if self.tracer is not None:
            await asyncio.to_thread(self.tracer.close)
        self._repeats.uninstall()

    def reload(self, config: Config) -> list[str]:
        """Go on under another configuration; counts, cooldowns and connections stay.

        Return the settings that changed and take effect only at the next start.
        """
        claims = ClaimsReader.under(config.gateway, self.claims.refused)
        self.gateway.runtime = self._runtime(config, claims)
        self.claims = claims
        waiting = self.config.pending_restart(config)
        self.config = config
        return waiting

    def _runtime(self, config: Config, claims: ClaimsReader | None = None) -> Runtime:
        return Runtime(
            self.agreed.over(config),
            claims=claims or self.claims,
            clock=self._clock,
            env=self._env,
            secret=self._secret,
            ring=self.ring,
            tally=self.tally,
        )

    def _new_store(self) -> MemoryStore | RedisStore:
        config = self.config
        if config.store == MEMORY:
            return MemoryStore(config.max_fingerprints)
        return RedisStore(
            config.store,
            timeout=config.store_timeout,
            max_fingerprints=config.max_fingerprints,
            clock=self._clock,
        )

    def _first_secret(self) -> bytes:
        """Return the secret to begin with; with a shared store, until that is heard."""
        if isinstance(self.store, RedisStore):
            return secret_from_env(self._env) or secrets.token_bytes(32)
        return digest_secret(self._state, self._env)

    @property
    def ignored(self) -> int:
        """How many entries that instances share could not be used."""
        return self._agreement.ignored

    def _new_agreement(self) -> SharedEntries:
        return SharedEntries(
            self.store if isinstance(self.store, RedisStore) else None,
            secret=self._secret if secret_from_env(self._env) is None else None,
            on_secret=self._adopt,
            on_change=self._follow,
        )

    def _check_exposure(self) -> None:
        """Refuse to serve just anybody; whether a store that is away has keys is not known."""
        settings = self.config.gateway
        is_known = isinstance(self.store, MemoryStore) or self._agreement.is_heard
        may_be_open = settings.allow_anonymous or is_loopback(settings.listen.host)
        if not is_known and not may_be_open:
            log.warning("the store has not said which keys there are: everybody is asked for one")
            self.ring.require()
        check_exposure(
            settings.listen.host,
            has_keys=self.ring.has_keys,
            allow_anonymous=settings.allow_anonymous,
        )

    def _follow(self) -> None:
        """Take up what was changed at run time, here or on another instance."""
        if self.agreed.follow():
            self.gateway.runtime = self._runtime(self.config)

    def _adopt(self, secret: bytes) -> None:
        """Make digests as the other instances do."""
        self._secret = secret
        self.gateway.runtime = self._runtime(self.config)
        self.desk.rekey(secret)
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
            secret=self._secret,
            clock=self._clock,
        )

    def _look_at_keys(self) -> None:
        self._keys_timer = asyncio.get_running_loop().call_later(
            KEYS_POLL_INTERVAL_S, self._look_at_keys
        )
        self._repeats.tell()
        try:
            self.ring.refresh()
        except ConfigError as error:
            log.error("%s", error)


def _log_handler_error(error: Exception) -> None:
    log.error("a request failed inside the gateway", exc_info=error)


GEN0_THRESHOLD, GEN1_THRESHOLD, GEN2_THRESHOLD = 20_000, 20, 20
"""Python's own are 700, 10 and 10. What a request leaves is freed without the collector, since
nothing of it is kept in a circle, and looking for that again and again costs a tenth of the CPU."""

EVERY = 1.0
"""Seconds between two looks at the size of the process."""

STEP = 64 << 20
"""Bytes by which the process may grow before everything is looked through. The thresholds above
count objects, and a circle of three may hold a body of megabytes: an exception with its traceback
makes one easily."""

SHARE = 4
"""A process of 1 GB may grow by this part of its size instead: the larger it is, the longer a look
takes, and a store that fills must not cost one every second."""

_STATM = Path("/proc/self/statm")
_PAGE = sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Return the bytes that this process holds; where there is no /proc, the most it ever held."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return getrusage(RUSAGE_SELF).ru_maxrss  # in bytes on macOS, the one such system we run on


class MemoryWatch:
    """Runs a full collection whenever the process has grown since the last one."""

    def __init__(
        self, size: Callable[[], int] = resident, collect: Callable[[], object] = gc.collect
    ) -> None:
        self._size = size
        self._collect = collect
        self._most = self._next()

    def look(self) -> None:
        """Collect if the process has grown by a step since the last time."""
        if self._size() > self._most:
            self._collect()
            self._most = self._next()

    def repeat(self) -> None:
        """Look now, and again every second for as long as the loop runs."""
        self.look()
        asyncio.get_running_loop().call_later(EVERY, self.repeat)

    def _next(self) -> int:
        size = self._size()
        return size + max(STEP, size // SHARE)


def tune_gc() -> None:
    """Look seldom, and never again at what was made at the start; call it when all is up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GEN0_THRESHOLD, GEN1_THRESHOLD, GEN2_THRESHOLD)
    MemoryWatch().repeat()
