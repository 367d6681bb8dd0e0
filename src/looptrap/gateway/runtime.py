"""Runtime: what a running gateway needs of its configuration; a reload makes another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from looptrap.config import Config
from looptrap.dialect.model import BYTES_PER_TOKEN, Call, Usage
from looptrap.engine import Counters, PolicyEngine
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.auth import Authenticator, check_token, projects_by_key
from looptrap.gateway.browser import Browsers
from looptrap.gateway.jwt_claims import ClaimsReader
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.request_context import InboundHeaderReader, RequestContexts
from looptrap.gateway.router import build_router
from looptrap.money.estimate import is_charged
from looptrap.money.price import Prices


class Runtime:
    """All that requests need of the configuration."""

    def __init__(
        self,
        config: Config,
        *,
        env: Mapping[str, str],
        secret: bytes,
        ring: KeyRing,
        tally: Counters,
        claims: ClaimsReader,
        clock: Callable[[], float],
    ) -> None:
        gateway = config.gateway
        self.config = config
        self.prices = Prices(config.prices, config.price_fallback)
        self.engine = PolicyEngine(
            config.policies,
            projects=config.projects,
            kill_switches=config.kill_switches,
            tools=config.tools,
            budgets=config.budgets,
            prices=self.prices,
            secret=secret,
            tally=tally,
        )
        self.routes = build_router(config, env)
        self.authenticator = Authenticator(
            ring,
            secret=secret,
            projects=projects_by_key(config.projects),
            carriers=self.routes.carriers,
        )
        self.inbound = InboundHeaderReader(
            config.session_headers, relay_compressed=gateway.relay_compressed
        )
        browsers = Browsers(gateway.allowed_origins, gateway.listen.host)
        self.contexts = RequestContexts(self.authenticator, self.inbound, claims, clock, browsers)
        self.block_status = config.block_status
        self.max_decoded = gateway.server_limits.max_body
        self.max_unpacked = gateway.max_unpacked
        self.refuses_unreadable = gateway.unreadable == "refuse"
        self.decision_status = gateway.decision_status
        token = token_from_env(gateway.decision_token_env, "gateway.decision_token_env", env)
        check_token("gateway.decision_token_env", token, gateway.listen.host)
        self.decision_token = token.encode()
        self._clock = clock

    def input_cost(self, call: Call) -> int | None:
        """Return the estimated cost of a call's input, in nano-dollars."""
        price = self.prices.of(call.model, "", self._clock())
        tokens = len(call.request.body) // BYTES_PER_TOKEN
        return price.cost(Usage(tokens)) if price is not None and is_charged(call) else None


def token_from_env(variable: str | None, place: str, env: Mapping[str, str]) -> str:
    """Return the token in a variable, empty where none is named; a named one must be set."""
    if variable is None:
        return ""
    token = env.get(variable, "")
    if not token:
        raise ConfigError([Problem(place, f"the variable {variable} is not set, or empty")])
    return token
