"""Check that settings go together: problems that prevent a start, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from looptrap.config.gateway import GatewaySettings, JwtTrust
from looptrap.config.provider import MODEL_DIALECTS, ProviderSettings, RouteSettings
from looptrap.config.setting import Config
from looptrap.dialect.model import DialectName
from looptrap.dialect.registry import dialect_of
from looptrap.errors import Problem
from looptrap.incident.setting import duplicate_names
from looptrap.policy import preset
from looptrap.policy.budget import same_names as same_budgets
from looptrap.policy.policy import Policy, Selector
from looptrap.schema.wording import found, listed, quoted, suggestion


def find_problems(config: Config) -> Iterator[Problem]:
    """Find settings that contradict each other."""
    if config.capture != "off" and config.gateway.capture_dir is None:
        yield Problem(
            "capture",
            f"is {quoted(config.capture)} and has no folder to write to: set gateway.capture_dir"
            " (LOOPTRAP_CAPTURE_DIR, or --capture of serve)",
        )
    if config.gateway.listen == config.gateway.admin and config.gateway.listen.port != 0:
        message = "is the address of gateway.listen, must be one of its own"
        yield Problem("gateway.admin", message)
    yield from _operator_problems(config.gateway)
    yield from _claim_problems(config.gateway)
    yield from _route_problems(config)
    yield from duplicate_names(config.channels)
    yield from same_budgets(config.budgets)
    for i, project in enumerate(config.projects):
        for misfit in project.misfits(config.policies):
            yield Problem(f"projects[{i}]", misfit)


def _operator_problems(gateway: GatewaySettings) -> Iterator[Problem]:
    names_users = gateway.user_header is not None
    can_write = gateway.admin_token_env or gateway.operators or names_users
    if gateway.read_token_env is not None and not can_write:
        message = "is a second token: name a variable with the first in admin_token_env"
        yield Problem("gateway.read_token_env", message)
    if names_users and not gateway.trusted_proxies:
        message = "is believed from no address: list that of the proxy in trusted_proxies"
        yield Problem("gateway.user_header", message)
    if gateway.trusted_proxies and not names_users:
        message = "has no effect without user_header, the header in which the proxy names its user"
        yield Problem("gateway.trusted_proxies", message)
    for i, one in enumerate(gateway.operators):
        if one.token_env is None and not names_users:
            message = "has neither a token_env nor a user_header that could name them"
            yield Problem(f"gateway.operators[{i}]", message)


def find_warnings(config: Config, now: datetime) -> Iterator[str]:
    """Find settings that have no effect, or not the one that a reader expects."""
    trust = config.gateway.jwt
    if trust == "off":
        for name in ("jwt_keys", "jwt_issuer", "jwt_audience"):
            if getattr(config.gateway, name) is not None:
                yield f'gateway.{name}: has no effect, gateway.jwt is "off"'
    for place, names in _descriptors(config):
        yield from claim_warnings(names, place, trust)
    if sentence := rules_replaced(config):
        yield f"policies: {sentence}"
    for i, switch in enumerate(config.kill_switches):
        if switch.expires is not None and switch.expires <= now:
            yield f"kill_switches[{i}]: expired at {switch.expires.isoformat()}, refuses nothing"


def rules_replaced(config: Config) -> str:
    """Say that own policies replace default rules that watch more; empty if they do not."""
    is_imported = any("fairvisor" in one.compat for one in config.policies)
    if config.preset is not None or is_imported or not (missing := _unwatched(config.policies)):
        return ""
    return (
        f"replace the default rules, {len(missing)} of which look for loops that"
        ' these do not; to change one rule and keep the others, write [rules."name"]'
    )


def _unwatched(policies: Iterable[Policy]) -> list[str]:
    """Return what the default rules watch and the rules of these policies do not."""
    watched = {rule.watch for one in policies for rule in one.rules}
    if not watched:
        return []  # on purpose
    defaults = (rule.watch for one in preset.load(preset.DEFAULT) for rule in one.rules)
    return [watch for watch in defaults if watch not in watched]


# Claims of callers

_UNTRUSTED: dict[JwtTrust, str] = {
    "off": "unverified claims read as empty",
    "unverified": "not verified: clients can claim anything",
}


def claim_warnings(names: Iterable[str], place: str, trust: JwtTrust) -> Iterator[str]:
    """Yield a warning for each claim among these descriptors that is not verified."""
    for name in names:
        if trust in _UNTRUSTED and name.startswith("jwt:"):
            yield f"{place}: {name}: {_UNTRUSTED[trust]}"


def _claim_problems(gateway: GatewaySettings) -> Iterator[Problem]:
    place, keys = "gateway.jwt_keys", gateway.jwt_keys
    if gateway.jwt == "verified" and keys is None:
        yield Problem("gateway.jwt", f'is "verified" and has nothing to verify with: set {place}')
    elif gateway.jwt == "unverified" and keys is not None:
        yield Problem(place, 'is set while gateway.jwt is "unverified": say one or the other')
    if keys is not None and keys.startswith(("http://", "https://")):
        message = f"is {quoted(keys)}, must be the path of a file: no keys are fetched"
        yield Problem(place, message)


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


# Routes and providers

_PATHS: dict[str, DialectName] = {
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/v1/completions": "openai_completions",
    "/v1/embeddings": "openai_embeddings",
    "/v1/messages": "anthropic",
    "/v1beta/models/gemini:generateContent": "gemini",
    "/v1beta/interactions": "gemini_interactions",
}
"""One path of each dialect, to compare with the prefixes of selectors."""

_NO_TRANSLATION = (
    "a call is never translated, so all links of a chain must speak its dialect (`google` is Gemini"
    " in OpenAI's, and `anthropic` speaks openai_chat too)"
)


def _route_problems(config: Config) -> Iterator[Problem]:
    """Find routes to unknown providers, and chains that cross dialects."""
    providers = config.known_providers()
    for i, route in enumerate(config.routes):
        place = f"routes[{i}].chain" if route.chain else f"routes[{i}].provider"
        names = [link.partition("/")[0] if route.chain else link for link in route.links]
        for j, (name, link) in enumerate(zip(names, route.links, strict=True)):
            if name not in providers:
                hint = suggestion(name, providers)
                message = f"is {found(link)}, must be the name of a provider{hint}"
                yield Problem(f"{place}[{j}]" if route.chain else place, message)
        if route.chain and all(name in providers for name in names):
            yield from _dialect_problems(place, names, route, providers)


def _dialect_problems(
    place: str, names: list[str], route: RouteSettings, providers: Mapping[str, ProviderSettings]
) -> Iterator[Problem]:
    spoken = {name: set(providers[name].speaks or MODEL_DIALECTS) for name in names}
    sent = _dialects_of(route.select)
    if sent.intersection(*spoken.values()):
        return
    dialects = [
        f"{name} speaks {listed([one for one in MODEL_DIALECTS if one in understood], 'and')}"
        for name, understood in spoken.items()
    ]
    path = "" if sent == set(MODEL_DIALECTS) else f" (its path is of {listed(sorted(sent), 'or')})"
    yield Problem(place, f"crosses dialects{path}: {'; '.join(dialects)}; {_NO_TRANSLATION}")


def _dialects_of(select: Selector) -> set[DialectName]:
    """Return the dialects of calls that a selector can bind, as far as its path says."""
    path = select.path_exact or select.path_prefix
    if path is None:
        return set(MODEL_DIALECTS)
    dialect = _PATHS.get(path) or dialect_of(path)
    bound: set[DialectName] = {dialect} if dialect in MODEL_DIALECTS else set()
    if select.path_exact is None:
        bound |= {spoken for begun, spoken in _PATHS.items() if begun.startswith(path)}
    return bound or set(MODEL_DIALECTS)
