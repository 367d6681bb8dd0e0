"""Routes: which provider a call goes to, and under which path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from looptrap.call.model import Call
from looptrap.config import Config
from looptrap.config.gateway import WELL_KNOWN, Credential, ProviderSettings
from looptrap.policy.policy import Selector
from looptrap.policy.select import Selects, selects
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool
from looptrap.wire.pools import Pools
from looptrap.wire.remembered import Remembered


class Provider:
    """A place that answers calls."""

    __slots__ = ("_base_path", "_overlaps", "_pool", "_targets", "key_field", "name", "origin")

    def __init__(
        self, name: str, base_url: str, *, key: str = "", credential: Credential = "bearer"
    ) -> None:
        self.name = name
        self.origin, base_path = Origin.of(base_url)
        self._base_path = base_path.encode()
        self._overlaps = _suffixes(self._base_path)
        value = f"Bearer {key}" if credential == "bearer" else key
        header = "authorization" if credential == "bearer" else credential
        self.key_field = f"{header}: {value}\r\n".encode() if key else None
        """The header that carries the provider's key, where the operator has one."""
        self._targets = Remembered(self._join)
        self._pool: Pool | None = None

    def pool(self, pools: Pools) -> Pool:
        """Return the connections to this provider."""
        if self._pool is None:
            self._pool = pools.pool(self.origin)
        return self._pool

    def target(self, asked: bytes) -> bytes:
        """Return the request target at the provider; what base and path share is not doubled."""
        return self._targets[asked]

    def _join(self, asked: bytes) -> bytes:
        path, mark, query = asked.partition(b"?")
        for overlap in self._overlaps:
            if path.startswith(overlap) and path[len(overlap) : len(overlap) + 1] in (b"/", b""):
                path = path[len(overlap) :]
                break
        return ((self._base_path + path) or b"/") + mark + query


def _suffixes(base_path: bytes) -> tuple[bytes, ...]:
    """Return `/api/v1` and `/v1` of `/api/v1`: the longest first."""
    parts = base_path.split(b"/")[1:]
    return tuple(b"".join(b"/" + part for part in parts[start:]) for start in range(len(parts)))


class Route:
    """Calls that a selector binds go to a provider."""

    __slots__ = ("provider", "selects")

    def __init__(self, provider: Provider, select: Selector | Selects | None = None) -> None:
        self.provider = provider
        self.selects = selects(select) if isinstance(select, Selector) else select


class Routes:
    """An ordered list of routes: the first that binds a call decides."""

    __slots__ = ("_routes",)

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)

    def choose(self, call: Call) -> Provider | None:
        """Return the provider for a call; None when no route binds it."""
        for route in self._routes:
            if route.selects is None or route.selects(call):
                return route.provider
        return None


def routes_of(config: Config, env: Mapping[str, str]) -> Routes:
    """Return the routes of a configuration: one upstream, its own routes, then the well-known."""
    settings = {**WELL_KNOWN, **{provider.name: provider for provider in config.providers}}
    providers = {name: _provider(one, env) for name, one in settings.items()}
    own = [Route(providers[route.provider], route.select) for route in config.routes]
    if config.gateway.upstream is not None:
        upstream = ProviderSettings(name="upstream", base_url=config.gateway.upstream)
        return Routes([*own, Route(_provider(upstream, env))])
    return Routes(
        [
            *own,
            Route(providers["anthropic"], _speaks_anthropic),
            Route(providers["gemini"], _speaks_gemini),
            Route(providers["openai"], Selector(path_prefix="/v1/")),
        ]
    )


def _provider(settings: ProviderSettings, env: Mapping[str, str]) -> Provider:
    key = env.get(settings.api_key_env, "") if settings.api_key_env else ""
    return Provider(settings.name, settings.base_url, key=key, credential=settings.credential)


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
