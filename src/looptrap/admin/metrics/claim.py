"""Tokens whose claims were not believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from looptrap.gateway.claims.content import Reason


def metrics(refused: Counter[Reason]) -> Iterator[Metric]:
    """Yield how many there were, by why they were not."""
    claims = CounterMetricFamily(
        "looptrap_claims_refused",
        "Tokens whose claims were not believed, by the reason.",
        labels=["reason"],
    )
    for reason, number in dict(refused).items():
        claims.add_metric([reason], number)
    yield claims
