"""Sightings: what of a judged call incidents are made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from looptrap.call.model import LONGEST_NAME, Call, Outcome
from looptrap.incident.model import Mode, Sighting
from looptrap.policy.verdict import ALLOWED, Verdict

NOTHING = Outcome()
"""What a call used that never went upstream."""

Estimate = Callable[[Call], int | None]
"""What the input alone of a call costs, in nano-dollars; None where no price is known."""


class Judged(Protocol):
    """A call with all that was decided about it: a ticket."""

    call: Call
    verdict: Verdict
    heard: Verdict | None
    shadow: Verdict | None
    refusing: Sequence[str]


def no_price(_call: Call) -> int | None:
    """Say that nothing has a price."""
    return None


def sightings(
    judged: Judged,
    outcome: Outcome | None,
    time: float,
    *,
    session: str,
    request_id: str,
    provider: str,
    estimate: Estimate = no_price,
) -> list[Sighting]:
    """Return what rules decided about a call; `outcome` is None where it was not forwarded."""
    call = judged.call
    request = call.request
    used = outcome or NOTHING
    is_refused = outcome is None and judged.verdict.action.refuses
    return [
        Sighting(
            time=time,
            request_id=request_id[:LONGEST_NAME],
            caller=request.caller,
            project=request.project,
            session=session[:LONGEST_NAME],
            model=call.model[:LONGEST_NAME],
            dialect=call.dialect,
            provider=provider,
            mode=mode,
            reason=verdict.reason,
            policy=verdict.policy,
            rule=verdict.rule,
            signal=_signal(verdict),
            tool=_tool(call) if _signal(verdict) == "tool" else "",
            action=verdict.action.value,
            is_refused=is_refused and not number,
            # What was told comes last: that is what is refused now.
            refusing=tuple(one for one in judged.refusing if one != verdict.fingerprint),
            is_alarming=not verdict.is_early,
            count=verdict.count,
            threshold=verdict.threshold,
            fingerprint=verdict.fingerprint,
            cooldown=verdict.cooldown_left,
            message=verdict.message,
            evidence=verdict.evidence,
            # What one call used is counted once, however many rules spoke.
            input_tokens=used.usage.input_tokens if not number else 0,
            output_tokens=used.usage.output_tokens if not number else 0,
            cost=used.cost if not number else None,
            estimate=estimate(call) if is_refused and not number else None,
            size=len(request.body),
        )
        for number, (mode, verdict) in enumerate(_decided(judged))
    ]


def _decided(judged: Judged) -> list[tuple[Mode, Verdict]]:
    decided: list[tuple[Mode, Verdict]] = []
    if judged.verdict is not ALLOWED:
        decided.append(("enforce", judged.verdict))
    if judged.heard is not None:
        decided.append(("enforce", judged.heard))
    if judged.shadow is not None:
        decided.append(("shadow", judged.shadow))
    return decided


def _signal(verdict: Verdict) -> str:
    return verdict.evidence[0].signal if verdict.evidence else ""


def _tool(call: Call) -> str:
    """Return the only tool that a request is about."""
    names = {one.name for message in call.tail(1) for one in message.calls}
    return names.pop()[:LONGEST_NAME] if len(names) == 1 else ""
