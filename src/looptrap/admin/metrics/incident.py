"""Incidents, what people were told of them, and what tends to come before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class IncidentNumbers(Protocol):
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


def metrics(numbers: IncidentNumbers) -> Iterator[Metric]:
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
    yield from _told(numbers)
    yield from _indicated(numbers)


def _told(numbers: IncidentNumbers) -> Iterator[Metric]:
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


def _indicated(numbers: IncidentNumbers) -> Iterator[Metric]:
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
