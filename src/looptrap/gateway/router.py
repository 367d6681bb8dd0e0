"""Routes: which provider a call goes to, and where it goes when that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from looptrap.bounded import BoundedCache
from looptrap.config import Config
from looptrap.config.provider import MODEL_DIALECTS, ProviderSettings, RouteSettings
from looptrap.dialect.model import Call, Request
from looptrap.dialect.registry import dialect_of
from looptrap.gateway.auth import is_loopback
from looptrap.gateway.provider import Carriers, Provider, carriers_of
from looptrap.gateway.relay import Relay
from looptrap.gateway.upstream import FailoverPlan, RoutedRequest, UpstreamState, UpstreamTarget
from looptrap.gateway.upstream.failover_plan import (
    CHAINED_DIALECTS,
    first_missing_key,
    keep_sent_model,
)
from looptrap.gateway.upstream.outbound_request import RequestBuilder
from looptrap.gateway.upstream.upstream_state import CircuitWatch
from looptrap.policy.policy import Selector
from looptrap.policy.select import Selects, selects
from looptrap.retry.policy import RetryPolicy
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pools

if TYPE_CHECKING:
    from looptrap.gateway.app import Runtime


class Route:
    """Sends the calls that a selector matches to a provider."""

    def __init__(
        self,
        provider: Provider,
        select: Selector | Selects | None = None,
        plan: FailoverPlan | None = None,
    ) -> None:
        self.provider = provider
        self.plan = plan
        """What to do when the provider fails; None for nothing."""
        self.selects = selects(select) if isinstance(select, Selector) else select
        self._by_path, self._is_by_path_only = self.selects, True
        if isinstance(select, Selector):
            path_only = replace(select, methods=(), hosts=(), headers=(), models=())
            self._by_path, self._is_by_path_only = selects(path_only), select == path_only

    def matches_path(self, call: Call) -> bool | None:
        """Return whether it matches all calls with that path; None where more than that decides."""
        matches = self._by_path is None or self._by_path(call)
        return matches if self._is_by_path_only else None if matches else False


class Router:
    """An ordered list of routes: the first that matches a call decides."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)
        self._carriers = BoundedCache(self._find_carriers)

    @property
    def providers(self) -> list[Provider]:
        """Every provider that calls may go to, once for all its keys."""
        every = [
            provider
            for route in self._routes
            for provider in (
                [target.provider for target in route.plan.targets]
                if route.plan
                else [route.provider]
            )
        ]
        return list({one.circuit: one for one in reversed(every)}.values())[::-1]

    def carriers(self, path: bytes) -> Carriers:
        """Return where the provider of a path looks for credentials.

        It is called before there is a body. Where more than the path decides the provider, and
        for paths of no dialect, the dialect alone decides.
        """
        return self._carriers[path]

    def _find_carriers(self, path: bytes) -> Carriers:
        text = path.decode("latin-1")
        dialect = dialect_of(text)
        if dialect in MODEL_DIALECTS:
            call = Call(Request(path=text), dialect)
            for route in self._routes:
                matches = route.matches_path(call)
                if matches:
                    return route.provider.carriers(dialect)
                if matches is None:
                    break
        return carriers_of(path)

    def choose(self, call: Call) -> Route | None:
        """Return the route of a call; None when none matches it."""
        for route in self._routes:
            if route.selects is None or route.selects(call):
                return route
        return None


def build_router(config: Config, env: Mapping[str, str]) -> Router:
    """Return the routes of a configuration: its own, then one upstream or the well-known ones."""
    providers = {name: build_providers(one, env) for name, one in config.known_providers().items()}
    shares_keys = is_loopback(config.gateway.listen.host)
    own = [_build_route(route, providers, shares_keys) for route in config.routes]
    if config.gateway.upstream is not None:
        return Router([*own, Route(Provider("upstream", config.gateway.upstream))])

    def well_known(name: str, select: Selector | Selects) -> Route:
        return _build_route(RouteSettings(provider=name), providers, shares_keys, select)

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
    shares_keys: bool,
    select: Selector | Selects | None = None,
) -> Route:
    targets: list[UpstreamTarget] = []
    for link in settings.links:
        name, _, model = link.partition("/") if settings.chain else (link, "", "")
        targets += [UpstreamTarget(provider, model or None) for provider in providers[name]]
    skips_limited = settings.attempts is not None or len(targets) > 1
    is_timed = settings.deadline is not None or settings.attempt_timeout is not None
    plan = None
    if skips_limited or is_timed or targets[0].model is not None:
        # With every circuit open, a call is refused with a Retry-After, and does not wait here.
        policy = RetryPolicy(
            attempts=settings.attempts or 1, limit_waits=0, deadline=settings.deadline
        )
        plan = FailoverPlan(
            tuple(targets), policy, settings.attempt_timeout, skips_limited, shares_keys
        )
    return Route(targets[0].provider, select or settings.select, plan)


