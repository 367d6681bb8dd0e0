"""Traces: a span for every call, in OpenTelemetry's form, sent off the path of calls.

Tracer        begins a span when a call comes, hands it over when the call is settled
span          Span: the ids of one, from a client's trace and for the provider's. Pure
description   what is told of a call: attributes, events and errors, never its text. Pure
export        Export: spans that wait, and the SDK's thread that takes them
sender        Sender: batches on their way to the collector

OpenTelemetry is an extra: only the last two import it, and they only where spans are wanted.
"""

from looptrap.gateway.trace.span import Span
from looptrap.gateway.trace.tracer import Tracer

__all__ = ["Span", "Tracer"]
