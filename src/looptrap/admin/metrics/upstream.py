"""What became of calls at the providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from looptrap.admin.metrics.verdict import NONE, buckets
from looptrap.admission import Tally
from looptrap.admission.tally import Kind
from looptrap.wire.pool import Pool


def metrics(tally: Tally, pools: Sequence[Pool]) -> Iterator[Metric]:
    """Yield what providers answered, and how soon."""
    answers = CounterMetricFamily(
        "looptrap_upstream_answers",
        "Calls forwarded, by the provider's status; 0: it never answered, 499: the client left.",
        labels=["provider", "status"],
    )
    counted: Counter[tuple[str, str]] = Counter()
    for key, (number,) in list(tally.requests.items()):
        kind = Kind(*key)
        if kind.status >= 0:
            counted[kind.provider or NONE, str(kind.status)] += number
    for labels, total in counted.items():
        answers.add_metric(labels, total)
    yield answers
    first_bytes = HistogramMetricFamily(
        "looptrap_first_byte_seconds",
        "How long providers took to begin their answers.",
        labels=["provider"],
    )
    for provider, histogram in list(tally.first_bytes.items()):
        first_bytes.add_metric([provider or NONE], buckets(histogram), histogram.total)
    yield first_bytes
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
