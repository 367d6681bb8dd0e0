"""Incidents as operators see them: the summary in a list, and the detail of one."""

from __future__ import annotations

from math import ceil
from typing import Any, Literal, TypedDict, cast, get_args

import msgspec
from msgspec import Raw

from looptrap.admin.api import iso_time
from looptrap.config import Config
from looptrap.detect.strip import MAX_CELLS, StripCell
from looptrap.dialect.answer import Answer
from looptrap.dialect.model import Call, DialectName, Request
from looptrap.incident.model import (
    NO_ANNOTATIONS,
    Annotation,
    Annotations,
    Incident,
    Label,
    Mode,
    RuleDecision,
    strip_cells,
)
from looptrap.incident.tracker import COUNTED_SIGNALS
from looptrap.policy.action import Action, Ladder
from looptrap.policy.refusal import final_message, refusal
from looptrap.policy.rule import SIGNALS
from looptrap.policy.verdict import Verdict

EMPTY_BODY = Raw(b"{}")
"""The body of the refused request is not kept."""


def rebuild_refusal(incident: Incident, config: Config) -> Answer | None:
    """Return the latest refusal, not streamed; None where the calls passed."""
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
    dialect = cast(
        DialectName, incident.dialect if incident.dialect in get_args(DialectName) else "http"
    )
    request = Request(body=bytes(EMPTY_BODY), caller=incident.caller, project=incident.project)
    return Call(request, dialect, incident.model, generates=True, raws=[EMPTY_BODY])


def _verdict(incident: Incident, action: Action, config: Config) -> Verdict:
    """Return the decision; what an incident does not keep is taken from the rule as it is now."""
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


MAX_THRESHOLD = 50
"""Above it a tool may as well be exempt: hardly any history is as long."""


class Suggestion(TypedDict):
    """A setting of a tool, and the reason for it."""

    tool: str
    setting: dict[str, Any]
    why: str


def suggest_setting(incident: Incident, tool: str | None, config: Config) -> Suggestion | None:
    """Return the setting of a tool that would have prevented a false alarm; None if there is none.

    Thresholds of tools apply to signals read from histories only.
    """
    opinions = [one for one in incident.opinions if one.signal in SIGNALS]
    if not tool or not opinions:
        return None
    severest = max(opinions, key=lambda one: one.count)
    seen = severest.count
    known = config.tools.get(tool)
    ladder = known.ladder if known is not None else None
    if known is not None and (known.exempt or (ladder is not None and ladder.first > seen)):
        return None  # it is set already
    ladder = ladder or configured_ladder(incident, severest.policy, severest.rule, config)
    if ladder is None:
        return None
    times = f"It was called {seen} times in a row, or nearly, and that was all right."
    factor = max((seen + 1) / ladder.first, 1.0)
    raised = {action.value: ceil(threshold * factor) for action, threshold in ladder.steps}
    if max(raised.values()) > MAX_THRESHOLD:
        return {"tool": tool, "setting": {"exempt": True}, "why": times}
    return {"tool": tool, "setting": {"thresholds": raised}, "why": times}


def effective_ladder(
    incident: Incident, decision: RuleDecision, tool: str | None, config: Config
) -> Ladder | None:
    """Return the ladder of a rule in an incident as it is now: a tool may have its own."""
    ladder = configured_ladder(incident, decision.policy, decision.rule, config)
    known = config.tools.get(tool) if tool and decision.signal in SIGNALS else None
    return known.ladder if known is not None and known.ladder is not None else ladder


def configured_ladder(incident: Incident, policy: str, rule: str, config: Config) -> Ladder | None:
    """Return the ladder of a rule for the project of an incident; None where there is no rule."""
    found = next((one for one in config.policies if one.name == policy), None)
    project = next((one for one in config.projects if one.name == incident.project), None)
    if found is not None and project is not None:
        found = project.adapt(found)
    rules = found.rules if found is not None else ()
    return next((one.ladder for one in rules if one.name == rule), None)


TIME_FIELDS = ("opened", "last", "closed", "alarmed")

INTERNAL_FIELDS = (
    "key", "steps", "answered", "cost", "priced", "refused_tokens", "estimate", "estimated",
    "opinions", "strip", "tool",
)  # fmt: skip
"""Not shown, or shown in another form."""


StripUnit = Literal["round", "call"]
"""What a cell of a strip represents."""


class Acknowledgement(TypedDict):
    """Who takes care of an incident, and since when."""

    time: str
    by: str


class NoteView(TypedDict):
    """A note on an incident."""

    time: str
    by: str
    text: str


class CellView(TypedDict):
    """One round, or one counted call; equal calls with equal results share an id."""

    id: str
    tools: list[str]
    is_error: bool
    repeats: bool


class RuleCountView(TypedDict):
    """The last count of a rule, and its thresholds."""

    policy: str
    rule: str
    signal: str
    count: int
    thresholds: dict[str, int]
    action: str


class RefusalView(TypedDict):
    """The response that a refused client got."""

    status: int
    headers: dict[str, str]
    body: Any


class StepView(TypedDict):
    """One event of an incident."""

    time: str
    what: str
    rule: str
    count: int
    fingerprint: str


class EvidenceView(TypedDict):
    """What repeats, how often, and for how many rounds."""

    signal: str
    what: str
    count: int
    ago: int
    confidence: float


