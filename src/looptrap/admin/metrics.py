"""Metrics: plain numbers of the gateway, made into Prometheus's form when it asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

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
from looptrap.gateway.capture import Capture
from looptrap.gateway.jwt_claims import RejectionReason
from looptrap.gateway.upstream import UpstreamState
from looptrap.store.memory import MemoryStore
from looptrap.store.redis import RedisStore
from looptrap.usage.savings import usd
from looptrap.wire.pool import Pool
from looptrap.wire.server import Server


class IncidentStats(Protocol):
    """What is scraped of incidents; read on the gateway's loop, so each must be at hand."""

    @property
    def open(self) -> int:
        """Incidents that are not over."""
        ...

    @property
    def opened(self) -> int:
        """Incidents that began."""
        ...

    @property
    def false_alarms(self) -> int:
        """Incidents that somebody said were none."""
        ...

    @property
    def dropped(self) -> int:
        """Sightings for which there was no room to wait."""
        ...

    @property
    def written(self) -> int:
        """Incidents written to the history, each time one was."""
        ...

    @property
    def failed(self) -> int:
        """Times that nothing could be written."""
        ...

    @property
    def lost(self) -> int:
        """Incidents, alerts and rows of spending that will never be in the history."""
        ...

    @property
    def deliveries(self) -> Mapping[tuple[str, str], int]:
        """Alerts, by channel and outcome."""
        ...

    @property
    def outbox(self) -> Mapping[str, int]:
        """Alerts kept, by state: `pending`, `dead`."""
        ...

    @property
    def indicators(self) -> Mapping[str, tuple[float, bool]]:
        """Of every indicator the value of its worst scope, and whether it fires."""
        ...


def incident_metrics(numbers: IncidentStats) -> Iterator[Metric]:
    """Yield what there is to say of incidents."""
    yield GaugeMetricFamily(
        "looptrap_incidents_open",
        "Incidents that are not over.",
        value=numbers.open,
    )
    yield CounterMetricFamily(
        "looptrap_incidents_opened",
        "Incidents that began.",
        value=numbers.opened,
    )
    yield CounterMetricFamily(
        "looptrap_false_alarms",
        "Incidents that somebody marked as a false alarm.",
        value=numbers.false_alarms,
    )
    yield CounterMetricFamily(
        "looptrap_sightings_dropped",
        "Sightings that found no room to wait.",
        value=numbers.dropped,
    )
    writes = CounterMetricFamily(
        "looptrap_history_writes",
        "Incidents written to the history, times that nothing could be, and what was lost.",
        labels=["outcome"],
    )
    writes.add_metric(["written"], numbers.written)
    writes.add_metric(["failed"], numbers.failed)
    writes.add_metric(["lost"], numbers.lost)
    yield writes
    yield from _alert_metrics(numbers)
    yield from _indicator_metrics(numbers)


def _alert_metrics(numbers: IncidentStats) -> Iterator[Metric]:
    alerts = CounterMetricFamily(
        "looptrap_alerts", "Alerts, by channel and outcome.", labels=["channel", "outcome"]
    )
    outbox = GaugeMetricFamily(
        "looptrap_outbox", "Alerts that wait, and those that were given up.", labels=["state"]
    )
    for (channel, outcome), number in dict(numbers.deliveries).items():
        alerts.add_metric([channel, outcome], number)
    kept = numbers.outbox
    for state in ("pending", "dead"):
        outbox.add_metric([state], kept.get(state, 0))
    yield alerts
    yield outbox


def _indicator_metrics(numbers: IncidentStats) -> Iterator[Metric]:
    value = GaugeMetricFamily(
        "looptrap_indicator",
        "Leading indicators: the value of the worst scope.",
        labels=["indicator"],
    )
    firing = GaugeMetricFamily(
        "looptrap_indicator_firing",
        "Whether a leading indicator is over its threshold.",
        labels=["indicator"],
    )
    for name, (worst, is_firing) in (numbers.indicators).items():
        value.add_metric([name], worst)
        firing.add_metric([name], int(is_firing))
    yield value
    yield firing


