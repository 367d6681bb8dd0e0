"""What was decided, and how long that took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from looptrap.admission import Tally
from looptrap.admission.tally import Histogram, Kind

NONE = "none"
"""What a label says where there is nothing to say."""


def metrics(tally: Tally) -> Iterator[Metric]:
    """Yield what rules decided."""
    requests = CounterMetricFamily(
        "looptrap_requests",
        "Requests judged, by what was done and why, and where they went.",
        labels=["verdict", "rule", "signal", "dialect", "provider"],
    )
    counted: Counter[tuple[str, ...]] = Counter()
    for key, (number,) in list(tally.requests.items()):
        kind = Kind(*key)
        why = (kind.rule or NONE, kind.signal or NONE)
        counted[kind.verdict, *why, kind.dialect, kind.provider or NONE] += number
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
    decisions.add_metric([], buckets(tally.decisions), tally.decisions.total)
    yield decisions


def buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return how many values there were up to each bound, as Prometheus counts them."""
    found, total = [], 0
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for bound, number in zip(bounds, histogram.counts, strict=True):
        total += number
        found.append((bound, float(total)))
    return found
