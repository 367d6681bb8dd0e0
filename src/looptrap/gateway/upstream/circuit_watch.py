"""CircuitWatch: circuits of providers on routes without a plan.

While all providers answer, a call costs two look-ups in an empty set. From the first failure of a
provider on, its calls are counted, and refused while its circuit is open for them, as those of
routes with a plan are. Limits and other errors of clients (4xx) open no circuit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil

from looptrap.gateway.provider import Provider
from looptrap.gateway.relay import Relay
from looptrap.gateway.upstream.failover_plan import CHAINED_DIALECTS
from looptrap.gateway.upstream.routed_request import source_of
from looptrap.gateway.upstream.upstream_state import UpstreamState, refused_key
from looptrap.retry.breaker import CircuitChange, CircuitPermits
from looptrap.retry.classify import classify, classify_answer
from looptrap.retry.failure import Failure
from looptrap.wire.exchange import UpstreamError
from looptrap.wire.header_fields import Field


class CircuitWatch:
    """Lets calls pass or refuses them, and takes their outcomes."""

    def __init__(self, upstreams: UpstreamState) -> None:
        self.watched = upstreams.watched
        """Circuits with failures since their latest answer: empty while all is well."""
        self._upstreams = upstreams
        self._probes: dict[Relay, CircuitPermits] = {}

    def send(self, relay: Relay, provider: Provider, send: Callable[[], None]) -> None:
        """Send a call to a watched provider, unless its circuit is open for it."""
        if not _has_circuit(relay, provider):
            send()
            return
        upstreams = self._upstreams
        now = upstreams.clock()
        permit = upstreams.breakers.allow(provider.circuit, None, now, source_of(relay))
        if permit is None:
            self._refuse(relay, provider)
        elif permit.is_probe:
            upstreams.note(CircuitChange(key, "half_open") for key in permit.probed)
            upstreams.claim(permit, partial(self._on_claim, relay, provider, permit, send))
        else:
            send()

    def on_head(self, relay: Relay, status: int, headers: list[Field]) -> None:
        """Take the head of an answer that is an error, or that is a watched provider's."""
        provider, failure, reason = relay.provider, None, ""
        has_operator_key = relay.context.identity.uses_operator_key
        if status >= 500:
            failure = classify_answer(status, headers, b"", relay.now())
            if failure is not None and failure.trips == "provider":
                reason = f"status {status}"
        elif status >= 400:
            failure = Failure("permanent", f"http_{status}")
            if has_operator_key:
                reason = refused_key(provider, status)
        self._settle(relay, failure)
        if reason:
            self._upstreams.failed(provider, reason, is_of_key=status < 500)
        else:
            self._upstreams.answered(provider, has_operator_key=has_operator_key)

    def on_error(self, relay: Relay, error: UpstreamError) -> None:
        """Take that there is no answer, or no more of it."""
        failure = classify(error)
        self._settle(relay, failure)
        if failure.trips == "provider":
            self._upstreams.failed(relay.provider, str(error))

    def on_cancel(self, relay: Relay) -> None:
        """Take that the answer is no longer awaited."""
        permit = self._probes.pop(relay, None)
        if permit is not None:
            permit.abandon(self._upstreams.clock())
            self._upstreams.settled(permit, ())

    def _settle(self, relay: Relay, failure: Failure | None) -> None:
        """Count an outcome, None for a success; not one from before the circuit's latest change."""
        upstreams, provider = self._upstreams, relay.provider
        now = upstreams.clock()
        permit = self._probes.pop(relay, None)
        if permit is None:
            is_late = relay.sent_at < upstreams.changed_at.get(provider.circuit, 0.0)
            if is_late or not _has_circuit(relay, provider):
                return
            permit = upstreams.breakers.late_permit(provider.circuit, now, source_of(relay))
        if permit is not None:
            upstreams.settled(permit, permit.done(failure, now))

    def _on_claim(
        self,
        relay: Relay,
        provider: Provider,
        permit: CircuitPermits,
        send: Callable[[], None],
        is_ours: bool,
    ) -> None:
        """Make a probe if this instance may; the client may have disconnected."""
        now = self._upstreams.clock()
        if relay.is_over:
            permit.abandon(now)
            if is_ours:
                self._upstreams.settled(permit, ())
        elif is_ours:
            self._probes[relay] = permit
            relay.exchange.attempt(send)
        else:
            permit.deny(now)
            relay.exchange.attempt(partial(self._refuse, relay, provider))

    def _refuse(self, relay: Relay, provider: Provider) -> None:
        upstreams, circuit = self._upstreams, provider.circuit
        now = upstreams.clock()
        left = upstreams.breakers.retry_after(circuit, None, now, source_of(relay))
        seconds = max(1, ceil(left))
        reason = upstreams.health.reason(circuit)
        relay.fail(
            503,
            "breaker_open",
            f"{circuit} is left alone for {seconds} s after failures in a row"
            f"{f', the latest: {reason}' if reason else ''}.",
            headers=[provider.field, (b"X-Looptrap-Reason", b"breaker_open")],
            retry_after=seconds,
        )


def _has_circuit(relay: Relay, provider: Provider) -> bool:
    return provider.has_breaker and relay.call.dialect in CHAINED_DIALECTS
