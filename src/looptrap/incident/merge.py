"""Merging: what several instances saw of one incident, as one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from looptrap.incident.model import Incident, Opinion, Step
from looptrap.incident.strip import NO_STRIP
from looptrap.policy.action import Action

SUMMED = (
    "calls", "refused", "input_tokens", "output_tokens", "answered", "cost", "priced",
    "refused_tokens", "estimate", "estimated",
)  # fmt: skip
"""What is simply added; what is told from it is right for all of them together."""

_SEVERITY = {action.value: action.severity for action in Action}


def merged(parts: Sequence[Incident]) -> Incident:
    """Add up what several instances saw of one incident, in whatever order they come."""
    if len(parts) == 1:
        return parts[0]
    parts = sorted(parts, key=lambda part: (part.last, part.instance))
    latest = parts[-1]
    # `max` takes the first of equals: here the one that was seen last.
    severest = max(reversed(parts), key=lambda part: _SEVERITY.get(part.action, 0))
    alarmed = [part.alarmed for part in parts if part.alarmed is not None]
    closed = [part.closed for part in parts if part.closed is not None]
    is_closed = len(closed) == len(parts)
    return replace(
        severest,
        instance=", ".join(sorted(part.instance for part in parts)),
        opened=min(part.opened for part in parts),
        last=latest.last,
        closed=max(closed) if is_closed else None,
        alarmed=min(alarmed, default=None),
        request_id=latest.request_id,
        count=max(part.count for part in parts),
        stage=max(part.stage for part in parts),
        before=max(part.before for part in parts),
        **{name: sum(getattr(part, name) for part in parts) for name in SUMMED},
        steps=_all_steps(parts, is_closed),
        fingerprints=_latest_last(chain.from_iterable(part.fingerprints for part in parts)),
        opinions=_latest_opinions(chain.from_iterable(part.opinions for part in parts)),
        strip=next((part.strip for part in reversed(parts) if part.strip.order), NO_STRIP),
    )


def _all_steps(parts: Sequence[Incident], is_closed: bool) -> list[Step]:
    """Return all steps by time; closed is only what all have closed, and only once."""
    steps = sorted(chain.from_iterable(part.steps for part in parts), key=msgspec.structs.astuple)
    ends = [step for step in steps if step.what == "closed"]
    return [step for step in steps if step.what != "closed"] + (ends[-1:] if is_closed else [])


def _latest_opinions(opinions: Iterable[Opinion]) -> list[Opinion]:
    """Return what each rule said last, the latest last."""
    by_rule = {(one.policy, one.rule): one for one in sorted(opinions, key=lambda one: one.time)}
    return sorted(by_rule.values(), key=lambda one: one.time)


def _latest_last(names: Iterable[str]) -> list[str]:
    """Return each name once, where it stands last."""
    seen: dict[str, None] = {}
    for name in names:
        seen.pop(name, None)
        seen[name] = None
    return list(seen)
