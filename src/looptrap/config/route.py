"""Check that routes name known providers, and that chains stay within a dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from looptrap.config.provider import SPOKEN, WELL_KNOWN, ProviderSettings
from looptrap.config.setting import Config
from looptrap.dialect.model import DialectName
from looptrap.dialect.registry import dialect_of
from looptrap.errors import Problem
from looptrap.policy.policy import Selector
from looptrap.schema.wording import found, listed, suggestion

_PATHS: dict[str, DialectName] = {
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/v1/completions": "openai_completions",
    "/v1/embeddings": "openai_embeddings",
    "/v1/messages": "anthropic",
    "/v1beta/models/gemini:generateContent": "gemini",
}
"""One path of each dialect, to compare with the prefixes of selectors."""

_CROSSED = (
    "a call is never translated, so all links of a chain must speak its dialect (`google` is Gemini"
    " in OpenAI's, and `anthropic` speaks openai_chat too)"
)


def known_providers(config: Config) -> dict[str, ProviderSettings]:
    """Return all providers by name: those of the file in the place of the well-known."""
    return {**WELL_KNOWN, **{provider.name: provider for provider in config.providers}}


def misrouted(config: Config) -> Iterator[Problem]:
    """Find routes to unknown providers, and chains that cross dialects."""
    providers = known_providers(config)
    for i, route in enumerate(config.routes):
        place = f"routes[{i}].chain" if route.chain else f"routes[{i}].provider"
        is_known = True
        for j, link in enumerate(route.links):
            name = link.partition("/")[0] if route.chain else link
            if name not in providers:
                is_known = False
                hint = suggestion(name, providers)
                yield Problem(
                    f"{place}[{j}]" if route.chain else place,
                    f"is {found(link)}, must be the name of a provider{hint}",
                )
        if is_known and route.chain:
            yield from _crossed(place, route.chain, dialects_of(route.select), providers)


def _crossed(
    place: str,
    chain: Sequence[str],
    sent: set[DialectName],
    providers: Mapping[str, ProviderSettings],
) -> Iterator[Problem]:
    names = list(dict.fromkeys(link.partition("/")[0] for link in chain))
    spoken = {name: set(providers[name].speaks or SPOKEN) for name in names}
    if sent.intersection(*spoken.values()):
        return
    dialects = [
        f"{name} speaks {listed([one for one in SPOKEN if one in spoken[name]], 'and')}"
        for name in names
    ]
    asked = "" if sent == set(SPOKEN) else f" (its path is of {listed(sorted(sent), 'or')})"
    yield Problem(place, f"crosses dialects{asked}: {'; '.join(dialects)}; {_CROSSED}")


def dialects_of(select: Selector) -> set[DialectName]:
    """Return the dialects of calls that a selector can bind, as far as its path says."""
    path = select.path_exact or select.path_prefix
    if path is None:
        return set(SPOKEN)
    dialect = _PATHS.get(path) or dialect_of(path)
    bound: set[DialectName] = {dialect} if dialect in SPOKEN else set()
    if select.path_exact is None:
        bound |= {spoken for begun, spoken in _PATHS.items() if begun.startswith(path)}
    return bound or set(SPOKEN)
