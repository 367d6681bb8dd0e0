"""What a refused client was told: the answer made once more, from what an incident remembers."""

from __future__ import annotations

from typing import cast, get_args

from msgspec import Raw

from looptrap.answer.answer import Answer
from looptrap.answer.refuse import refusal
from looptrap.answer.stop import final_message
from looptrap.call.model import Call, Dialect, Request
from looptrap.config import Config
from looptrap.incident.model import Incident
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict

NOTHING = Raw(b"{}")
"""A request of which nothing is known any more."""


def told(incident: Incident, config: Config) -> Answer | None:
    """Return the latest refusal, as one without a stream; None where the calls passed."""
    action = Action(incident.action) if incident.action else Action.ALLOW
    if incident.mode == "shadow" or not incident.refused or not action.refuses:
        return None
    call = _call(incident)
    verdict = _verdict(incident, action, config)
    if action is Action.STOP:
        ended = final_message(
            call, verdict, shadow=None, request_id=incident.request_id, now=incident.last
        )
        if ended is not None:
            return ended
    return refusal(
        call,
        verdict,
        shadow=None,
        request_id=incident.request_id,
        block_status=config.block_status,
    )


def _call(incident: Incident) -> Call:
    dialect = cast(Dialect, incident.dialect if incident.dialect in get_args(Dialect) else "http")
    request = Request(body=bytes(NOTHING), caller=incident.caller, project=incident.project)
    return Call(request, dialect, incident.model, generates=True, raws=[NOTHING])


def _verdict(incident: Incident, action: Action, config: Config) -> Verdict:
    """Return what was decided; what an incident does not keep is as the rule has it now."""
    policy = next((one for one in config.policies if one.name == incident.policy), None)
    rules = policy.rules if policy is not None else ()
    rule = next((one for one in rules if one.name == incident.rule), None)
    return Verdict(
        action=action,
        reason="loop_detected",
        policy=incident.policy,
        rule=incident.rule,
        message=incident.message,
        count=incident.count,
        threshold=incident.threshold,
        fingerprint=incident.fingerprint,
        cooldown_left=incident.cooldown,
        retry_after=rule.retry_after if rule is not None else None,
        evidence=incident.evidence,
        compat=policy.compat if policy is not None else (),
    )