SHARED_STORE_COUNTERS = {
    "errors": "Failures of the shared store.",
    "asked": "Calls that the shared store was asked about.",
    "batches": "Commands in which it was asked.",
}
"""Counters of a shared store."""


def store_metrics(app: App) -> Iterator[Metric]:
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
    for name, help_text in SHARED_STORE_COUNTERS.items():
        value = getattr(shared, name) if shared is not None else 0
        yield CounterMetricFamily(f"looptrap_store_{name}", help_text, value=value)
    yield CounterMetricFamily(
        "looptrap_store_ignored",
        "Entries that instances share and that could not be used.",
        value=app.ignored,
    )
    yield _capture_metric(app.capture)


def _capture_metric(capture: Capture | None) -> Metric:
    calls = CounterMetricFamily(
        "looptrap_captured_calls",
        "Calls to be captured: written, without room to wait, or failed to be written.",
        labels=["outcome"],
    )
    for outcome in ("written", "overflowed", "failed"):
        calls.add_metric([outcome], getattr(capture, outcome) if capture is not None else 0)
    return calls


def claim_metrics(refused: Counter[RejectionReason]) -> Iterator[Metric]:
    """Yield how many there were, by why they were not."""
    claims = CounterMetricFamily(
        "looptrap_claims_refused",
        "Tokens whose claims were not believed, by the reason.",
        labels=["reason"],
    )
    for reason, number in dict(refused).items():
        claims.add_metric([reason], number)
    yield claims


def wire_metrics(server: Server) -> Iterator[Metric]:
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


ATTEMPT_COUNTERS = {
    "attempts": "Requests sent to a provider on routes with attempts, a chain or a deadline.",
    "retries": "Of these, further ones at the same link.",
    "failovers": "Of these, those that came because another link had failed or was left alone.",
}


def attempt_metrics(dispatch: UpstreamState) -> Iterator[Metric]:
    """Yield attempts by provider, and circuits by state."""
    for name, help_text in ATTEMPT_COUNTERS.items():
        counted = CounterMetricFamily(f"looptrap_{name}", help_text, labels=["provider"])
        tally: Counter[str] = getattr(dispatch, name)
        for provider, number in list(tally.items()):
            counted.add_metric([provider], number)
        yield counted
    breakers = GaugeMetricFamily(
        "looptrap_breakers",
        "Circuits that are not closed: of providers, and of single credentials there.",
        labels=["provider", "circuit", "state"],
    )
    states: Counter[tuple[str, str, str]] = Counter()
    for key, state in dispatch.states():
        states[key.provider, "provider" if key.credential is None else "credential", state] += 1
    for labels, number in states.items():
        breakers.add_metric(labels, number)
    yield breakers


NO_LABEL = "none"
"""What a label says where there is nothing to say."""


def verdict_metrics(tally: Counters) -> Iterator[Metric]:
    """Yield what rules decided."""
    requests = CounterMetricFamily(
        "looptrap_requests",
        "Requests judged, by what was done and why, and where they went.",
        labels=["verdict", "rule", "signal", "dialect", "provider"],
    )
    counted: Counter[tuple[str, ...]] = Counter()
    for key, (number,) in list(tally.requests.items()):
        kind = RequestKind(*key)
        why = (kind.rule or NO_LABEL, kind.signal or NO_LABEL)
        counted[kind.verdict, *why, kind.dialect, kind.provider or NO_LABEL] += number
    for labels, total in counted.items():
        requests.add_metric(labels, total)
    yield requests
    rules = CounterMetricFamily(
        "looptrap_rule_verdicts",
        "Requests on which a rule acted, or in shadow mode would have.",
        labels=["policy", "rule", "verdict", "mode"],
    )
    for acted, mode in ((tally.rules, "enforce"), (tally.shadow_rules, "shadow")):
        for (policy, rule, action), times in list(acted.items()):
            rules.add_metric([policy, rule, action.value, mode], times)
    yield rules
    decisions = HistogramMetricFamily(
        "looptrap_decision_seconds", "How long it took to judge a call."
    )
    decisions.add_metric([], cumulative_buckets(tally.decisions), tally.decisions.total)
    yield decisions


