"""The tracer: what the gateway calls when a call comes, and when it is settled."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

from looptrap.call.model import Outcome
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.trace.description import attributes_of, event_of, name_of, verdicts_of
from looptrap.gateway.trace.span import Span, begin
from looptrap.incident.setting import TraceSettings

if TYPE_CHECKING:
    from looptrap.gateway.relay import Relay
    from looptrap.gateway.trace.export import Export

LAST_SPANS = 2.0
"""Seconds for the spans that wait when the gateway stops."""


class Tracer:
    """Makes a span of every call; whatever goes wrong with it, no call suffers."""

    def __init__(self, export: Export, *, sample: float, rng: Random | None = None) -> None:
        self.export = export
        self._sample = sample
        # Seeded by the system once: asking it for every id would cost more than the rest.
        self._rng = Random() if rng is None else rng

    @classmethod
    def of(cls, settings: TraceSettings, env: Mapping[str, str]) -> Tracer | None:
        """Return a tracer, not started; None without an endpoint, and then nothing is imported."""
        if settings.endpoint is None:
            return None
        try:
            from looptrap.gateway.trace.export import Export
        except ImportError as error:
            if error.name is None or error.name.partition(".")[0] != "opentelemetry":
                raise
            message = 'needs OpenTelemetry: pip install "looptrap[otel]"'
            raise ConfigError([Problem("traces.endpoint", message)]) from None
        export = Export(settings.endpoint, service=settings.service, env=env)
        return cls(export, sample=settings.sample)

    def start(self) -> None:
        """Begin to send."""
        self.export.start()

    def begin(self, fields: bytes, now: float) -> Span:
        """Return the span of a call that has come with these headers to forward."""
        return begin(fields, now, self._sample, self._rng)

    def settled(self, span: Span, relay: Relay, outcome: Outcome, now: float) -> None:
        """Hand over the span of a call that is settled."""
        if not span.is_sampled:
            return
        if not self.export.has_room():
            self.export.lose()
            return
        ticket = relay.ticket
        # What was heard of an answer is the one verdict that is no older than the answer.
        events = [
            (now if verdict is ticket.heard else span.began, event_of(mode, verdict))
            for mode, verdict in verdicts_of(ticket)
        ]
        self.export.put(span, name_of(relay.call), attributes_of(relay, outcome), events, now)

    def close(self, patience: float = LAST_SPANS) -> None:
        """Send what waits, no longer than that, and end; blocks."""
        self.export.close(patience)
