"""Sending spans: OTLP over HTTP by the SDK's exporter, and one word where it says many."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

SILENCE = 60.0
"""Seconds between two words about spans that do not arrive."""

_LONGEST_REASON = 300

log = logging.getLogger("looptrap")


class Sender(SpanExporter):
    """Sends batches by the SDK's exporter; says once a minute at most that they do not arrive."""

    def __init__(
        self, url: str, headers: Mapping[str, str], monotonic: Callable[[], float]
    ) -> None:
        self.taken = 0
        self.sent = 0
        self.failed = 0
        """Spans that the collector did not take."""
        self.overflowed = 0
        """Spans for which there was no room to wait."""
        self._url = url
        self._monotonic = monotonic
        self._exporter = OTLPSpanExporter(endpoint=url, headers=dict(headers))
        self._is_shut = False
        self._silent_until = monotonic()
        self._told = 0

    @property
    def lost(self) -> int:
        """How many spans nobody will see."""
        return self.failed + self.overflowed

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        self.taken += len(spans)
        reason = self._send(spans)
        if reason is None:
            self.sent += len(spans)
        else:
            self.failed += len(spans)
        self._tell(reason)
        return SpanExportResult.SUCCESS if reason is None else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Send nothing more, and wait for no further try."""
        if not self._is_shut:
            self._is_shut = True
            self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's name
        """Say that nothing is held back here."""
        return True

    def _send(self, spans: Sequence[ReadableSpan]) -> str | None:
        """Send a batch; return why it did not arrive."""
        if self._is_shut:
            return "the gateway has stopped"
        with _Overhearing() as sdk:
            try:
                result = self._exporter.export(spans)
            except Exception as error:  # noqa: BLE001 - spans that cannot be sent are no outage
                # What is no matter of the network may quote what was to be sent.
                return str(error) if isinstance(error, OSError) else type(error).__name__
        return None if result is SpanExportResult.SUCCESS else sdk.first or "no reason given"

    def _tell(self, reason: str | None) -> None:
        lost, now = self.lost, self._monotonic()
        if lost == self._told or now < self._silent_until or self._is_shut:
            return
        self._told, self._silent_until = lost, now + SILENCE
        why = reason or "more come than it takes"
        log.warning(
            "spans do not reach %s, %d lost so far: %s", self._url, lost, why[:_LONGEST_REASON]
        )


class _Overhearing(logging.Filter):
    """Keeps to itself what the SDK says on this thread meanwhile, as it says it at every try."""

    _logger = logging.getLogger(OTLPSpanExporter.__module__)

    def __init__(self) -> None:
        super().__init__()
        self.first = ""
        self._thread = get_ident()

    def __enter__(self) -> _Overhearing:
        self._logger.addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if get_ident() != self._thread:
            return True
        self.first = self.first or record.getMessage()
        return False
