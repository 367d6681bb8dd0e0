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
    seconds,
    setting,
    settings,
)

Credential = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key"]
"""Where a provider wants its key."""

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


@settings
class ProviderSettings:
    """A place that answers calls."""

    name: str = setting("what routes call it", ANY_NAME)
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
    credential: Credential = setting("where the provider wants that key", default="bearer")
    speaks: tuple[DialectName, ...] = setting(
        "the dialects it understands; without it, whatever it is sent",
        Listing(Choice(MODEL_DIALECTS), "dialects"),
        default=(),
    )


PROVIDER = Table.of(ProviderSettings)

WELL_KNOWN = {
    "openai": ProviderSettings(
        name="openai",
        base_url=("https://api.openai.com/v1",),
        api_key_env=("OPENAI_API_KEY",),
        speaks=_OPENAI,
    ),
    "anthropic": ProviderSettings(
        name="anthropic",
        base_url=("https://api.anthropic.com",),
        api_key_env=("ANTHROPIC_API_KEY",),
        credential="x-api-key",
        speaks=("anthropic", "openai_chat"),
    ),
    "gemini": ProviderSettings(
        name="gemini",
        base_url=("https://generativelanguage.googleapis.com",),
        api_key_env=("GEMINI_API_KEY",),
        credential="x-goog-api-key",
        speaks=_GEMINI,
    ),
    "google": ProviderSettings(
        name="google",
        base_url=("https://generativelanguage.googleapis.com/v1beta/openai",),
        api_key_env=("GEMINI_API_KEY",),
        speaks=("openai_chat", "openai_embeddings"),
    ),
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
