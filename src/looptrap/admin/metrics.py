"""Metrics: the gateway's numbers in Prometheus's text format, read at the moment of a scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from looptrap.engine import Counters
from looptrap.engine.counters import Histogram, RequestKind
from looptrap.gateway.app import App
from looptrap.gateway.jwt_claims import RejectionReason
from looptrap.gateway.upstream import UpstreamState
from looptrap.incident.recorder import RecorderStats
from looptrap.store.memory import MemoryStore
from looptrap.store.redis import RedisStore
from looptrap.usage.savings import usd
from looptrap.wire.pool import Pool
from looptrap.wire.server import Server

NO_LABEL = "none"
"""The value of a label that is empty."""

TOKEN_KINDS = ("input", "output", "cached", "reasoning", "audio")
"""Cached tokens are part of the input, those of reasoning of the output."""

SHARED_STORE_COUNTERS = {
    "errors": "Failures of the shared store.",
    "asked": "Calls that the shared store was asked about.",
    "batches": "Commands in which it was asked.",
}

ATTEMPT_COUNTERS = {
    "attempts": "Requests sent to a provider on routes with attempts, a chain or a deadline.",
    "retries": "Of these, further ones at the same link.",
    "failovers": "Of these, those that came because another link had failed or was left alone.",
}

Samples = Mapping[Any, float]
"""Values by a tuple of label values."""


def exposition(app: App) -> bytes:
    """Return all metrics in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(GatewayCollector(app))
    return generate_latest(registry)


class GatewayCollector(Collector):
    """Reads the gateway's numbers at the moment of a scrape."""

    def __init__(self, app: App) -> None:
        self._app = app

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        app = self._app
        yield from _verdict_metrics(app.tally)
        yield from _upstream_metrics(app.tally, list(app.pools))
        yield from _money_metrics(app.tally, app.desk.stats.saved)
        yield from attempt_metrics(app.attempts)
        yield from _wire_metrics(app.server)
        yield _claim_metric(app.claims.refused)
        yield from _store_metrics(app)
        yield from _incident_metrics(app.desk.stats)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"looptrap_{name}", help_text, value=value)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"looptrap_{name}", help_text, value=value)


