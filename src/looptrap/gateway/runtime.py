"""What a configuration means to a running gateway; a reload makes another and swaps it in."""

from __future__ import annotations

from collections.abc import Mapping

from looptrap.config import Config
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.auth import Authenticator, projects_by_key
from looptrap.gateway.envelope import Envelopes
from looptrap.gateway.inbound import InboundReader
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.route import routes_of
from looptrap.guard import Guard, Tally


class Runtime:
    """Everything a request needs that follows from the configuration."""

    def __init__(
        self,
        config: Config,
        *,
        env: Mapping[str, str],
        secret: bytes,
        ring: KeyRing,
        tally: Tally,
    ) -> None:
        gateway = config.gateway
        self.config = config
        self.guard = Guard(
            config.policies,
            projects=config.projects,
            kill_switches=config.kill_switches,
            tools=config.tools,
            secret=secret,
            tally=tally,
        )
        self.routes = routes_of(config, env)
        self.authenticator = Authenticator(
            ring, secret=secret, projects=projects_by_key(config.projects)
        )
        self.inbound = InboundReader(
            config.session_headers, relay_compressed=gateway.relay_compressed
        )
        self.envelopes = Envelopes(self.authenticator, self.inbound)
        self.block_status = config.block_status
        self.max_decoded = gateway.max_body
        self.decision_status = gateway.decision_status
        self.decision_token = token_of(gateway.decision_token_env, "decision", env).encode()


def token_of(variable: str | None, what: str, env: Mapping[str, str]) -> str:
    """Return the token in a variable, empty where none is named; a named one must be there."""
    if variable is None:
        return ""
    token = env.get(variable, "")
    if not token:
        place = f"gateway.{what}_token_env"
        raise ConfigError([Problem(place, f"the variable {variable} is not set, or empty")])
    return token
