"""Merges what several workers answer and count: each knows only its own calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from looptrap.admin import budget, provider, status
from looptrap.admin.budget import AccountView, BudgetList
from looptrap.admin.health_notice import HealthNotice
from looptrap.admin.provider import BreakerView, ProviderList, ProviderView, quantile
from looptrap.admin.status import GatewayStatus
from looptrap.money.meter import Unit

NOTICES_OF_ALL_WORKERS = ("no_calls",)
"""Notices that hold only if all workers have them."""

BREAKER_SEVERITY = {"closed": 0, "half_open": 1, "open": 2}


def merge_status(answers: Sequence[GatewayStatus]) -> GatewayStatus:
    """Return the status of all; a fault of one is a fault of all."""
    first = answers[0]
    histories = [one["history"] for one in answers]
    return {
        **first,
        "started": min(one["started"] for one in answers),
        "store": {
            **first["store"],
            "is_degraded": any(one["store"]["is_degraded"] for one in answers),
        },
        "history": {
            "path": first["history"]["path"],
            "is_writing": all(one["is_writing"] for one in histories),
            "failed": sum(one["failed"] for one in histories),
            "lost": sum(one["lost"] for one in histories),
        },
        "draining": any(one["draining"] for one in answers),
        "notices": _merge_notices([one["notices"] for one in answers]),
        "indicators": [
            max(same, key=lambda one: one["value"])
            for same in zip(*(one["indicators"] for one in answers), strict=False)
        ],
        # Each reports all that it knows, and some learn of one a moment later.
        "open_incidents": max(one["open_incidents"] for one in answers),
    }


def merge_providers(answers: Sequence[ProviderList]) -> ProviderList:
    """Return the providers with the sums of all workers."""
    by_name: dict[str, list[ProviderView]] = {}
    for answer in answers:
        for one in answer["providers"]:
            by_name.setdefault(one["name"], []).append(one)
    return {**answers[0], "providers": [_merge_provider(same) for same in by_name.values()]}


def merge_budgets(answers: Sequence[BudgetList]) -> BudgetList:
    """Return budgets with the accounts that any worker charged recently."""
    every = [one for answer in answers for one in answer["budgets"]]
    accounts: dict[tuple[str, Unit], dict[str, AccountView]] = {}
    for one in every:
        known = accounts.setdefault((one["name"], one["unit"]), {})
        known |= {account["fingerprint"]: account for account in one["accounts"]}
    first = {(one["name"], one["unit"]): one for one in reversed(every)}
    return {
        "budgets": [
            {**first[key], "accounts": budget.most_used(known.values())}
            for key, known in accounts.items()
        ],
        "rates": answers[0]["rates"],
    }


MERGERS: dict[str, Callable[[Sequence[Any]], Any]] = {
    status.STATUS_PATH: merge_status,
    provider.PROVIDERS_PATH: merge_providers,
    budget.BUDGETS_PATH: merge_budgets,
}
"""By path; every other answer is the same from each worker."""


def _merge_notices(reported: Sequence[Sequence[HealthNotice]]) -> list[HealthNotice]:
    """Return every notice once; of those with one code, the longest has the most details."""
    found: dict[str, HealthNotice] = {}
    for notices in reported:
        for one in notices:
            known = found.setdefault(one["code"], one)
            if len(one["message"]) > len(known["message"]):
                found[one["code"]] = one
    codes = [{one["code"] for one in notices} for notices in reported]
    for code in NOTICES_OF_ALL_WORKERS:
        if not all(code in some for some in codes):
            found.pop(code, None)
    return sorted(found.values(), key=lambda one: one["level"] != "bad")


def _merge_provider(same: Sequence[ProviderView]) -> ProviderView:
    longest = max(len(one["first_bytes"]) for one in same)
    padded = [one["first_bytes"] or [0] * longest for one in same]
    counts = [sum(numbers) for numbers in zip(*padded, strict=True)]
    breakers: dict[tuple[str, str | None], BreakerView] = {}
    for provider_view in same:
        for one in provider_view["breakers"]:
            key = one["circuit"], one["credential"]
            known = breakers.setdefault(key, one)
            if BREAKER_SEVERITY[one["state"]] > BREAKER_SEVERITY[known["state"]]:
                breakers[key] = one
    merged = {
        **same[0],
        "calls": sum(one["calls"] for one in same),
        "failures": sum(one["failures"] for one in same),
        "p95_first_byte_seconds": quantile(counts),
        "first_bytes": counts,
        "breakers": list(breakers.values()),
    }
    return cast(ProviderView, merged)


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
        registry = CollectorRegistry()
        registry.register(_FixedCollector([*self._sums(), *_worker_metrics(workers, restarts)]))
        return generate_latest(registry)

    def _ended_key(self, sample: SampleKey) -> SampleKey:
        """Return the labels under which a count of an ended worker is kept."""
        if sample in self._ended or len(self._ended) < MAX_ENDED_SAMPLES:
            return sample
        name, sampled, labels = sample
        folded = ((one, OTHER_LABEL if one in CLIENT_NAMED_LABELS else is_) for one, is_ in labels)
        return name, sampled, tuple(folded)

    def _sums(self) -> Iterator[Metric]:
        totals = self._ended.copy()
        for counted in self._running.values():
            for sample, value in counted.items():
                if sample[0].startswith(MAX_PREFIXES):
                    totals[sample] = max(totals[sample], value)
                else:
                    totals[sample] += value
        metrics = {name: Metric(name, *known) for name, known in self._metrics.items()}
        for (name, sampled, labels), value in totals.items():
            metrics[name].add_sample(sampled, dict(labels), value)
        yield from metrics.values()


class _FixedCollector(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _worker_metrics(workers: int, restarts: int) -> Iterator[Metric]:
    yield GaugeMetricFamily("looptrap_workers", "Workers that serve.", value=workers)
    yield CounterMetricFamily(
        "looptrap_worker_restarts", "Workers that ended and were replaced.", value=restarts
    )