class IncidentSummary(TypedDict):
    """An incident, as it is listed."""

    id: str
    state: Literal["open", "closed"]
    opened: str
    last: str
    closed: str | None
    alarmed: str | None
    caller: str
    project: str
    session: str
    model: str
    dialect: str
    provider: str
    mode: Mode
    policy: str
    rule: str
    signal: str
    action: str
    count: int
    threshold: int
    cooldown: float
    message: str
    evidence: list[EvidenceView]
    fingerprint: str
    fingerprints: list[str]
    request_id: str
    instances: list[str]
    hits: int
    calls: int
    before: int
    refused: int
    stage: int
    input_tokens: int
    output_tokens: int
    saved_tokens: int
    spent_usd: float | None
    saved_usd: float | None
    projected_usd_an_hour: float | None
    tool: str | None
    acknowledged: Acknowledgement | None
    label: Label | None


class IncidentDetail(IncidentSummary):
    """All that is known of an incident."""

    steps: list[StepView]
    strip: list[CellView]
    strip_unit: StripUnit
    counts: list[RuleCountView]
    told: RefusalView | None
    cooldown_until: str | None
    notes: list[NoteView]
    suggestion: Suggestion | None


def incident_summary(
    incident: Incident, annotations: Annotations = NO_ANNOTATIONS
) -> IncidentSummary:
    """Return an incident as it is listed."""
    # Every field, also one with its default value, which the history leaves out.
    plain: dict[str, Any] = msgspec.structs.asdict(incident)
    for name in INTERNAL_FIELDS:
        del plain[name]
    for name in TIME_FIELDS:
        plain[name] = iso_time(plain[name])
    seen = annotations.acknowledged
    summary = {
        "id": plain.pop("id"),
        "state": "open" if incident.closed is None else "closed",
        "instances": plain.pop("instance").split(", "),
        "saved_tokens": incident.saved_tokens,
        "spent_usd": incident.spent_usd,
        "saved_usd": incident.saved_usd,
        "projected_usd_an_hour": incident.projected_usd_an_hour,
        # As rules counted it or as it was seen, whichever is more.
        "hits": max(incident.calls + incident.before, incident.count),
        "tool": looping_tool(incident),
        "acknowledged": None if seen is None else {"time": iso_time(seen.time), "by": seen.by},
        "label": annotations.label,
        **plain,
    }
    return cast(IncidentSummary, summary)


def incident_detail(
    incident: Incident, annotations: Annotations, config: Config, cooldown_until: float | None
) -> IncidentDetail:
    """Return all that is known of an incident, under the configuration in effect."""
    tool = looping_tool(incident)
    unit, cells = visible_strip(incident)
    is_false = annotations.label == "false_alarm"
    return {
        **incident_summary(incident, annotations),
        "steps": _steps(incident, annotations),
        "strip": [_cell(one) for one in cells],
        "strip_unit": unit,
        "counts": [_count(one, incident, tool, config) for one in incident.opinions],
        "told": _refusal_view(incident, config),
        "cooldown_until": iso_time(cooldown_until),
        "notes": [_note(one) for one in annotations.notes],
        "suggestion": suggest_setting(incident, tool, config) if is_false else None,
    }


def visible_strip(incident: Incident) -> tuple[StripUnit, list[StripCell]]:
    """Return the latest rounds; where none repeats, a cell for each counted call."""
    rounds = strip_cells(incident.strip)
    # Resending a refused call is counted too: the rounds still show what loops.
    if incident.signal not in COUNTED_SIGNALS or any(one.repeats for one in rounds):
        return "round", rounds
    number = min(incident.count, MAX_CELLS)
    tools = (incident.tool,) if incident.tool else ()
    named = incident.fingerprint.partition("-")[2][:8]
    return "call", [StripCell(named, tools, False, number > 1)] * number


def looping_tool(incident: Incident) -> str | None:
    """Return the only tool of an incident; None where there are several, or none."""
    unit, cells = visible_strip(incident)
    if unit == "call":
        return incident.tool or None
    ago = incident.evidence[0].ago if incident.evidence else 0
    cells = cells[-(ago + 1) :] if ago else cells
    looping = [one for one in cells if one.repeats] or [one for one in cells if one.is_error]
    names = {name for one in looping or cells[-1:] for name in one.tools}
    return names.pop() if len(names) == 1 else None


def _cell(one: StripCell) -> CellView:
    return {
        "id": one.id, "tools": list(one.tools), "is_error": one.is_error, "repeats": one.repeats,
    }  # fmt: skip


def _count(
    decision: RuleDecision, incident: Incident, tool: str | None, config: Config
) -> RuleCountView:
    """Return the count of a rule with its thresholds; if those changed since, the one it met."""
    ladder = effective_ladder(incident, decision, tool, config)
    steps = {action.value: threshold for action, threshold in ladder.steps} if ladder else {}
    is_same = decision.threshold in steps.values()
    return {
        "policy": decision.policy,
        "rule": decision.rule,
        "signal": decision.signal,
        "count": decision.count,
        "thresholds": steps if is_same else {decision.action: decision.threshold},
        "action": decision.action,
    }


def _refusal_view(incident: Incident, config: Config) -> RefusalView | None:
    answer = rebuild_refusal(incident, config)
    if answer is None:
        return None
    return {
        "status": answer.status,
        "headers": {name.decode(): value.decode("latin-1") for name, value in answer.headers},
        "body": msgspec.json.decode(answer.body),
    }


def _steps(incident: Incident, annotations: Annotations) -> list[StepView]:
    """Return the events and releases in the order of time."""
    steps: list[StepView] = [
        {
            "time": iso_time(one.time), "what": one.what, "rule": one.rule, "count": one.count,
            "fingerprint": one.fingerprint,
        }
        for one in incident.steps
    ]  # fmt: skip
    steps += [
        {"time": iso_time(one.time), "what": "released", "rule": "", "count": 0, "fingerprint": ""}
        for one in annotations.releases
    ]
    return sorted(steps, key=lambda one: one["time"])


def _note(one: Annotation) -> NoteView:
    return {"time": iso_time(one.time), "by": one.by, "text": one.text}
