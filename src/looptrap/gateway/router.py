"""Routes: which provider a call goes to, and where it goes when that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from looptrap.bounded import BoundedCache
from looptrap.config import Config
from looptrap.config.provider import MODEL_DIALECTS, ProviderSettings, RouteSettings
from looptrap.dialect.model import Call, Request
from looptrap.dialect.registry import dialect_of
from looptrap.gateway.auth import is_loopback
from looptrap.gateway.credential import Carriers, carriers_of
from looptrap.gateway.provider import Provider
from looptrap.gateway.relay import Relay
from looptrap.gateway.upstream import FailoverPlan, RoutedRequest, UpstreamState, UpstreamTarget
from looptrap.gateway.upstream.failover_plan import (
    CHAINED_DIALECTS,
    first_missing_key,
    keep_sent_model,
)
from looptrap.gateway.upstream.outbound_request import RequestBuilder
from looptrap.policy.policy import Selector
from looptrap.policy.select import Selects, selects
from looptrap.retry.policy import RetryPolicy
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pools

if TYPE_CHECKING:
    from looptrap.gateway.runtime import Runtime


class Route:
    """Calls that a selector binds go to a provider."""

    __slots__ = ("_needs_more", "plan", "provider", "selects")

    def __init__(
        self,
        provider: Provider,
        select: Selector | Selects | None = None,
        plan: FailoverPlan | None = None,
    ) -> None:
        self.provider = provider
        self.plan = plan
        """What is done when it fails; None for nothing."""
        self.selects = selects(select) if isinstance(select, Selector) else select
        self._needs_more = None
        if isinstance(select, Selector) and (
            select.methods or select.hosts or select.headers or select.models
        ):
            path_only = replace(select, methods=(), hosts=(), headers=(), models=())
            self._needs_more = selects(path_only) or _always

    def may_bind(self, call: Call) -> bool | None:
        """Say whether it binds all calls with that path; None where more than the path decides."""
        if self._needs_more is not None:
            return None if self._needs_more(call) else False
        return self.selects is None or self.selects(call)


class Router:
    """An ordered list of routes: the first that binds a call decides."""

    __slots__ = ("_carriers", "_routes")

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)
        self._carriers = BoundedCache(self._find_carriers)

    @property
    def providers(self) -> list[Provider]:
        """Every place that calls may go to, once for all its keys."""
        every = [
            provider
            for route in self._routes
            for provider in (
                [place.provider for place in route.plan.places] if route.plan else [route.provider]
            )
        ]
        return list({one.circuit: one for one in reversed(every)}.values())[::-1]

    def carriers(self, path: bytes) -> Carriers:
        """Return where the provider of a path looks for credentials.

        Asked before there is a body. Where more than the path decides which provider it will be,
        and for paths of no dialect, the dialect alone says.
        """
        return self._carriers[path]

    def _find_carriers(self, path: bytes) -> Carriers:
        text = path.decode("latin-1")
        dialect = dialect_of(text)
        if dialect in MODEL_DIALECTS:
            call = Call(Request(path=text), dialect)
            for route in self._routes:
                binds = route.may_bind(call)
                if binds:
                    return route.provider.carriers(dialect)
                if binds is None:
                    break
        return carriers_of(path)

    def choose(self, call: Call) -> Route | None:
        """Return the route of a call; None when none binds it."""
        for route in self._routes:
            if route.selects is None or route.selects(call):
                return route
        return None


def build_router(config: Config, env: Mapping[str, str]) -> Router:
    """Return the routes of a configuration: one upstream, its own routes, then the well-known."""
    providers = {name: _build_providers(one, env) for name, one in config.known_providers().items()}
    lends = is_loopback(config.gateway.listen.host)
    own = [_build_route(route, providers, lends) for route in config.routes]
    if config.gateway.upstream is not None:
        return Router([*own, Route(Provider("upstream", config.gateway.upstream))])

    def well_known(name: str, select: Selector | Selects) -> Route:
        settings = RouteSettings(provider=name)
        return _build_route(settings, providers, lends, select)

    return Router(
        [
            *own,
            well_known("anthropic", _speaks_anthropic),
            well_known("gemini", _speaks_gemini),
            well_known("openai", lambda call: call.request.path.startswith("/v1/")),
        ]
    )


def _build_route(
    settings: RouteSettings,
    providers: Mapping[str, Sequence[Provider]],
    lends: bool,
    select: Selector | Selects | None = None,
) -> Route:
    places: list[UpstreamTarget] = []
    for link in settings.links:
        name, _, model = link.partition("/") if settings.chain else (link, "", "")
        places += [UpstreamTarget(provider, model or None) for provider in providers[name]]
    has_breakers = settings.attempts is not None or len(places) > 1
    is_timed = settings.deadline is not None or settings.attempt_timeout is not None
    plan = None
    if has_breakers or is_timed or places[0].model is not None:
        # Whoever meets an open circuit is told when to come again, and not held here.
        policy = RetryPolicy(
            attempts=settings.attempts or 1, limit_waits=0, deadline=settings.deadline
        )
        plan = FailoverPlan(tuple(places), policy, settings.attempt_timeout, has_breakers, lends)
    return Route(places[0].provider, select or settings.select, plan)


def _build_providers(settings: ProviderSettings, env: Mapping[str, str]) -> list[Provider]:
    """Return a provider for each of its URLs and keys, all keys of a URL before the next."""
    keys = [(name, env[name]) for name in settings.api_key_env or () if env.get(name)]
    return [
        Provider(
            settings.name,
            url,
            key=key,
            key_name=name,
            credential=settings.credential,
            circuit=_circuit_name(settings.name, url, settings.base_url),
            speaks=settings.speaks,
        )
        for url in settings.base_url
        for name, key in keys or [("", "")]
    ]


def _circuit_name(name: str, url: str, urls: Sequence[str]) -> str:
    """Return what breakers call a place: the provider, with its address where it has several."""
    if len(urls) == 1:
        return name
    origin, path = Origin.of(url)
    return f"{name}@{origin.authority}{path}"


def _always(call: Call) -> bool:  # noqa: ARG001 - as selectors are called
    return True


def _speaks_anthropic(call: Call) -> bool:
    path = call.request.path
    return path.startswith("/v1/messages") or (
        path.startswith("/v1/") and call.request.header(b"anthropic-version") is not None
    )


def _speaks_gemini(call: Call) -> bool:
    path = call.request.path
    if path.startswith(("/v1beta", "/v1alpha", "/upload/v1beta")):
        return True
    # Fine-tuned models of OpenAI have colons in their names, but nobody posts to those.
    return path.startswith("/v1/models/") and ":" in path and call.request.method == "POST"


class Forwarder:
    """Sends calls on, as they came but for what is ours."""

    def __init__(self, pools: Pools, dispatch: UpstreamState) -> None:
        self._pools = pools
        self._dispatch = dispatch

    def forward(self, relay: Relay, runtime: Runtime) -> None:
        """Send a call to its provider; one attempt, unless its route has a plan."""
        exchange, call = relay.exchange, relay.call
        route = runtime.routes.choose(call)
        if route is None:
            relay.fail(404, "unknown_route", _no_route_message(call.request.path))
            return
        nudged = relay.transaction.body
        body = exchange.body if nudged is None else nudged
        if route.plan is not None and call.dialect in CHAINED_DIALECTS:
            self._begin(relay, route.plan, body)
            return
        provider, context = route.provider, relay.context
        fields = context.fields
        if context.identity.key_name and not context.identity.has_credential:
            key_field = provider.key_field(call.dialect)
            if key_field is None:
                relay.fail(401, "missing_provider_key", _no_key_message(provider.name))
                return
            fields += key_field
        if relay.span is not None:
            fields = relay.span.forwarded(fields)
        relay.start_upstream(provider)
        relay.upstream = exchange.source = provider.pool(self._pools).send(
            exchange.method, provider.target(context.target), fields, body, relay
        )

    def _begin(self, relay: Relay, plan: FailoverPlan, body: bytes) -> None:
        """Begin a journey over the legs that this caller may go."""
        call, context = relay.call, relay.context
        legs, skipped = plan.legs(call, context.identity)
        if not legs:
            if name := first_missing_key(skipped):
                relay.fail(401, "missing_provider_key", _no_key_message(name))
            else:
                relay.fail(404, "unknown_route", _no_dialect_message(call.dialect))
            return
        packing = RequestBuilder(call, context, body, relay.span)
        if any(leg.link.model is not None for leg in legs) and not packing.can_rename():
            legs = keep_sent_model(legs)
        relay.failover = journey = RoutedRequest(
            relay, plan, legs, skipped, packing, dispatch=self._dispatch, pools=self._pools
        )
        journey.begin()


def _no_route_message(path: str) -> str:
    shown = path if len(path) <= 80 else f"{path[:80]}…"
    return (
        f"No provider answers {shown}. Point clients at /v1 (OpenAI), at the root (Anthropic,"
        " Gemini), or set --upstream."
    )


def _no_dialect_message(dialect: str) -> str:
    return f"No provider of this route speaks {dialect}."


def _no_key_message(provider: str) -> str:
    return (
        f"The gateway has no key for {provider}: set the provider's api_key_env, or send your own"
        " key beside the gateway's in X-Looptrap-Key."
    )
