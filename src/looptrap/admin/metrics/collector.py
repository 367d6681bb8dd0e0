"""Everything there is to scrape of one gateway."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from looptrap.admin.metrics import attempt, claim, incident, money, store, upstream, verdict, wire
from looptrap.gateway.app import App


class GatewayCollector(Collector):
    """Reads the gateway's numbers at the moment of a scrape."""

    def __init__(self, app: App) -> None:
        self._app = app

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        app = self._app
        yield from verdict.metrics(app.tally)
        yield from upstream.metrics(app.tally, list(app.pools))
        yield from money.metrics(app.tally, app.desk.numbers.saved)
        yield from attempt.metrics(app.attempts)
        yield from wire.metrics(app.server)
        yield from claim.metrics(app.claims.refused)
        yield from store.metrics(app)
        yield from incident.metrics(app.desk.numbers)


def exposition(app: App) -> bytes:
    """Return all metrics in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(GatewayCollector(app))
    return generate_latest(registry)
