"""What was asked of providers on routes with a plan, and which circuits are not closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from looptrap.gateway.attempt import Dispatch

COUNTED = {
    "attempts": "Requests sent to a provider on routes with attempts, a chain or a deadline.",
    "retries": "Of these, further ones at the same link.",
    "failovers": "Of these, those that came because another link had failed or was left alone.",
}


def metrics(dispatch: Dispatch) -> Iterator[Metric]:
    """Yield attempts by provider, and circuits by state."""
    for name, help_text in COUNTED.items():
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
