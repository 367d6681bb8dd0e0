"""Metrics: the gateway's numbers in Prometheus's text format, and their sums over workers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from looptrap.engine import Counters
from looptrap.engine.counters import Histogram, RequestKind
from looptrap.gateway.app import App
from looptrap.gateway.upstream import UpstreamState
from looptrap.incident.recorder import IncidentRecorder
from looptrap.money.price import usd
from looptrap.store.memory import MemoryStore
from looptrap.store.redis import RedisStore
from looptrap.wire.pool import Pool
from looptrap.wire.server import Server

NO_LABEL = "none"
"""The value of a label that is empty."""

TOKEN_KINDS = ("input", "output", "cached", "reasoning", "audio")
"""Cached tokens are part of the input, those of reasoning of the output."""

HELP_TEXTS = {
    "requests": "Requests judged, by what was done and why, and where they went.",
    "rule_verdicts": "Requests on which a rule acted, or in shadow mode would have.",
    "agent_requests": "Requests judged, by the agent that was recognised.",
    "agent_verdicts": "Requests on which a rule acted, by the agent that was recognised.",
    "decision_seconds": "How long it took to judge a call.",
    "upstream_answers": "Calls forwarded, by the provider's status; 0: none, 499: client left.",
    "first_byte_seconds": "How long providers took to begin their answers.",
    "upstream_connections": "Connections to providers: opened, reused, retried when found dead.",
    "upstream_in_flight": "Calls that wait for their provider.",
    "tokens": "Tokens that calls used.",
    "cost_usd": "What calls cost, in dollars.",
    "unpriced_calls": "Calls to models without a price.",
    "estimated_calls": "Calls whose usage was estimated from their size.",
    "caller_cost_usd": "What calls cost, in dollars, by caller and project.",
    "saved_usd": "What calls that were refused for a loop would have cost, in dollars.",
    "attempts": "Requests sent to a provider on routes with attempts, a chain or a deadline.",
    "retries": "Attempts at the same link after a failure.",
    "failovers": "Attempts at another link after one failed or was skipped.",
    "breakers": "Circuits that are not closed: of providers, and of single credentials there.",
    "connections": "Clients connected.",
    "buffered_bytes": "Request bytes held.",
    "wire_refusals": "Refused before judging: bad requests, overload, connections over the cap.",
    "disconnects": "Clients that left before their answer was complete.",
    "internal_errors": "Requests that failed inside.",
    "claims_refused": "Tokens whose claims were not believed, by the reason.",
    "store_fingerprints": "Fingerprints tracked in this process.",
    "store_evictions": "Fingerprints dropped before their time because the store was full.",
    "store_degraded": "Whether the shared store cannot be reached, and this instance counts alone.",
    "store_errors": "Failures of the shared store.",
    "store_asked": "Calls that the shared store was asked about.",
    "store_batches": "Commands in which it was asked.",
    "store_ignored": "Entries that instances share and that could not be used.",
    "captured_calls": "Calls to capture: written, dropped from a full queue, or failed to write.",
    "incidents_open": "Incidents that are not over.",
    "incidents_opened": "Incidents that began.",
    "false_alarms": "Incidents that somebody marked as a false alarm.",
    "sightings_dropped": "Sightings dropped from a full queue.",
    "history_writes": "Incidents written to the history, failed writes, and lost records.",
    "history_degraded": "Whether the history cannot be written for now.",
    "history_spool_batches": "Batches that wait on disk for PostgreSQL.",
    "history_spool_bytes": "Bytes that wait on disk for PostgreSQL.",
    "alerts": "Alerts, by channel and outcome.",
    "outbox": "Alerts that wait, and those that were given up.",
    "indicator": "Leading indicators: the value of the worst scope.",
    "indicator_firing": "Whether a leading indicator is over its threshold.",
    "workers": "Workers that serve.",
    "worker_restarts": "Workers that ended and were replaced.",
}

Samples = Mapping[Any, float]
"""Values by a tuple of label values."""


def exposition(app: App) -> bytes:
    """Return all metrics of a gateway in Prometheus's text format."""
    return text_format(_gateway_metrics(app))


def text_format(metrics: Iterable[Metric]) -> bytes:
    """Return metrics in Prometheus's text format."""
    return generate_latest(_FixedCollector(metrics))


