"""Plans: what a route allows; and the legs that one caller may go of it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from looptrap.config.provider import MODEL_DIALECTS
from looptrap.dialect.model import Call
from looptrap.gateway.auth import Identity
from looptrap.gateway.provider import Provider
from looptrap.retry.policy import Link, RetryPolicy

CHAINED_DIALECTS = frozenset(MODEL_DIALECTS)
"""Dialects whose calls follow a plan; anything else goes to the first place, once."""

MISSING_KEY = "missing_provider_key"


class UpstreamTarget(msgspec.Struct, frozen=True):
    """A provider, one URL and one key of it, and the model to be asked there."""

    provider: Provider
    model: str | None = None
    """None keeps the caller's."""


class Candidate(msgspec.Struct, frozen=True):
    """A place as one caller may go there."""

    provider: Provider
    link: Link
    is_home: bool
    """The provider that the caller means: whatever it sent may go there."""
    is_lent: bool
    """The operator's key is sent."""


class FailoverPlan(msgspec.Struct, frozen=True):
    """What a route does about failures."""

    places: tuple[UpstreamTarget, ...]
    policy: RetryPolicy
    attempt_timeout: float | None = None
    has_breakers: bool = True
    lends: bool = False
    """Whether callers without a gateway key may use the operator's keys: on loopback only."""

    def legs(self, call: Call, identity: Identity) -> tuple[list[Candidate], list[tuple[str, str]]]:
        """Return where a call may go, in order, and the places that are skipped, with reasons."""
        legs: dict[Link, Candidate] = {}
        skipped: list[tuple[str, str]] = []
        home = self.places[0].provider.name
        for place in self.places:
            provider = place.provider
            model = None if call.dialect == "openai_embeddings" else place.model
            link = Link(provider.circuit, model)
            is_home = provider.name == home
            if not is_home and _is_bound_to_provider(call):
                skipped.append((link.name, "bound_to_provider"))
                continue
            if provider.speaks and call.dialect not in provider.speaks:
                skipped.append((link.name, "other_dialect"))
                continue
            is_lent = not (is_home and (identity.has_credential or not identity.key_name))
            may_lend = bool(identity.key_name) or self.lends
            if is_lent and not (may_lend and provider.key_name):
                skipped.append((link.name, MISSING_KEY))
                continue
            credential = provider.key_name if is_lent else identity.caller
            link = Link(provider.circuit, model, credential)
            legs.setdefault(link, Candidate(provider, link, is_home, is_lent))
        return list(legs.values()), skipped


def _is_bound_to_provider(call: Call) -> bool:
    """Say whether only one provider can answer: it has the history, or its vectors are unlike."""
    return bool(call.chain) or call.dialect == "openai_embeddings"


def keep_sent_model(legs: Sequence[Candidate]) -> list[Candidate]:
    """Return the legs that a call may go whose model cannot be renamed.

    Where all have models of their own, the first one says best what is wrong with it.
    """
    unnamed = [leg for leg in legs if leg.link.model is None]
    if unnamed:
        return unnamed
    first = legs[0]
    return [replace(first, link=replace(first.link, model=None))]


def first_missing_key(skipped: Sequence[tuple[str, str]]) -> str | None:
    """Return the first place that was skipped for want of a key; None where there is none."""
    return next((name for name, reason in skipped if reason == MISSING_KEY), None)
