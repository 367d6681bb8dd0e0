"""Metrics: plain counters of the gateway, made into Prometheus's form when it asks."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from looptrap.gateway.app import App
from looptrap.store.memory import MemoryStore
from looptrap.store.redis import RedisStore

SHARED = {
    "errors": "Failures of the shared store.",
    "asked": "Calls that the shared store was asked about.",
    "batches": "Commands in which it was asked.",
}
"""Counters of a shared store."""


class GatewayCollector(Collector):
    """Reads the gateway's counters at the moment of a scrape; counting itself costs nothing."""

    def __init__(self, app: App) -> None:
        self._app = app

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from self._verdicts()
        yield from self._upstream()
        yield from self._wire()
        yield from self._store()
        yield self._capture()

    def _verdicts(self) -> Iterator[Metric]:
        tally = self._app.tally
        requests = CounterMetricFamily(
            "looptrap_requests", "Requests judged, by what was done.", labels=["verdict"]
        )
        for action, number in tally.verdicts.items():
            requests.add_metric([action.value], number)
        yield requests
        rules = CounterMetricFamily(
            "looptrap_rule_verdicts",
            "Requests on which a rule acted, or in shadow mode would have.",
            labels=["policy", "rule", "verdict", "mode"],
        )
        for counted, mode in ((tally.rules, "enforce"), (tally.shadow_rules, "shadow")):
            for (policy, rule, action), number in counted.items():
                rules.add_metric([policy, rule, action.value, mode], number)
        yield rules

    def _upstream(self) -> Iterator[Metric]:
        tally, pools = self._app.tally, list(self._app.pools)
        answers = CounterMetricFamily(
            "looptrap_upstream_answers",
            "Calls forwarded, by the provider's status; 0 when it never answered.",
            labels=["status"],
        )
        for status, number in tally.statuses.items():
            answers.add_metric([str(status)], number)
        yield answers
        tokens = CounterMetricFamily(
            "looptrap_tokens", "Tokens that providers reported.", labels=["kind"]
        )
        tokens.add_metric(["input"], tally.input_tokens)
        tokens.add_metric(["output"], tally.output_tokens)
        yield tokens
        connections = CounterMetricFamily(
            "looptrap_upstream_connections",
            "Connections to providers: opened, reused, retried after one was found dead.",
            labels=["event"],
        )
        connections.add_metric(["opened"], sum(pool.opened for pool in pools))
        connections.add_metric(["reused"], sum(pool.reused for pool in pools))
        connections.add_metric(["retried"], sum(pool.retried_stale for pool in pools))
        yield connections
        yield GaugeMetricFamily(
            "looptrap_upstream_in_flight",
            "Calls that wait for their provider.",
            value=sum(pool.in_flight for pool in pools),
        )

    def _wire(self) -> Iterator[Metric]:
        server = self._app.server
        yield GaugeMetricFamily(
            "looptrap_connections", "Clients connected.", value=server.connections
        )
        yield GaugeMetricFamily(
            "looptrap_buffered_bytes", "Request bytes held.", value=server.buffered_bytes
        )
        refused = CounterMetricFamily(
            "looptrap_wire_refusals",
            "What the wire itself refused: bad requests, overload, connections over the cap.",
            labels=["kind"],
        )
        refused.add_metric(["bad_request"], server.bad_requests)
        refused.add_metric(["overload"], server.overloads)
        refused.add_metric(["connection"], server.refused_connections)
        yield refused
        yield CounterMetricFamily(
            "looptrap_disconnects",
            "Clients that left before their answer was complete.",
            value=server.disconnects,
        )
        yield CounterMetricFamily(
            "looptrap_internal_errors", "Requests that failed inside.", value=server.handler_errors
        )

    def _store(self) -> Iterator[Metric]:
        store = self._app.store
        local = store if isinstance(store, MemoryStore) else None
        shared = store if isinstance(store, RedisStore) else None
        yield GaugeMetricFamily(
            "looptrap_store_fingerprints",
            "Fingerprints tracked in this process.",
            value=len(local) if local is not None else 0,
        )
        yield CounterMetricFamily(
            "looptrap_store_evictions",
            "Fingerprints dropped before their time because the store was full.",
            value=local.evicted if local is not None else 0,
        )
        yield GaugeMetricFamily(
            "looptrap_store_degraded",
            "Whether the shared store is away, and this instance counts alone.",
            value=int(shared is not None and shared.is_degraded),
        )
        for name, help_text in SHARED.items():
            value = getattr(shared, name) if shared is not None else 0
            yield CounterMetricFamily(f"looptrap_store_{name}", help_text, value=value)
        yield CounterMetricFamily(
            "looptrap_store_ignored",
            "Entries that instances share and that could not be used.",
            value=self._app.ignored,
        )

    def _capture(self) -> Metric:
        capture = self._app.capture
        calls = CounterMetricFamily(
            "looptrap_captured_calls",
            "Calls to be captured: written, without room to wait, or failed to be written.",
            labels=["outcome"],
        )
        for outcome in ("written", "overflowed", "failed"):
            calls.add_metric([outcome], getattr(capture, outcome) if capture is not None else 0)
        return calls


def exposition(app: App) -> bytes:
    """Return all metrics in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(GatewayCollector(app))
    return generate_latest(registry)
