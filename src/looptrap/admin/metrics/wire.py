"""Clients and their connections."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from looptrap.wire.server import Server


def metrics(server: Server) -> Iterator[Metric]:
    """Yield what the listener counts."""
    yield GaugeMetricFamily("looptrap_connections", "Clients connected.", value=server.connections)
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
