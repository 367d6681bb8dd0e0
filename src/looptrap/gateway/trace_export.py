"""TraceExporter: queues spans for a thread of the SDK, which sends batches to a collector."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Thread, get_ident

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.span import TraceState
from opentelemetry.trace.status import Status, StatusCode
from opentelemetry.util.re import parse_env_headers

from looptrap import __version__
from looptrap.gateway.trace import VERDICT_EVENT, Attributes, TraceSpan, parse_tracestate

LOG_INTERVAL_S = 60.0
"""Seconds between two log lines about spans that are lost."""

_MAX_REASON_CHARS = 300


class SpanSender(SpanExporter):
    """Sends batches by the SDK's exporter; logs at most once a minute that spans are lost."""

    def __init__(
        self, url: str, headers: Mapping[str, str], monotonic: Callable[[], float]
    ) -> None:
        self.taken = 0
        self.sent = 0
        self.failed = 0
        """Spans that the collector did not take."""
        self.overflowed = 0
        """Spans for which the queue was full."""
        self._url = url
        self._monotonic = monotonic
        self._exporter = OTLPSpanExporter(endpoint=url, headers=dict(headers))
        self._is_shut = False
        self._quiet_until = monotonic()
        self._logged = 0

    @property
    def lost(self) -> int:
        """How many spans are lost."""
        return self.failed + self.overflowed

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        self.taken += len(spans)
        reason = self._send(spans)
        if reason is None:
            self.sent += len(spans)
        else:
            self.failed += len(spans)
        self._log_lost(reason)
        return SpanExportResult.SUCCESS if reason is None else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Send nothing more, and do not retry."""
        if not self._is_shut:
            self._is_shut = True
            self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's name
        """Return that nothing is queued here."""
        return True

    def _send(self, spans: Sequence[ReadableSpan]) -> str | None:
        """Send a batch; return why it did not arrive."""
        if self._is_shut:
            return "the gateway has stopped"
        with _SdkLogCapture() as sdk:
            try:
                result = self._exporter.export(spans)
            except Exception as error:  # noqa: BLE001 - spans that cannot be sent are no outage
                # Other errors than those of the network may quote the spans.
                return str(error) if isinstance(error, OSError) else type(error).__name__
        return None if result is SpanExportResult.SUCCESS else sdk.first or "no reason given"

    def _log_lost(self, reason: str | None) -> None:
        lost, now = self.lost, self._monotonic()
        if lost == self._logged or now < self._quiet_until or self._is_shut:
            return
        self._logged, self._quiet_until = lost, now + LOG_INTERVAL_S
        why = reason or "more come than it takes"
        log.warning(
            "spans do not reach %s, %d lost so far: %s", self._url, lost, why[:_MAX_REASON_CHARS]
        )


class _SdkLogCapture(logging.Filter):
    """Captures what the SDK logs on this thread, which it does at every try."""

    _logger = logging.getLogger(OTLPSpanExporter.__module__)

    def __init__(self) -> None:
        super().__init__()
        self.first = ""
        self._thread = get_ident()

    def __enter__(self) -> _SdkLogCapture:
        self._logger.addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if get_ident() != self._thread:
            return True
        self.first = self.first or record.getMessage()
        return False


TRACES_PATH = "/v1/traces"
HEADER_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")

MAX_WAITING_SPANS = 4096
"""Spans in the queue; one more is lost."""

MAX_BATCH_SPANS = 128
"""Spans of one batch: while they are encoded, the gateway's own thread waits."""

BATCH_DELAY_MS = 1_000
"""Milliseconds between two batches, unless one is full sooner."""

_SCOPE = InstrumentationScope("looptrap", __version__)
_UNSET, _ERROR = Status(StatusCode.UNSET), Status(StatusCode.ERROR)
_EMPTY_STATE = TraceState()

log = logging.getLogger("looptrap")


class TraceExporter:
    """Queues spans for a thread that sends them; where the queue is full, they are lost."""

    def __init__(
        self,
        endpoint: str,
        *,
        service: str,
        env: Mapping[str, str],
    ) -> None:
        headers = next((env[name] for name in HEADER_VARIABLES if env.get(name)), "")
        url = endpoint.rstrip("/") + TRACES_PATH
        self.sender = SpanSender(url, parse_env_headers(headers, liberal=True), time.monotonic)
        self._resource = Resource.create({"service.name": service, "service.version": __version__})
        self._processor: BatchSpanProcessor | None = None
        self._put = 0

    def start(self) -> None:
        """Begin to send."""
        self._processor = BatchSpanProcessor(
            self.sender,
            max_queue_size=MAX_WAITING_SPANS,
            max_export_batch_size=MAX_BATCH_SPANS,
            schedule_delay_millis=BATCH_DELAY_MS,
        )

    @property
    def waiting(self) -> int:
        """How many spans wait to be sent."""
        # Two counters with one writer each need no lock.
        return self._put - self.sender.taken

    def has_room(self) -> bool:
        """Return whether the queue has room for a span; count it as lost if not."""
        # The SDK checks too, but logs a line for every span too many.
        is_full = self.waiting >= MAX_WAITING_SPANS
        self.sender.overflowed += is_full
        return not is_full

    def put(
        self,
        span: TraceSpan,
        name: str,
        attributes: Attributes,
        events: Sequence[tuple[float, Attributes]],
        ended: float,
    ) -> None:
        """Queue a span that has ended."""
        processor = self._processor
        if processor is None:
            return
        flags = TraceFlags(span.flags)
        state = TraceState(parse_tracestate(span.state)) if span.state else _EMPTY_STATE
        parent = None
        if span.parent_id:
            parent = SpanContext(span.trace_id, span.parent_id, True, flags, state)
        self._put += 1
        processor.on_end(
            ReadableSpan(
                name,
                SpanContext(span.trace_id, span.id, False, flags, state),
                parent,
                self._resource,
                attributes,
                [Event(VERDICT_EVENT, verdict, _nanoseconds(when)) for when, verdict in events],
                kind=SpanKind.CLIENT,
                status=_ERROR if "error.type" in attributes else _UNSET,
                start_time=_nanoseconds(span.began),
                end_time=_nanoseconds(max(span.began, ended)),
                instrumentation_scope=_SCOPE,
            )
        )

    def stop(self, timeout: float) -> None:
        """Send what waits, within `timeout` seconds, and end."""
        processor, self._processor = self._processor, None
        if processor is None:
            self.sender.shutdown()
            return
        # The SDK itself would wait for half a minute.
        ending = Thread(target=processor.shutdown, name="looptrap-traces-end", daemon=True)
        ending.start()
        ending.join(timeout)
        if ending.is_alive():
            log.warning("%d spans or more were not sent before the end", self.waiting)
            self.sender.shutdown()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