def build_providers(settings: ProviderSettings, env: Mapping[str, str]) -> list[Provider]:
    """Return a provider for each of its URLs and keys, all keys of a URL before the next."""
    keys = [(name, env[name]) for name in settings.api_key_env or () if env.get(name)]
    return [
        Provider(
            settings.name,
            url,
            key=key,
            key_name=name,
            auth=settings.auth,
            has_breaker=settings.breaker,
            circuit=_circuit_name(settings.name, url, settings.base_url),
            speaks=settings.speaks,
        )
        for url in settings.base_url
        for name, key in keys or [("", "")]
    ]


def _circuit_name(name: str, url: str, urls: Sequence[str]) -> str:
    """Return the name of a circuit: the provider's, with the address where it has several."""
    if len(urls) == 1:
        return name
    origin, path = Origin.of(url)
    return f"{name}@{origin.authority}{path}"


def _speaks_anthropic(call: Call) -> bool:
    path = call.request.path
    return path.startswith("/v1/messages") or (
        path.startswith("/v1/") and call.request.header(b"anthropic-version") is not None
    )


def _speaks_gemini(call: Call) -> bool:
    path = call.request.path
    if path.startswith(("/v1beta", "/v1alpha", "/upload/v1beta")):
        return True
    # Fine-tuned models of OpenAI have colons in their names, but no request posts to those.
    return path.startswith("/v1/models/") and ":" in path and call.request.method == "POST"


class Forwarder:
    """Sends calls to their providers, without what is for this gateway alone."""

    def __init__(self, pools: Pools, upstreams: UpstreamState) -> None:
        self._pools = pools
        self._upstreams = upstreams
        self._watch = CircuitWatch(upstreams)

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
            self._forward_by_plan(relay, route.plan, body)
            return
        provider, context = route.provider, relay.context
        fields = context.fields
        if context.identity.uses_operator_key:
            key_field = provider.key_field(call.dialect)
            if key_field is not None:
                fields += key_field
            elif provider.needs_key:
                relay.fail(401, "missing_provider_key", _no_key_message(provider.name))
                return
        if provider.circuit in self._watch.watched:
            send = partial(self._send, relay, provider, fields, body)
            self._watch.send(relay, provider, send)
        else:
            self._send(relay, provider, fields, body)

    def _send(self, relay: Relay, provider: Provider, fields: bytes, body: bytes) -> None:
        """Send a call to its provider, whose answer goes to the relay."""
        if relay.span is not None:
            fields = relay.span.forwarded(fields)
        exchange = relay.exchange
        relay.start_upstream(provider)
        relay.watch = self._watch
        relay.upstream = exchange.source = provider.pool(self._pools).send(
            exchange.method, provider.target(relay.context.target), fields, body, relay
        )

    def _forward_by_plan(self, relay: Relay, plan: FailoverPlan, body: bytes) -> None:
        call, context = relay.call, relay.context
        candidates, skipped = plan.candidates(call, context.identity)
        if not candidates:
            if name := first_missing_key(skipped):
                relay.fail(401, "missing_provider_key", _no_key_message(name))
            else:
                message = f"No provider of this route speaks {call.dialect}."
                relay.fail(404, "unknown_route", message)
            return
        builder = RequestBuilder(call, context, body, relay.span)
        if any(one.link.model is not None for one in candidates) and not builder.can_rename():
            candidates = keep_sent_model(candidates)
        relay.failover = routed_request = RoutedRequest(
            relay, plan, candidates, skipped, builder, upstreams=self._upstreams, pools=self._pools
        )
        routed_request.begin()


def _no_route_message(path: str) -> str:
    shown = path if len(path) <= 80 else f"{path[:80]}…"
    return (
        f"No provider answers {shown}. Point clients at /v1 (OpenAI), at the root (Anthropic,"
        " Gemini), or set --upstream."
    )


def _no_key_message(provider: str) -> str:
    return (
        f"The gateway has no key for {provider}: set the provider's api_key_env, or send your own"
        " key beside the gateway's in X-Looptrap-Key."
    )
