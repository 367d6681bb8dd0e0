"""Claims of callers: check the settings about them, and warn where rules will not see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from looptrap.errors import Problem
from looptrap.schema.wording import quoted

if TYPE_CHECKING:
    from looptrap.config.gateway import GatewaySettings
    from looptrap.config.setting import Config

JwtTrust = Literal["off", "verified", "unverified"]
"""Which claims are believed: none, those of a token that a key verifies, all."""

_SAID: dict[JwtTrust, str] = {
    "off": "unverified claims read as empty",
    "verified": "",
    "unverified": "nobody verifies it, anybody can claim anything",
}

_KEYS = "gateway.jwt_keys"


def with_verified_claims(config: Config) -> Config:
    """Return the configuration with `jwt` as `verified` where only keys are set."""
    if config.gateway.jwt_keys is None or "gateway.jwt" in config.origins:
        return config
    return replace(
        config,
        gateway=replace(config.gateway, jwt="verified"),
        origins={**config.origins, "gateway.jwt": config.origins[_KEYS]},
    )


def contradictions(gateway: GatewaySettings) -> Iterator[Problem]:
    """Find settings about claims that contradict each other."""
    keys = gateway.jwt_keys
    if gateway.jwt == "verified" and keys is None:
        yield Problem("gateway.jwt", f'is "verified" and has nothing to verify with: set {_KEYS}')
    elif gateway.jwt == "unverified" and keys is not None:
        yield Problem(_KEYS, 'is set while gateway.jwt is "unverified": say one or the other')
    if keys is not None and keys.startswith(("http://", "https://")):
        message = f"is {quoted(keys)}, must be the path of a file: no keys are fetched"
        yield Problem(_KEYS, message)


def doubts(config: Config) -> Iterator[str]:
    """Yield a warning for each setting about claims that has no or another effect."""
    trust = config.gateway.jwt
    if trust == "off":
        for name in ("jwt_keys", "jwt_issuer", "jwt_audience"):
            if getattr(config.gateway, name) is not None:
                yield f'gateway.{name}: has no effect, gateway.jwt is "off"'
    for place, names in _descriptors(config):
        yield from doubts_of(names, place, trust)


def doubts_of(names: Iterable[str], place: str, trust: JwtTrust) -> Iterator[str]:
    """Yield a warning for each claim among these descriptors."""
    said = _SAID[trust]
    for name in names:
        if said and name.startswith("jwt:"):
            yield f"{place}: {name}: {said}"


def _descriptors(config: Config) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield every place that names descriptors, and their names."""
    for i, policy in enumerate(config.policies):
        for j, rule in enumerate(policy.rules):
            yield f"policies[{i}].rules[{j}].by", rule.by
        for j, rate in enumerate(policy.rates):
            at = f"policies[{i}].rates[{j}]"
            yield f"{at}.by", rate.by
            yield f"{at}.match", [name for name, _ in rate.match]
            for k, values in enumerate(rate.unless):
                yield f"{at}.unless[{k}]", [name for name, _ in values]
    for i, budget in enumerate(config.budgets):
        yield f"budgets[{i}].by", budget.by
    for i, switch in enumerate(config.kill_switches):
        yield f"kill_switches[{i}].match", [name for name, _ in switch.match]