def cumulative_buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return how many values there were up to each bound, as Prometheus counts them."""
    found, total = [], 0
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for bound, number in zip(bounds, histogram.counts, strict=True):
        total += number
        found.append((bound, float(total)))
    return found


class GatewayCollector(Collector):
    """Reads the gateway's numbers at the moment of a scrape."""

    def __init__(self, app: App) -> None:
        self._app = app

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        app = self._app
        yield from verdict_metrics(app.tally)
        yield from upstream_metrics(app.tally, list(app.pools))
        yield from money_metrics(app.tally, app.desk.numbers.saved)
        yield from attempt_metrics(app.attempts)
        yield from wire_metrics(app.server)
        yield from claim_metrics(app.claims.refused)
        yield from store_metrics(app)
        yield from incident_metrics(app.desk.numbers)


def exposition(app: App) -> bytes:
    """Return all metrics in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(GatewayCollector(app))
    return generate_latest(registry)


def upstream_metrics(tally: Counters, pools: Sequence[Pool]) -> Iterator[Metric]:
    """Yield what providers answered, and how soon."""
    answers = CounterMetricFamily(
        "looptrap_upstream_answers",
        "Calls forwarded, by the provider's status; 0: it never answered, 499: the client left.",
        labels=["provider", "status"],
    )
    counted: Counter[tuple[str, str]] = Counter()
    for key, (number,) in list(tally.requests.items()):
        kind = RequestKind(*key)
        if kind.status >= 0:
            counted[kind.provider or NO_LABEL, str(kind.status)] += number
    for labels, total in counted.items():
        answers.add_metric(labels, total)
    yield answers
    first_bytes = HistogramMetricFamily(
        "looptrap_first_byte_seconds",
        "How long providers took to begin their answers.",
        labels=["provider"],
    )
    for provider, histogram in list(tally.first_bytes.items()):
        first_bytes.add_metric(
            [provider or NO_LABEL], cumulative_buckets(histogram), histogram.total
        )
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


TOKEN_KINDS = ("input", "output", "cached", "reasoning", "audio")
"""Of tokens: cached ones are part of the input, those of reasoning of the output."""


def money_metrics(tally: Counters, saved: int) -> Iterator[Metric]:
    """Yield tokens and dollars; `saved` is in nano-dollars."""
    of_model = ["provider", "model"]
    tokens = CounterMetricFamily(
        "looptrap_tokens", "Tokens that calls used.", labels=[*of_model, "kind"]
    )
    cost = CounterMetricFamily("looptrap_cost_usd", "What calls cost, in dollars.", labels=of_model)
    unpriced = CounterMetricFamily(
        "looptrap_unpriced_calls", "Calls that used what has no price.", labels=of_model
    )
    estimated = CounterMetricFamily(
        "looptrap_estimated_calls",
        "Calls that were told by their size what they used.",
        labels=of_model,
    )
    for (provider, model), used in list(tally.used.items()):
        named = [provider or NO_LABEL, model or NO_LABEL]
        for kind in TOKEN_KINDS:
            tokens.add_metric([*named, kind], getattr(used, f"{kind}_tokens"))
        cost.add_metric(named, usd(used.cost))
        unpriced.add_metric(named, used.unpriced)
        estimated.add_metric(named, used.estimated)
    yield from (tokens, cost, unpriced, estimated)
    callers = CounterMetricFamily(
        "looptrap_caller_cost_usd",
        "What calls cost, in dollars, by caller and project.",
        labels=["caller", "project"],
    )
    for (caller, project), (nano,) in list(tally.caller_costs.items()):
        callers.add_metric([caller or NO_LABEL, project or NO_LABEL], usd(nano))
    yield callers
    yield CounterMetricFamily(
        "looptrap_saved_usd",
        "What calls that were refused for a loop would have cost, in dollars.",
        value=usd(saved),
    )


__all__ = ["GatewayCollector", "IncidentStats", "exposition"]
