"""The gateway of one run: embedded on a thread of its own, or a running one; and its totals."""

from __future__ import annotations

import asyncio
import http.client
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from looptrap.admin.auth import configured_access
from looptrap.admin.metrics import exposition
from looptrap.admin.server import AdminServer
from looptrap.cli.client_program import Api, ConfiguredUrls
from looptrap.cli.gateway_client import GatewayClient
from looptrap.config import Config
from looptrap.config.kind import Address
from looptrap.config.provider import WELL_KNOWN, RouteSettings
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.gateway.state_file import GatewayState, StateFile
from looptrap.incident.model import Sighting
from looptrap.policy.action import Action, Ladder
from looptrap.policy.budget import Budget
from looptrap.policy.policy import Selector
from looptrap.wire.origin import Origin

STOP_GRACE_S = 1.0
"""Seconds for calls in flight when the command has ended."""

MAX_LOG_LINES = 20
"""Lines of the gateway's log that are shown at the end: the last ones."""

OPENAI_ROOTS = ("/chat/", "/completions", "/embeddings", "/models", "/responses")
"""Paths of OpenAI's API under a base URL without a path."""

LIMITS = ("budget", "rate")
"""Signals of refusals that are not about loops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """What passed a gateway."""

    calls: float = 0
    """Calls to models."""
    refused: float = 0
    """Calls refused as a loop."""
    warned: float = 0
    """Calls of a loop that were only warned of, or slowed down."""
    over_limit: float = 0
    """Calls refused by a budget or a rate."""
    incidents: float = 0
    tokens: float = 0
    cost_usd: float = 0
    unpriced: float = 0
    """Calls without a price."""
    saved_usd: float = 0

    @classmethod
    def read(cls, metrics: str) -> RunTotals:
        """Read the totals of a gateway from its metrics."""
        totals = dict.fromkeys(cls.__slots__, 0.0)
        for family in text_string_to_metric_families(metrics):
            for sample in family.samples:
                for name in _totals_of(sample.name, sample.labels):
                    totals[name] += sample.value
        return cls(**totals)

    def since(self, earlier: RunTotals) -> RunTotals:
        """Return what came after the earlier ones."""
        return RunTotals(
            **{name: getattr(self, name) - getattr(earlier, name) for name in self.__slots__}
        )


def _totals_of(metric: str, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the totals that a metric is part of."""
    match metric.removeprefix("looptrap_").removesuffix("_total"):
        case "requests" if labels["dialect"] != "http":
            yield "calls"
            if labels["signal"] in LIMITS:
                if labels["verdict"] in ("stop", "block"):
                    yield "over_limit"
            elif labels["verdict"] in ("stop", "block"):
                yield "refused"
            elif labels["verdict"] != "allow":
                yield "warned"
        case "tokens" if labels["kind"] in ("input", "output"):
            yield "tokens"
        case "cost_usd":
            yield "cost_usd"
        case "unpriced_calls":
            yield "unpriced"
        case "saved_usd":
            yield "saved_usd"
        case "incidents_opened":
            yield "incidents"


class LastLines(logging.Handler):
    """Keeps the last lines of the log, to be shown when the command has the terminal no more."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=MAX_LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(f"{record.levelname} {self.format(record)}")


class LatestRefusal:
    """Keeps why the latest call was refused: a program may not show it, or only in a trace."""

    def __init__(self) -> None:
        self.what = ""

    def start(self) -> None:
        """Do nothing: there is nothing to open."""

    def stop(self) -> None:
        """Do nothing: what is kept stays."""

    def add(self, entry: Sighting, /) -> None:
        """Keep what a refused call was refused for."""
        if entry.is_refused and entry.evidence:
            self.what = entry.evidence[0].what


class EmbeddedGateway:
    """A gateway on a free port of 127.0.0.1, on a thread with a loop of its own."""

    def __init__(self, config: Config, admin: Address | None) -> None:
        self.url = ""
        self.dashboard = ""
        self.log = LastLines()
        self.latest_refusal = LatestRefusal()
        self._totals = RunTotals()
        self._config = config
        self._admin = admin
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, name="looptrap-gateway", daemon=True)

    def start(self) -> None:
        """Start it; raise the ConfigError that prevents it."""
        logging.getLogger().addHandler(self.log)
        logging.captureWarnings(True)
        self._thread.start()
        self._ready.result()

    def stop(self) -> RunTotals | None:
        """Stop it; return what has passed it."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        logging.getLogger().removeHandler(self.log)
        logging.captureWarnings(False)
        return self._totals

    def _work(self) -> None:
        try:
            with (
                _keyless_state(self._config) as config,
                asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
            ):
                runner.run(self._serve(config))
        except BaseException as failure:  # noqa: BLE001 - raised by the thread that waits
            if not self._ready.done():
                self._ready.set_exception(failure)

    async def _serve(self, config: Config) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        app = App(config, os.environ, sighting_log=self.latest_refusal)
        admin = None
        if self._admin is not None:
            admin = AdminServer(app, self._admin, configured_access(config, os.environ))
        [listening] = await app.start()
        try:
            if admin is not None:
                self.dashboard = f"http://{Address(*await admin.start())}/"
            self.url = f"http://{Address(*listening)}"
            self._ready.set_result(None)
            await self._stopped.wait()
        finally:
            await app.stop()
            if admin is not None:
                await admin.stop()
        self._totals = RunTotals.read(exposition(app).decode())