def _counters(name: str, help_text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _labelled(CounterMetricFamily(f"looptrap_{name}", help_text, labels=labels), samples)


def _gauges(name: str, help_text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _labelled(GaugeMetricFamily(f"looptrap_{name}", help_text, labels=labels), samples)


def _labelled(family: CounterMetricFamily | GaugeMetricFamily, samples: Samples) -> Metric:
    for labels, value in samples.items():
        family.add_metric(labels, value)
    return family


def _histogram(
    name: str,
    help_text: str,
    labels: Sequence[str],
    histograms: Iterable[tuple[Sequence[str], Histogram]],
) -> Metric:
    family = HistogramMetricFamily(f"looptrap_{name}", help_text, labels=labels)
    for values, histogram in histograms:
        family.add_metric(values, cumulative_buckets(histogram), histogram.total)
    return family


def cumulative_buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the number of values up to each bound, as Prometheus counts them."""
    found, total = [], 0
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for bound, number in zip(bounds, histogram.counts, strict=True):
        total += number
        found.append((bound, float(total)))
    return found


def _verdict_metrics(tally: Counters) -> Iterator[Metric]:
    requests: Counter[tuple[str, ...]] = Counter()
    for key, (number,) in list(tally.requests.items()):
        kind = RequestKind(*key)
        why = (kind.rule or NO_LABEL, kind.signal or NO_LABEL)
        requests[kind.verdict, *why, kind.dialect, kind.provider or NO_LABEL] += number
    yield _counters(
        "requests",
        "Requests judged, by what was done and why, and where they went.",
        ["verdict", "rule", "signal", "dialect", "provider"],
        requests,
    )
    yield _counters(
        "rule_verdicts",
        "Requests on which a rule acted, or in shadow mode would have.",
        ["policy", "rule", "verdict", "mode"],
        {
            (policy, rule, action.value, mode): times
            for acted, mode in ((tally.rules, "enforce"), (tally.shadow_rules, "shadow"))
            for (policy, rule, action), times in list(acted.items())
        },
    )
    yield _histogram(
        "decision_seconds", "How long it took to judge a call.", [], [([], tally.decisions)]
    )


def _upstream_metrics(tally: Counters, pools: Sequence[Pool]) -> Iterator[Metric]:
    answers: Counter[tuple[str, ...]] = Counter()
    for key, (number,) in list(tally.requests.items()):
        kind = RequestKind(*key)
        if kind.status >= 0:
            answers[kind.provider or NO_LABEL, str(kind.status)] += number
    yield _counters(
        "upstream_answers",
        "Calls forwarded, by the provider's status; 0: it never answered, 499: the client left.",
        ["provider", "status"],
        answers,
    )
    yield _histogram(
        "first_byte_seconds",
        "How long providers took to begin their answers.",
        ["provider"],
        [([provider or NO_LABEL], one) for provider, one in list(tally.first_bytes.items())],
    )
    yield _counters(
        "upstream_connections",
        "Connections to providers: opened, reused, retried after one was found dead.",
        ["event"],
        {
            ("opened",): sum(pool.opened for pool in pools),
            ("reused",): sum(pool.reused for pool in pools),
            ("retried",): sum(pool.retried_stale for pool in pools),
        },
    )
    in_flight = sum(pool.in_flight for pool in pools)
    yield _gauge("upstream_in_flight", "Calls that wait for their provider.", in_flight)


def _money_metrics(tally: Counters, saved: int) -> Iterator[Metric]:
    """Yield tokens and dollars; `saved` is in nano-dollars."""
    used = {
        (provider or NO_LABEL, model or NO_LABEL): one
        for (provider, model), one in list(tally.used.items())
    }
    labels = ["provider", "model"]
    yield _counters(
        "tokens",
        "Tokens that calls used.",
        [*labels, "kind"],
        {
            (*key, kind): getattr(one, f"{kind}_tokens")
            for key, one in used.items()
            for kind in TOKEN_KINDS
        },
    )
    yield _counters(
        "cost_usd",
        "What calls cost, in dollars.",
        labels,
        {key: usd(one.cost) for key, one in used.items()},
    )
    yield _counters(
        "unpriced_calls",
        "Calls to models without a price.",
        labels,
        {key: one.unpriced for key, one in used.items()},
    )
    yield _counters(
        "estimated_calls",
        "Calls whose usage was estimated from their size.",
        labels,
        {key: one.estimated for key, one in used.items()},
    )
    yield _counters(
        "caller_cost_usd",
        "What calls cost, in dollars, by caller and project.",
        ["caller", "project"],
        {
            (caller or NO_LABEL, project or NO_LABEL): usd(nano)
            for (caller, project), (nano,) in list(tally.caller_costs.items())
        },
    )
    yield _counter(
        "saved_usd",
        "What calls that were refused for a loop would have cost, in dollars.",
        usd(saved),
    )


def attempt_metrics(upstream: UpstreamState) -> Iterator[Metric]:
    """Yield attempts by provider, and circuits by state."""
    for name, help_text in ATTEMPT_COUNTERS.items():
        by_provider = list(getattr(upstream, name).items())
        samples = {(provider,): number for provider, number in by_provider}
        yield _counters(name, help_text, ["provider"], samples)
    states: Counter[tuple[str, ...]] = Counter(
        (key.provider, "provider" if key.credential is None else "credential", state)
        for key, state in upstream.states()
    )
    yield _gauges(
        "breakers",
        "Circuits that are not closed: of providers, and of single credentials there.",
        ["provider", "circuit", "state"],
        states,
    )


def _wire_metrics(server: Server) -> Iterator[Metric]:
    yield _gauge("connections", "Clients connected.", server.connections)
    yield _gauge("buffered_bytes", "Request bytes held.", server.buffered_bytes)
    yield _counters(
        "wire_refusals",
        "What the wire itself refused: bad requests, overload, connections over the cap.",
        ["kind"],
        {
            ("bad_request",): server.bad_requests,
            ("overload",): server.overloads,
            ("connection",): server.refused_connections,
        },
    )
    yield _counter(
        "disconnects", "Clients that left before their answer was complete.", server.disconnects
    )
    yield _counter("internal_errors", "Requests that failed inside.", server.handler_errors)


def _claim_metric(refused: Counter[RejectionReason]) -> Metric:
    return _counters(
        "claims_refused",
        "Tokens whose claims were not believed, by the reason.",
        ["reason"],
        {(reason,): number for reason, number in dict(refused).items()},
    )


def _store_metrics(app: App) -> Iterator[Metric]:
    local = app.store if isinstance(app.store, MemoryStore) else None
    shared = app.store if isinstance(app.store, RedisStore) else None
    yield _gauge(
        "store_fingerprints",
        "Fingerprints tracked in this process.",
        len(local) if local is not None else 0,
    )
    yield _counter(
        "store_evictions",
        "Fingerprints dropped before their time because the store was full.",
        local.evicted if local is not None else 0,
    )
    yield _gauge(
        "store_degraded",
        "Whether the shared store is away, and this instance counts alone.",
        int(shared is not None and shared.is_degraded),
    )
    for name, help_text in SHARED_STORE_COUNTERS.items():
        value = getattr(shared, name) if shared is not None else 0
        yield _counter(f"store_{name}", help_text, value)
    yield _counter(
        "store_ignored", "Entries that instances share and that could not be used.", app.ignored
    )
    yield _counters(
        "captured_calls",
        "Calls to be captured: written, without room to wait, or failed to be written.",
        ["outcome"],
        {
            (outcome,): getattr(app.capture, outcome) if app.capture is not None else 0
            for outcome in ("written", "overflowed", "failed")
        },
    )


def _incident_metrics(stats: RecorderStats) -> Iterator[Metric]:
    yield _gauge("incidents_open", "Incidents that are not over.", stats.open)
    yield _counter("incidents_opened", "Incidents that began.", stats.opened)
    yield _counter(
        "false_alarms", "Incidents that somebody marked as a false alarm.", stats.false_alarms
    )
    yield _counter("sightings_dropped", "Sightings that found no room to wait.", stats.dropped)
    yield _counters(
        "history_writes",
        "Incidents written to the history, times that nothing could be, and what was lost.",
        ["outcome"],
        {("written",): stats.written, ("failed",): stats.failed, ("lost",): stats.lost},
    )
    yield _counters(
        "alerts",
        "Alerts, by channel and outcome.",
        ["channel", "outcome"],
        dict(stats.deliveries),
    )
    yield _gauges(
        "outbox",
        "Alerts that wait, and those that were given up.",
        ["state"],
        {(state,): stats.outbox.get(state, 0) for state in ("pending", "dead")},
    )
    indicators = stats.indicators
    yield _gauges(
        "indicator",
        "Leading indicators: the value of the worst scope.",
        ["indicator"],
        {(name,): value for name, (value, _) in indicators.items()},
    )
    yield _gauges(
        "indicator_firing",
        "Whether a leading indicator is over its threshold.",
        ["indicator"],
        {(name,): int(is_firing) for name, (_, is_firing) in indicators.items()},
    )
