"""What several workers count, as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

Sample = tuple[str, str, tuple[tuple[str, str], ...]]
"""The name of a metric, that of its sample, and the labels."""

KEPT = ("counter", "histogram")
"""What a worker has counted; the rest is how things are, and ends with it."""

SAME = ("looptrap_incidents_open", "looptrap_outbox", "looptrap_indicator")
"""How metrics begin of which each worker tells all that it knows: the most is true, not the sum."""


MOST_ENDED = 50_000
"""Samples of ended workers that are told apart; of more, those are one that clients gave names."""

NAMED = ("caller", "model", "project")
OTHER = "other"


class Totals:
    """Sums metrics over workers; what ended workers counted stays, so that no counter goes back."""

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, str]] = {}
        self._running: dict[int, dict[Sample, float]] = {}
        self._ended: defaultdict[Sample, float] = defaultdict(float)

    def take(self, pid: int, text: str) -> None:
        """Take what a worker has counted so far, in Prometheus's text format."""
        found: dict[Sample, float] = {}
        for metric in text_string_to_metric_families(text):
            self._metrics.setdefault(metric.name, (metric.documentation, metric.type))
            for sample in metric.samples:
                labels = tuple(sorted(sample.labels.items()))
                found[metric.name, sample.name, labels] = sample.value
        self._running[pid] = found

    def retire_all_but(self, pids: Collection[int]) -> None:
        """Keep the counters of workers that are no more, as they were last seen."""
        for pid in [pid for pid in self._running if pid not in pids]:
            for sample, value in self._running.pop(pid).items():
                if self._metrics[sample[0]][1] in KEPT:
                    self._ended[self._resting(sample)] += value

    def exposition(self, *, workers: int, restarts: int) -> bytes:
        """Return the sums in Prometheus's text format, and what there is to say of the workers."""
        registry = CollectorRegistry()
        registry.register(_Given([*self._sums(), *_crew(workers, restarts)]))
        return generate_latest(registry)

    def _resting(self, sample: Sample) -> Sample:
        """Return under which labels what an ended worker has counted is kept."""
        if sample in self._ended or len(self._ended) < MOST_ENDED:
            return sample
        name, sampled, labels = sample
        return name, sampled, tuple((one, OTHER if one in NAMED else is_) for one, is_ in labels)

    def _sums(self) -> Iterator[Metric]:
        totals = self._ended.copy()
        for counted in self._running.values():
            for sample, value in counted.items():
                if sample[0].startswith(SAME):
                    totals[sample] = max(totals[sample], value)
                else:
                    totals[sample] += value
        metrics = {name: Metric(name, *told) for name, told in self._metrics.items()}
        for (name, sampled, labels), value in totals.items():
            metrics[name].add_sample(sampled, dict(labels), value)
        yield from metrics.values()


class _Given(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _crew(workers: int, restarts: int) -> Iterator[Metric]:
    yield GaugeMetricFamily("looptrap_workers", "Workers that serve.", value=workers)
    yield CounterMetricFamily(
        "looptrap_worker_restarts", "Workers that ended and were replaced.", value=restarts
    )
