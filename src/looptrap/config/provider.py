"""Settings of providers and routes: who answers calls, and where they go when that fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from looptrap.config.kind import NAME, VARIABLE, BaseUrl, OneOrMore, seconds
from looptrap.dialect.model import DialectName
from looptrap.errors import Problem
from looptrap.policy.policy import Selector
from looptrap.policy.setting.policy import SELECTOR
from looptrap.schema import Choice, Field, Listing, Number, Table, Text

Credential = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key"]
"""Where a provider wants its key."""

LINK = Text(form="a provider, or `provider/model`", pattern=r"[^/]+(/.+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """A place that answers calls."""

    name: str
    base_url: tuple[str, ...]
    api_key_env: tuple[str, ...] | None = None
    credential: Credential = "bearer"
    speaks: tuple[DialectName, ...] = ()
    """Empty for whatever it is sent."""


_OPENAI: tuple[DialectName, ...] = (
    "openai_chat",
    "openai_responses",
    "openai_completions",
    "openai_embeddings",
)

SPOKEN: tuple[DialectName, ...] = (*_OPENAI, "anthropic", "gemini")
"""The dialects in which models are asked."""

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
        speaks=("gemini",),
    ),
    "google": ProviderSettings(
        name="google",
        base_url=("https://generativelanguage.googleapis.com/v1beta/openai",),
        api_key_env=("GEMINI_API_KEY",),
        speaks=("openai_chat", "openai_embeddings"),
    ),
}
"""Providers that need no configuration; one of the same name in a file takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """Which calls go to which provider, and where when that fails."""

    provider: str | None = None
    chain: tuple[str, ...] | None = None
    select: Selector = field(default_factory=Selector)
    attempts: int | None = None
    deadline: float | None = None
    attempt_timeout: float | None = None

    @property
    def links(self) -> tuple[str, ...]:
        """The places to try, in order, as `provider/model` or `provider`."""
        return self.chain or (self.provider or "",)


def _one_way(given: Mapping[str, Any]) -> Iterator[Problem]:
    if ("provider" in given) == ("chain" in given):
        yield Problem("", "needs either a provider or a chain")
    elif given.get("chain") == ():
        yield Problem("chain", "is empty, must name at least one provider")


PROVIDER: Table[ProviderSettings] = Table(
    build=ProviderSettings,
    fields=[
        Field(name="name", kind=NAME, required=True, doc="what routes call it"),
        Field(
            name="base_url",
            kind=OneOrMore(BaseUrl(), "such"),
            required=True,
            doc="where it answers; of several, the next is tried when one fails",
        ),
        Field(
            name="api_key_env",
            kind=OneOrMore(VARIABLE, "such"),
            doc="the variable with the key sent for callers who use a gateway key; without it"
            " the caller's own key passes through; of several, the next is tried when one has"
            " met its limit",
        ),
        Field(
            name="credential",
            kind=Choice(get_args(Credential)),
            default="bearer",
            doc="where the provider wants that key",
        ),
        Field(
            name="speaks",
            kind=Listing(Choice(SPOKEN), "dialects"),
            default=(),
            doc="the dialects it understands; without it, whatever it is sent",
        ),
    ],
)

ROUTE: Table[RouteSettings] = Table(
    build=RouteSettings,
    fields=[
        Field(
            name="select",
            kind=SELECTOR,
            default=Selector(),
            doc="which calls it binds; without it, all",
        ),
        Field(name="provider", kind=NAME, doc="the provider they go to"),
        Field(
            name="chain",
            kind=Listing(LINK, "providers, each with a model of its own or the caller's"),
            doc="instead of `provider`: where they go, and where next when that fails",
        ),
        Field(
            name="attempts",
            kind=Number(low=1, high=10, whole=True),
            doc="how often each link is tried; without it, once",
        ),
        Field(
            name="deadline",
            kind=seconds(3_600),
            doc="for an answer to begin, all attempts and waits included",
        ),
        Field(
            name="attempt_timeout",
            kind=seconds(3_600),
            doc="for the answer to one attempt to begin; without it, `gateway.first_byte_timeout`",
        ),
    ],
    check=_one_way,
)