class _FixedCollector(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _gateway_metrics(app: App) -> Iterator[Metric]:
    yield from _verdict_metrics(app.tally)
    yield from _upstream_metrics(app.tally, list(app.pools))
    yield from _money_metrics(app.tally, app.recorder.tracker.saved)
    yield from attempt_metrics(app.attempts)
    yield from _wire_metrics(app.server)
    yield _counter("claims_refused", _by_one_label(app.claims.refused), "reason")
    yield from _store_metrics(app)
    yield from _incident_metrics(app.recorder)


def _metric(
    family: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    samples: Samples | float,
    *labels: str,
) -> Metric:
    metric = family(f"looptrap_{name}", HELP_TEXTS[name], labels=labels)
    by_labels = samples if isinstance(samples, Mapping) else {(): samples}
    for label_values, value in by_labels.items():
        metric.add_metric(label_values, value)
    return metric


_counter = partial(_metric, CounterMetricFamily)
_gauge = partial(_metric, GaugeMetricFamily)


def _histogram(name: str, by_labels: Mapping[Any, Histogram], *labels: str) -> Metric:
    family = HistogramMetricFamily(f"looptrap_{name}", HELP_TEXTS[name], labels=labels)
    for label_values, histogram in by_labels.items():
        bounds = [*map(str, histogram.bounds), "+Inf"]
        # Prometheus counts the values up to each bound.
        buckets = list(zip(bounds, accumulate(map(float, histogram.counts)), strict=True))
        family.add_metric(label_values, buckets, histogram.total)
    return family


def _by_one_label(values: Mapping[Any, float]) -> Samples:
    return {(name or NO_LABEL,): value for name, value in list(values.items())}


def _verdict_metrics(tally: Counters) -> Iterator[Metric]:
    requests: Counter[tuple[str, ...]] = Counter()
    for key, (number,) in list(tally.requests.items()):
        kind = RequestKind(*key)
        why = (kind.rule or NO_LABEL, kind.signal or NO_LABEL)
        requests[kind.verdict, *why, kind.dialect, kind.provider or NO_LABEL] += number
    yield _counter("requests", requests, "verdict", "rule", "signal", "dialect", "provider")
    verdicts = {
        (policy, rule, action.value, mode): times
        for acted, mode in ((tally.rules, "enforce"), (tally.shadow_rules, "shadow"))
        for (policy, rule, action), times in list(acted.items())
    }
    yield _counter("rule_verdicts", verdicts, "policy", "rule", "verdict", "mode")
    yield _counter("agent_requests", _by_one_label(tally.agent_requests), "agent")
    agents = {
        (agent or NO_LABEL, action.value): times
        for (agent, action), times in list(tally.agents.items())
    }
    yield _counter("agent_verdicts", agents, "agent", "verdict")
    yield _histogram("decision_seconds", {(): tally.decisions})


def _upstream_metrics(tally: Counters, pools: Sequence[Pool]) -> Iterator[Metric]:
    answers: Counter[tuple[str, ...]] = Counter()
    for key, (number,) in list(tally.requests.items()):
        kind = RequestKind(*key)
        if kind.status >= 0:
            answers[kind.provider or NO_LABEL, str(kind.status)] += number
    yield _counter("upstream_answers", answers, "provider", "status")
    first_bytes = {(name or NO_LABEL,): one for name, one in list(tally.first_bytes.items())}
    yield _histogram("first_byte_seconds", first_bytes, "provider")
    connections = {
        ("opened",): sum(pool.opened for pool in pools),
        ("reused",): sum(pool.reused for pool in pools),
        ("retried",): sum(pool.retried_stale for pool in pools),
    }
    yield _counter("upstream_connections", connections, "event")
    yield _gauge("upstream_in_flight", sum(pool.in_flight for pool in pools))


def _money_metrics(tally: Counters, saved: int) -> Iterator[Metric]:
    """Yield tokens and dollars; `saved` is in nano-dollars."""
    used = {
        (provider or NO_LABEL, model or NO_LABEL): one
        for (provider, model), one in list(tally.used.items())
    }
    tokens = {
        (*key, kind): getattr(one, f"{kind}_tokens")
        for key, one in used.items()
        for kind in TOKEN_KINDS
    }
    yield _counter("tokens", tokens, "provider", "model", "kind")
    by_model: dict[str, Samples] = {
        "cost_usd": {key: usd(one.cost) for key, one in used.items()},
        "unpriced_calls": {key: one.unpriced for key, one in used.items()},
        "estimated_calls": {key: one.estimated for key, one in used.items()},
    }
    for name, samples in by_model.items():
        yield _counter(name, samples, "provider", "model")
    by_caller = {
        (caller or NO_LABEL, project or NO_LABEL): usd(nano)
        for (caller, project), (nano,) in list(tally.caller_costs.items())
    }
    yield _counter("caller_cost_usd", by_caller, "caller", "project")
    yield _counter("saved_usd", usd(saved))


def attempt_metrics(upstream: UpstreamState) -> Iterator[Metric]:
    """Yield attempts by provider, and circuits by state."""
    for name in ("attempts", "retries", "failovers"):
        yield _counter(name, _by_one_label(getattr(upstream, name)), "provider")
    states = Counter(
        (key.provider, "provider" if key.credential is None else "credential", state)
        for key, state in upstream.states()
    )
    yield _gauge("breakers", states, "provider", "circuit", "state")


def _wire_metrics(server: Server) -> Iterator[Metric]:
    yield _gauge("connections", server.connections)
    yield _gauge("buffered_bytes", server.buffered_bytes)
    refusals = {
        ("bad_request",): server.bad_requests,
        ("overload",): server.overloads,
        ("connection",): server.refused_connections,
    }
    yield _counter("wire_refusals", refusals, "kind")
    yield _counter("disconnects", server.disconnects)
    yield _counter("internal_errors", server.handler_errors)


def _store_metrics(app: App) -> Iterator[Metric]:
    local = app.store if isinstance(app.store, MemoryStore) else None
    shared = app.store if isinstance(app.store, RedisStore) else None
    yield _gauge("store_fingerprints", len(local) if local is not None else 0)
    yield _counter("store_evictions", local.evicted if local is not None else 0)
    yield _gauge("store_degraded", int(shared is not None and shared.is_degraded))
    for name in ("errors", "asked", "batches"):
        yield _counter(f"store_{name}", getattr(shared, name) if shared is not None else 0)
    yield _counter("store_ignored", app.ignored)
    captured = {
        (outcome,): getattr(app.capture, outcome) if app.capture is not None else 0
        for outcome in ("written", "overflowed", "failed")
    }
    yield _counter("captured_calls", captured, "outcome")


def _incident_metrics(recorder: IncidentRecorder) -> Iterator[Metric]:
    yield _gauge("incidents_open", recorder.tracker.open)
    yield _counter("incidents_opened", recorder.tracker.opened)
    yield _counter("false_alarms", recorder.false_alarms)
    yield _counter("sightings_dropped", recorder.dropped)
    writer = recorder.writer
    writes = {("written",): writer.written, ("failed",): writer.failed, ("lost",): recorder.lost}
    yield _counter("history_writes", writes, "outcome")
    yield _gauge("history_degraded", int(writer.is_failing))
    spool = recorder.history.spool
    yield _gauge("history_spool_batches", spool.waiting if spool is not None else 0)
    yield _gauge("history_spool_bytes", spool.size if spool is not None else 0)
    yield _counter("alerts", dict(recorder.deliverer.deliveries), "channel", "outcome")
    outbox = {(state,): recorder.outbox_counts.get(state, 0) for state in ("pending", "dead")}
    yield _gauge("outbox", outbox, "state")
    values = {(name,): value for name, (value, _) in recorder.indicators.gauges.items()}
    yield _gauge("indicator", values, "indicator")
    firing = {
        (name,): int(is_firing) for name, (_, is_firing) in recorder.indicators.gauges.items()
    }
    yield _gauge("indicator_firing", firing, "indicator")


SampleKey = tuple[str, str, tuple[tuple[str, str], ...]]
"""The names of a metric and of its sample, and the labels."""

CUMULATIVE_TYPES = ("counter", "histogram")
"""Kept after a worker has ended; gauges end with it."""

MAX_PREFIXES = ("looptrap_incidents_open", "looptrap_outbox", "looptrap_indicator")
"""Metrics that each worker reports for all: the maximum is right, not the sum."""

MAX_ENDED_SAMPLES = 50_000
"""Samples kept of ended workers; beyond it, labels named by clients become one."""

CLIENT_NAMED_LABELS = ("caller", "model", "project")
OTHER_LABEL = "other"


class MetricTotals:
    """Sums metrics over workers; counts of ended ones stay, so that no counter goes back."""

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, str]] = {}
        self._running: dict[int, dict[SampleKey, float]] = {}
        self._ended: defaultdict[SampleKey, float] = defaultdict(float)

    def add(self, pid: int, text: str) -> None:
        """Replace the counts of a worker by these, in Prometheus's text format."""
        found: dict[SampleKey, float] = {}
        for metric in text_string_to_metric_families(text):
            self._metrics.setdefault(metric.name, (metric.documentation, metric.type))
            for sample in metric.samples:
                labels = tuple(sorted(sample.labels.items()))
                found[metric.name, sample.name, labels] = sample.value
        self._running[pid] = found

    def retire_all_but(self, pids: Collection[int]) -> None:
        """Keep the counters of all other workers, which have ended."""
        for pid in [pid for pid in self._running if pid not in pids]:
            for sample, value in self._running.pop(pid).items():
                if self._metrics[sample[0]][1] in CUMULATIVE_TYPES:
                    self._ended[self._ended_key(sample)] += value

    def exposition(self, *, workers: int, restarts: int) -> bytes:
        """Return the sums and the metrics of the workers in Prometheus's text format."""
        of_workers = _gauge("workers", workers), _counter("worker_restarts", restarts)
        return text_format([*self._sums(), *of_workers])

    def _ended_key(self, sample: SampleKey) -> SampleKey:
        """Return the labels under which a count of an ended worker is kept."""
        if sample in self._ended or len(self._ended) < MAX_ENDED_SAMPLES:
            return sample
        name, sample_name, labels = sample
        folded = ((one, OTHER_LABEL if one in CLIENT_NAMED_LABELS else is_) for one, is_ in labels)
        return name, sample_name, tuple(folded)

    def _sums(self) -> Iterable[Metric]:
        totals = self._ended.copy()
        for samples in self._running.values():
            for sample, value in samples.items():
                if sample[0].startswith(MAX_PREFIXES):
                    totals[sample] = max(totals[sample], value)
                else:
                    totals[sample] += value
        metrics = {name: Metric(name, *known) for name, known in self._metrics.items()}
        for (name, sample_name, labels), value in totals.items():
            metrics[name].add_sample(sample_name, dict(labels), value)
        return metrics.values()
