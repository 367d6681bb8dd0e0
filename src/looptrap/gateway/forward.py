"""Forwarding: an allowed call goes to the provider that its route names, or on its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from looptrap.gateway.attempt import Dispatch, Journey, Plan
from looptrap.gateway.attempt.parcel import Packing
from looptrap.gateway.attempt.plan import CHAINED, as_sent, lacking_key
from looptrap.gateway.relay import Relay
from looptrap.wire.pools import Pools

if TYPE_CHECKING:
    from looptrap.gateway.runtime import Runtime


class Forwarder:
    """Sends calls on, as they came but for what is ours."""

    def __init__(self, pools: Pools, dispatch: Dispatch) -> None:
        self._pools = pools
        self._dispatch = dispatch

    def forward(self, relay: Relay, runtime: Runtime, body: bytes | None = None) -> None:
        """Send a call to its provider; one attempt, unless its route has a plan."""
        exchange, call = relay.exchange, relay.call
        route = runtime.routes.choose(call)
        if route is None:
            relay.fail(404, "unknown_route", _unrouted(call.request.path))
            return
        if body is None:
            body = exchange.body
        if route.plan is not None and call.dialect in CHAINED:
            self._begin(relay, route.plan, body)
            return
        provider, envelope = route.provider, relay.envelope
        fields = envelope.fields
        if envelope.identity.key_name and not envelope.identity.has_credential:
            key_field = provider.key_field(call.dialect)
            if key_field is None:
                relay.fail(401, "missing_provider_key", _keyless(provider.name))
                return
            fields += key_field
        if relay.span is not None:
            fields = relay.span.forwarded(fields)
        relay.leave_for(provider)
        relay.flight = exchange.source = provider.pool(self._pools).send(
            exchange.method, provider.target(envelope.target), fields, body, relay
        )

    def _begin(self, relay: Relay, plan: Plan, body: bytes) -> None:
        """Begin a journey over the legs that this caller may go."""
        call, envelope = relay.call, relay.envelope
        legs, skipped = plan.legs(call, envelope.identity)
        if not legs:
            if name := lacking_key(skipped):
                relay.fail(401, "missing_provider_key", _keyless(name))
            else:
                relay.fail(404, "unknown_route", _unspoken(call.dialect))
            return
        packing = Packing(call, envelope, body, relay.span)
        if any(leg.link.model is not None for leg in legs) and not packing.can_rename():
            legs = as_sent(legs)
        relay.flight = journey = Journey(
            relay, plan, legs, skipped, packing, dispatch=self._dispatch, pools=self._pools
        )
        journey.begin()


def _unrouted(path: str) -> str:
    shown = path if len(path) <= 80 else f"{path[:80]}…"
    return (
        f"No provider answers {shown}. Point clients at /v1 (OpenAI), at the root (Anthropic,"
        " Gemini), or set --upstream."
    )


def _unspoken(dialect: str) -> str:
    return f"No provider of this route speaks {dialect}."


def _keyless(provider: str) -> str:
    return (
        f"The gateway has no key for {provider}: set the provider's api_key_env, or send your own"
        " key beside the gateway's in X-Looptrap-Key."
    )