@contextmanager
def _keyless_state(config: Config) -> Iterator[Config]:
    """Give the configuration a state file without gateway keys: the command has none.

    The digest secret is that of `looptrap serve` in this folder, if there is one.
    """
    known = StateFile(config.gateway.state).read()
    with TemporaryDirectory(prefix="looptrap-run-") as folder:
        state = str(Path(folder, "state"))
        if known is not None:
            StateFile(state).update(lambda _new: GatewayState(secret=known.secret))
        yield replace(config, gateway=replace(config.gateway, state=state))


def run_config(config: Config, configured: ConfiguredUrls, budget_usd: float | None) -> Config:
    """Return a configuration for one run: on a free local port, and silent."""
    gateway = replace(
        config.gateway,
        listen=Address("127.0.0.1", 0),
        tls_cert=None,
        tls_key=None,
        access_log="off",
        decision_log="off",
        grace=STOP_GRACE_S,
    )
    budgets = config.budgets
    if budget_usd is not None:
        # With a shared store, each run has an account of its own.
        name = f"run-{token_hex(4)}"
        budget = Budget(
            name=name,
            by=("gateway",),
            limit_usd=budget_usd,
            stages=Ladder({Action.WARN: 80, Action.BLOCK: 100}),
            # Agents allow answers that cost dollars, and get some that cost cents.
            reserve="typical",
        )
        budgets += (budget,)
    return _with_upstreams(replace(config, gateway=gateway, budgets=budgets), configured)


def _with_upstreams(config: Config, configured: ConfiguredUrls) -> Config:
    """Return the configuration with the URLs that the user has set as providers."""
    named = {provider.name for provider in config.providers}
    providers, prefixes = list(config.providers), dict[str, Api]()
    for api, known in configured.items():
        if api not in named:
            providers.append(replace(WELL_KNOWN[api], base_url=(known.url,)))
        if known.path == known.form.path:
            continue  # the well-known route of this API
        if known.path:
            prefixes[f"{known.path}/"] = api
        elif api == "openai":
            prefixes |= dict.fromkeys(OPENAI_ROOTS, api)
        if api == "anthropic":
            prefixes[f"{known.path}/v1/messages"] = api
    routes = [
        RouteSettings(select=Selector(path_prefix=prefix), provider=prefixes[prefix])
        for prefix in sorted(prefixes, key=len, reverse=True)
    ]
    return replace(config, providers=tuple(providers), routes=(*config.routes, *routes))


class RunningGateway:
    """A gateway that runs already, and its admin address."""

    def __init__(self, url: str, admin: str, token_env: str | None) -> None:
        self.url = url
        self.dashboard = f"http://{admin}/"
        self.log = LastLines()
        self.latest_refusal = LatestRefusal()  # unknown: its incidents are on its dashboard
        self._client = GatewayClient(admin, token_env)
        self._before: RunTotals | None = None

    def start(self) -> None:
        """Check that it answers, and note what has passed it so far."""
        _check_gateway(self.url)
        self._before = self._read_totals()

    def stop(self) -> RunTotals | None:
        """Return what has passed it since then; None where its admin address does not answer."""
        if self._before is None:
            return None
        now = self._read_totals()
        return now.since(self._before) if now is not None else None

    def _read_totals(self) -> RunTotals | None:
        try:
            return RunTotals.read(self._client.read_text("/metrics"))
        except ConfigError:
            return None


def _check_gateway(url: str) -> None:
    """Raise ConfigError unless a gateway answers at the URL."""
    origin, path = Origin.of(url)
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    try:
        with closing(kinds[origin.scheme](origin.host, origin.port, timeout=10.0)) as connection:
            connection.request("GET", f"{path}/looptrap/decision")
            request_id = connection.getresponse().getheader("x-request-id", "")
        problem = "is not a gateway"
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        request_id, problem = "", f"does not answer ({why.lower()})"
    if not request_id.startswith("lt-"):
        raise ConfigError([Problem("--gateway", f"{origin.authority} {problem}")])
