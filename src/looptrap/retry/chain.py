"""Chains: the providers and models that one call may go to, in order."""

from __future__ import annotations

import msgspec

from looptrap.errors import ConfigError


class Link(msgspec.Struct, frozen=True, gc=False):
    """One place to send a call to."""

    provider: str
    model: str | None = None
    """None keeps the caller's."""
    credential: str = ""
    """A digest of the credential used there: whose limits are met."""

    @property
    def name(self) -> str:
        """What people call it: `provider/model`, or the provider alone."""
        return self.provider if self.model is None else f"{self.provider}/{self.model}"

    @classmethod
    def parse(cls, name: str, credential: str = "") -> Link:
        """Return the link of `provider/model` or `provider`; a model may have slashes in it."""
        provider, slash, model = name.partition("/")
        if not provider or (slash and not model):
            raise ConfigError(f"chain: {name!r} is neither 'provider/model' nor 'provider'")
        return cls(provider, model or None, credential)


class Chain(msgspec.Struct, frozen=True, gc=False):
    """Links in the order in which they are tried."""

    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        if not self.links:
            raise ConfigError("chain: has no links, must have at least one")

    @classmethod
    def of(cls, *names: str) -> Chain:
        """Return the chain of names such as `anthropic/claude-opus-4-7` or `openai`."""
        return cls(tuple(map(Link.parse, names)))
