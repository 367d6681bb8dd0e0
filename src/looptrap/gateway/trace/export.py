"""The way of spans to a collector: they wait for a thread of the SDK's, which sends batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Thread

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.span import TraceState
from opentelemetry.trace.status import Status, StatusCode
from opentelemetry.util.re import parse_env_headers

from looptrap import __version__
from looptrap.gateway.trace.description import EVENT, Attributes
from looptrap.gateway.trace.sender import Sender
from looptrap.gateway.trace.span import Span, members

PATH = "/v1/traces"
HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")

MOST_WAITING = 4096
"""Spans that wait to be sent; one more is lost."""

LARGEST_BATCH = 128
"""Spans sent at once: while they are encoded, the gateway's own thread waits for its turn."""

DELAY_MS = 1_000
"""Between two batches, unless one is full sooner."""

_SCOPE = InstrumentationScope("looptrap", __version__)
_UNSET, _ERROR = Status(StatusCode.UNSET), Status(StatusCode.ERROR)
_STATELESS = TraceState()

log = logging.getLogger("looptrap")


class Export:
    """Takes spans, and has a thread that sends them; one that finds no room is lost."""

    def __init__(
        self,
        endpoint: str,
        *,
        service: str,
        env: Mapping[str, str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        given = next((env[name] for name in HEADERS if env.get(name)), "")
        self.sender = Sender(
            endpoint.rstrip("/") + PATH, parse_env_headers(given, liberal=True), monotonic
        )
        self._resource = Resource.create({"service.name": service, "service.version": __version__})
        self._processor: BatchSpanProcessor | None = None
        self._put = 0

    def start(self) -> None:
        """Begin to send."""
        self._processor = BatchSpanProcessor(
            self.sender,
            max_queue_size=MOST_WAITING,
            max_export_batch_size=LARGEST_BATCH,
            schedule_delay_millis=DELAY_MS,
        )

    @property
    def waiting(self) -> int:
        """How many spans wait to be sent."""
        # Two counters with one writer each need no lock.
        return self._put - self.sender.taken

    def has_room(self) -> bool:
        """Say whether one more span can wait."""
        # The SDK would look itself, but with a line to its log for every span too many.
        return self.waiting < MOST_WAITING

    def lose(self) -> None:
        """Count a span for which there is no room."""
        self.sender.overflowed += 1

    def put(
        self,
        span: Span,
        name: str,
        attributes: Attributes,
        events: Sequence[tuple[float, Attributes]],
        ended: float,
    ) -> None:
        """Take a span that has ended, with what there is to tell of it."""
        processor = self._processor
        if processor is None:
            return
        flags = TraceFlags(span.flags)
        state = TraceState(members(span.state)) if span.state else _STATELESS
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
                [Event(EVENT, told, _nanoseconds(when)) for when, told in events],
                kind=SpanKind.CLIENT,
                status=_ERROR if "error.type" in attributes else _UNSET,
                start_time=_nanoseconds(span.began),
                end_time=_nanoseconds(max(span.began, ended)),
                instrumentation_scope=_SCOPE,
            )
        )

    def close(self, patience: float) -> None:
        """Send what waits, no longer than `patience` seconds, and end."""
        processor, self._processor = self._processor, None
        if processor is None:
            self.sender.shutdown()
            return
        # The SDK itself waits for half a minute.
        ending = Thread(target=processor.shutdown, name="looptrap-traces-end", daemon=True)
        ending.start()
        ending.join(patience)
        if ending.is_alive():
            log.warning("%d spans or more were not sent before the end", self.waiting)
            self.sender.shutdown()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
