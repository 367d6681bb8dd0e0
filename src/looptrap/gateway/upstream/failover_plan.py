"""FailoverPlan: the targets of a route; and the candidates among them for one caller."""

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
"""Dialects whose calls follow a plan; calls of others go to the first target, once."""

MISSING_KEY = "missing_provider_key"

SkippedTargets = Sequence[tuple[str, str]]
"""Targets that are no candidates, each with the reason."""


class UpstreamTarget(msgspec.Struct, frozen=True):
    """A provider with one of its URLs and one of its keys, and the model to ask for."""

    provider: Provider
    model: str | None = None
    """None keeps the caller's."""


class Candidate(msgspec.Struct, frozen=True):
    """A target as one caller may use it."""

    provider: Provider
    link: Link
    is_primary: bool
    """Whether the caller means this provider: then all that it sent may go there."""
    has_operator_key: bool
    """Whether the operator's key is sent, not the caller's."""


class FailoverPlan(msgspec.Struct, frozen=True):
    """What a route does about failures."""

    targets: tuple[UpstreamTarget, ...]
    policy: RetryPolicy
    attempt_timeout: float | None = None
    skips_limited: bool = True
    """Whether a credential that met a limit is skipped: where something else can be tried."""
    shares_keys: bool = False
    """Whether callers without a gateway key may use the operator's keys, and further providers
    without keys: on loopback only."""

    def candidates(self, call: Call, identity: Identity) -> tuple[list[Candidate], SkippedTargets]:
        """Return the targets that a call may use, in order, and those that are skipped."""
        candidates: dict[Link, Candidate] = {}
        skipped: list[tuple[str, str]] = []
        primary = self.targets[0].provider.name
        for target in self.targets:
            provider = target.provider
            model = None if call.dialect == "openai_embeddings" else target.model
            name = Link(provider.circuit, model).name
            is_primary = provider.name == primary
            if not is_primary and _is_bound_to_provider(call):
                skipped.append((name, "bound_to_provider"))
                continue
            if provider.speaks and call.dialect not in provider.speaks:
                skipped.append((name, "other_dialect"))
                continue
            has_own = is_primary and (identity.has_credential or not identity.key_name)
            may_share = bool(identity.key_name) or self.shares_keys
            has_key = bool(provider.key_name) or not provider.needs_key
            if not has_own and not (may_share and has_key):
                skipped.append((name, MISSING_KEY))
                continue
            credential = identity.caller if has_own else provider.key_name
            link = Link(
                provider.circuit,
                model,
                credential if self.skips_limited else None,
                provider.has_breaker,
            )
            candidates.setdefault(link, Candidate(provider, link, is_primary, not has_own))
        return list(candidates.values()), skipped


def _is_bound_to_provider(call: Call) -> bool:
    """Return whether only one provider can answer: it has the history, or vectors of its own."""
    return bool(call.chain) or call.dialect == "openai_embeddings"


def keep_sent_model(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of a call whose model cannot be replaced.

    Where all have models of their own, the first one says best what is wrong with the call.
    """
    unnamed = [candidate for candidate in candidates if candidate.link.model is None]
    if unnamed:
        return unnamed
    first = candidates[0]
    return [replace(first, link=replace(first.link, model=None))]


def first_missing_key(skipped: SkippedTargets) -> str | None:
    """Return the first target that was skipped because it has no key; None where there is none."""
    return next((name for name, reason in skipped if reason == MISSING_KEY), None)
