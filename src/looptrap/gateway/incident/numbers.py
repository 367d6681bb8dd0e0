"""What can be said in numbers of a desk, at any moment and without waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from looptrap.gateway.incident.desk import Desk


class Numbers:
    """Reads the numbers of a desk that has been started."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.outbox: Mapping[str, int] = {}
        """Alerts kept, by state, as last counted."""

    @property
    def open(self) -> int:
        """Incidents that are not over."""
        return self._desk.tracker.open

    @property
    def opened(self) -> int:
        """Incidents that began."""
        return self._desk.tracker.opened

    @property
    def saved(self) -> int:
        """What calls refused for a loop would have cost, in nano-dollars."""
        return self._desk.tracker.saved

    @property
    def dropped(self) -> int:
        """Sightings for which there was no room to wait."""
        return self._desk.dropped

    @property
    def false_alarms(self) -> int:
        """Incidents that somebody said were none."""
        return self._desk.false_alarms

    @property
    def written(self) -> int:
        """Incidents written to the history, each time one was."""
        return self._desk.writer.written

    @property
    def failed(self) -> int:
        """Times that nothing could be written."""
        return self._desk.writer.failed

    @property
    def lost(self) -> int:
        """Incidents, alerts and rows of spending that will never be in the history."""
        return self._desk.writer.lost + self._desk.history.unwritable

    @property
    def deliveries(self) -> Mapping[tuple[str, str], int]:
        """Alerts, by channel and outcome."""
        return self._desk.deliverer.deliveries

    @property
    def indicators(self) -> Mapping[str, tuple[float, bool]]:
        """Of every indicator the value of its worst scope, and whether it fires."""
        return self._desk.indicators.gauges
