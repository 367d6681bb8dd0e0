"""The composition root: a configuration becomes a running gateway."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from looptrap.config import Config
from looptrap.config.gateway import GatewaySettings
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.access_log import AccessLog
from looptrap.gateway.auth import check_exposure
from looptrap.gateway.handler import Gateway
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.runtime import Runtime
from looptrap.gateway.state import StateFile, digest_secret
from looptrap.guard import Tally
from looptrap.store.memory import MemoryStore
from looptrap.wire.flight import UpstreamLimits
from looptrap.wire.limits import ServerLimits
from looptrap.wire.pools import Pools
from looptrap.wire.server import Server

RELOADED = frozenset(
    ("upstream", "relay_compressed", "decision_status", "decision_token_env", "grace")
)
"""Settings of the gateway that a reload can change."""

KEYS_INTERVAL = 1.0
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
        self._state = StateFile(gateway.state)
        self._secret = digest_secret(self._state, env)
        self.ring = KeyRing(self._state)
        check_exposure(
            gateway.listen.host,
            has_keys=self.ring.has_keys,
            allow_anonymous=gateway.allow_anonymous,
        )
        self.store = MemoryStore(config.max_fingerprints)
        self.tally = Tally()
        self.pools = Pools(_upstream_limits(gateway), environ=env, ca_file=_authorities(gateway))
        self.gateway = Gateway(
            self._runtime(config), self.pools, on_settled=self._access_log(), clock=clock
        )
        self.server = Server(
            self.gateway, _server_limits(gateway), refuse=self.gateway.refuse, on_error=_report
        )
        self._keys_timer: asyncio.TimerHandle | None = None

    async def start(self) -> list[tuple[str, int]]:
        """Listen; return the addresses, with the port found for 0."""
        settings = self.config.gateway
        tls = _tls(settings)
        try:
            bound = await self.server.listen(settings.listen.host, settings.listen.port, ssl=tls)
        except OSError as error:
            raise ConfigError(
                [Problem("gateway.listen", f"cannot listen at {settings.listen}: {_why(error)}")]
            ) from None
        if warning := self._state.exposure():
            log.warning("%s", warning)
        self._look_at_keys()
        return bound

    async def stop(self) -> None:
        """Take no more, wake who sleeps, finish what is in flight within the grace, close."""
        if self._keys_timer is not None:
            self._keys_timer.cancel()
        self.gateway.wake_all()
        await self.server.close(self.config.gateway.grace)
        await self.pools.close()

    def reload(self, config: Config) -> list[str]:
        """Go on under another configuration; counts, cooldowns and connections stay.

        Return the settings that changed and take effect only at the next start.
        """
        self.gateway.runtime = self._runtime(config)
        before, now = asdict(self.config.gateway), asdict(config.gateway)
        self.config = config
        return [name for name in now if now[name] != before[name] and name not in RELOADED]

    def _runtime(self, config: Config) -> Runtime:
        return Runtime(
            config,
            env=self._env,
            secret=self._secret,
            ring=self.ring,
            store=self.store,
            tally=self.tally,
        )

    def _access_log(self) -> AccessLog | None:
        form = self.config.gateway.access_log
        return AccessLog(form, _print, self._clock) if form != "off" else None

    def _look_at_keys(self) -> None:
        self._keys_timer = asyncio.get_running_loop().call_later(KEYS_INTERVAL, self._look_at_keys)
        try:
            self.ring.refresh()
        except ConfigError as error:
            log.error("%s", error)


def _print(line: str) -> None:
    """Write a line of the access log at once; where nobody reads it, calls must not suffer."""
    with suppress(OSError):
        sys.stdout.write(line)
        sys.stdout.flush()


def _server_limits(settings: GatewaySettings) -> ServerLimits:
    return ServerLimits(
        max_head=settings.max_head,
        max_headers=settings.max_headers,
        max_target=settings.max_target,
        max_body=settings.max_body,
        max_connections=settings.max_connections,
        max_buffered=settings.max_buffered,
        head_timeout=settings.head_timeout,
        body_timeout=settings.body_timeout,
        keepalive_timeout=settings.keepalive_timeout,
        write_timeout=settings.write_timeout,
    )


def _upstream_limits(settings: GatewaySettings) -> UpstreamLimits:
    return UpstreamLimits(
        connect_timeout=settings.connect_timeout,
        first_byte_timeout=settings.first_byte_timeout,
        idle_timeout=settings.idle_timeout,
    )


def _authorities(settings: GatewaySettings) -> Path | None:
    if settings.upstream_ca is None:
        return None
    try:
        ssl.create_default_context(cafile=settings.upstream_ca)
    except OSError as error:
        problem = Problem("gateway.upstream_ca", f"{settings.upstream_ca}: {_why(error)}")
        raise ConfigError([problem]) from None
    return Path(settings.upstream_ca)


def _tls(settings: GatewaySettings) -> ssl.SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:
        where = f"{settings.tls_cert}, {settings.tls_key}"
        raise ConfigError([Problem("gateway.tls_cert", f"{where}: {_why(error)}")]) from None
    return context


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _report(error: Exception) -> None:
    log.error("a request failed inside the gateway", exc_info=error)
