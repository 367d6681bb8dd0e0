"""Settings of providers and routes: who answers calls, and where they go when that fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from looptrap.config.kind import BaseUrl, OneOrMore
from looptrap.dialect.model import DialectName
from looptrap.errors import Problem
from looptrap.policy.policy import SELECTOR, Selector
from looptrap.schema import (
    ANY_NAME,
    VARIABLE,
    Choice,
    Listing,
    Number,
    Table,
    Text,
    read,
    seconds,
    setting,
    settings,
)

Auth = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "none"]
"""The header in which a provider wants its key: `bearer` is Authorization."""

LINK = Text(form="a provider, or `provider/model`", pattern=r"[^/]+(/.+)?")


_OPENAI: tuple[DialectName, ...] = (
    "openai_chat",
    "openai_responses",
    "openai_completions",
    "openai_embeddings",
)

_GEMINI: tuple[DialectName, ...] = ("gemini", "gemini_interactions")

MODEL_DIALECTS: tuple[DialectName, ...] = (*_OPENAI, "anthropic", *_GEMINI)
"""The dialects of calls to models."""


KINDS: Mapping[str, Mapping[str, Any]] = {
    "openai": {
        "base_url": "https://api.openai.com/v1",
        "api_key_env": "OPENAI_API_KEY",
        "speaks": [*_OPENAI],
    },
    "anthropic": {
        "base_url": "https://api.anthropic.com",
        "api_key_env": "ANTHROPIC_API_KEY",
        "auth": "x-api-key",
        "speaks": ["anthropic", "openai_chat"],
    },
    "gemini": {
        "base_url": "https://generativelanguage.googleapis.com",
        "api_key_env": "GEMINI_API_KEY",
        "auth": "x-goog-api-key",
        "speaks": [*_GEMINI],
    },
    "google": {
        "base_url": "https://generativelanguage.googleapis.com/v1beta/openai",
        "api_key_env": "GEMINI_API_KEY",
        "speaks": ["openai_chat", "openai_embeddings"],
    },
    "openrouter": {
        "base_url": "https://openrouter.ai/api/v1",
        "api_key_env": "OPENROUTER_API_KEY",
        "speaks": ["openai_chat", "openai_responses", "openai_embeddings"],
    },
    "groq": {
        "base_url": "https://api.groq.com/openai/v1",
        "api_key_env": "GROQ_API_KEY",
        "speaks": ["openai_chat", "openai_responses"],
    },
    "mistral": {
        "base_url": "https://api.mistral.ai/v1",
        "api_key_env": "MISTRAL_API_KEY",
        "speaks": ["openai_chat", "openai_embeddings"],
    },
    "deepseek": {
        "base_url": "https://api.deepseek.com/v1",
        "api_key_env": "DEEPSEEK_API_KEY",
        "speaks": ["openai_chat"],
    },
    "xai": {
        "base_url": "https://api.x.ai/v1",
        "api_key_env": "XAI_API_KEY",
        "speaks": ["openai_chat", "openai_responses"],
    },
    "ollama": {
        "base_url": "http://127.0.0.1:11434/v1",
        "auth": "none",
        "speaks": [*_OPENAI],
    },
    "vllm": {
        "base_url": "http://127.0.0.1:8000/v1",
        "auth": "none",
        "speaks": [*_OPENAI, "anthropic"],
    },
    # The URLs of these are different for each account: a file gives them.
    "azure": {
        "api_key_env": "AZURE_OPENAI_API_KEY",
        "auth": "api-key",
        "speaks": [*_OPENAI],
    },
    "bedrock": {
        "api_key_env": "AWS_BEARER_TOKEN_BEDROCK",
        "speaks": ["openai_chat", "openai_responses"],
    },
    "vertex": {
        "api_key_env": "VERTEX_ACCESS_TOKEN",
        "speaks": ["openai_chat"],
    },
}
"""What is known of providers, as a file would say it."""


@settings
class ProviderSettings:
    """A place that answers calls."""

    name: str = setting("what routes call it", ANY_NAME)
    kind: str | None = setting(
        "the well-known provider that it is one of: what is not set here is as there",
        Choice(tuple(KINDS)),
        default=None,
    )
    base_url: tuple[str, ...] = setting(
        "where it answers; of several, the next is tried when one fails",
        OneOrMore(BaseUrl(), "such"),
    )
    api_key_env: tuple[str, ...] | None = setting(
        "the variable with the key sent for callers who use a gateway key; without it the caller's"
        " own key passes through; of several, the next is tried when one has met its limit",
        OneOrMore(VARIABLE, "such"),
        default=None,
    )
    auth: Auth = setting(
        "the header with that key: `bearer` is Authorization; `none` for a provider without keys",
        default="bearer",
    )
    speaks: tuple[DialectName, ...] = setting(
        "the dialects it understands; without it, whatever it is sent",
        Listing(Choice(MODEL_DIALECTS), "dialects"),
        default=(),
    )
    breaker: bool = setting(
        "refuse calls to it for a while after failures in a row; `false` always sends them",
        default=True,
    )


def _with_kind(given: dict[str, Any]) -> dict[str, Any]:
    """Return a provider that has from its kind what it does not say."""
    if "credential" in given and "auth" not in given:
        given = dict(given)
        given["auth"] = given.pop("credential")  # its name in 0.1
    known = dict(KINDS.get(kind, {})) if isinstance(kind := given.get("kind"), str) else {}
    if given.get("auth") == "none":
        known.pop("api_key_env", None)
    return known | given


def _no_key_without_auth(given: Mapping[str, Any]) -> Iterator[Problem]:
    if given.get("auth") == "none" and given.get("api_key_env"):
        yield Problem("api_key_env", 'names a key, which auth = "none" never sends: leave one out')


PROVIDER = Table.of(ProviderSettings, check=_no_key_without_auth, prepare=_with_kind)

WELL_KNOWN = {
    name: read(PROVIDER, {"name": name, "kind": name})
    for name, known in KINDS.items()
    if "base_url" in known
}
"""Providers that need no configuration; one of the same name in a file takes its place."""


@settings
class RouteSettings:
    """Which calls go to which provider, and where when that fails."""

    select: Selector = setting(
        "which calls it binds; without it, all", SELECTOR, default=Selector()
    )
    provider: str | None = setting("the provider they go to", ANY_NAME, default=None)
    chain: tuple[str, ...] | None = setting(
        "instead of `provider`: where they go, and where next when that fails",
        Listing(LINK, "providers, each with a model of its own or the caller's"),
        default=None,
    )
    attempts: int | None = setting(
        "how often each link is tried; without it, once",
        Number(low=1, high=10, whole=True),
        default=None,
    )
    deadline: float | None = setting(
        "for an answer to begin, all attempts and waits included", seconds(3_600), default=None
    )
    attempt_timeout: float | None = setting(
        "for the answer to one attempt to begin; without it, `gateway.first_byte_timeout`",
        seconds(3_600),
        default=None,
    )

    @property
    def links(self) -> tuple[str, ...]:
        """The places to try, in order, as `provider/model` or `provider`."""
        return self.chain or (self.provider or "",)


def _one_way(given: Mapping[str, Any]) -> Iterator[Problem]:
    if ("provider" in given) == ("chain" in given):
        yield Problem("", "needs either a provider or a chain")
    elif given.get("chain") == ():
        yield Problem("chain", "is empty, must name at least one provider")


ROUTE = Table.of(RouteSettings, check=_one_way)
