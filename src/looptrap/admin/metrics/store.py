"""Who counts, and what is kept of calls."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from looptrap.gateway.app import App
from looptrap.gateway.capture import Capture
from looptrap.store.memory import MemoryStore
from looptrap.store.redis import RedisStore

SHARED = {
    "errors": "Failures of the shared store.",
    "asked": "Calls that the shared store was asked about.",
    "batches": "Commands in which it was asked.",
}
"""Counters of a shared store."""


def metrics(app: App) -> Iterator[Metric]:
    """Yield what stores and captures count."""
    local = app.store if isinstance(app.store, MemoryStore) else None
    shared = app.store if isinstance(app.store, RedisStore) else None
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
        value=app.ignored,
    )
    yield _captured(app.capture)


def _captured(capture: Capture | None) -> Metric:
    calls = CounterMetricFamily(
        "looptrap_captured_calls",
        "Calls to be captured: written, without room to wait, or failed to be written.",
        labels=["outcome"],
    )
    for outcome in ("written", "overflowed", "failed"):
        calls.add_metric([outcome], getattr(capture, outcome) if capture is not None else 0)
    return calls
