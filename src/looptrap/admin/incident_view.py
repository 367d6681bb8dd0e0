"""Incidents as operators see them: what is listed of each, and all that is known of one."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import msgspec

from looptrap.admin.history import moment
from looptrap.admin.suggestion import Suggestion, suggested, thresholds_of
from looptrap.config import Config
from looptrap.detect.strip import MOST, Cell
from looptrap.gateway.incident.told import told
from looptrap.incident.mark import COUNTED
from looptrap.incident.model import Incident, Mode, Opinion
from looptrap.incident.remark import NO_REMARKS, Label, Remark, Remarks
from looptrap.incident.strip import cells_of

TIMES = ("opened", "last", "closed", "alarmed")

INSIDE = (
    "key", "steps", "answered", "cost", "priced", "refused_tokens", "estimate", "estimated",
    "opinions", "strip", "tool",
)  # fmt: skip
"""What is of use only to tell other things from it, or shown elsewhere."""


StripUnit = Literal["round", "call"]
"""What a cell of a strip stands for."""


class Taken(TypedDict):
    """Who takes care of an incident, and since when."""

    time: str
    by: str


class NoteShown(TypedDict):
    """What somebody wrote about an incident."""

    time: str
    by: str
    text: str


class CellShown(TypedDict):
    """One round, or one counted call; equal calls with equal results share an id."""

    id: str
    tools: list[str]
    is_error: bool
    repeats: bool


class CountShown(TypedDict):
    """What a rule said when it last decided, and what it does at which count."""

    policy: str
    rule: str
    signal: str
    count: int
    thresholds: dict[str, int]
    action: str


class ToldShown(TypedDict):
    """What a refused client was told."""

    status: int
    headers: dict[str, str]
    body: Any


class StepShown(TypedDict):
    """One thing that happened."""

    time: str
    what: str
    rule: str
    count: int
    fingerprint: str


class EvidenceShown(TypedDict):
    """What repeats, how often, and since how many rounds."""

    signal: str
    what: str
    count: int
    ago: int
    confidence: float


class IncidentListed(TypedDict):
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
    evidence: list[EvidenceShown]
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
    acknowledged: Taken | None
    label: Label | None


class IncidentShown(IncidentListed):
    """All that is known of an incident."""

    steps: list[StepShown]
    strip: list[CellShown]
    strip_unit: StripUnit
    counts: list[CountShown]
    told: ToldShown | None
    cooldown_until: str | None
    notes: list[NoteShown]
    suggestion: Suggestion | None


def listed(incident: Incident, remarks: Remarks = NO_REMARKS) -> IncidentListed:
    """Return what is listed of an incident."""
    # Every field, also one that has its default and is left out where it is kept.
    plain: dict[str, Any] = msgspec.structs.asdict(incident)
    for name in INSIDE:
        del plain[name]
    for name in TIMES:
        plain[name] = moment(plain[name])
    seen = remarks.acknowledged
    found: Any = {
        "id": plain.pop("id"),
        "state": "open" if incident.closed is None else "closed",
        "instances": plain.pop("instance").split(", "),
        "saved_tokens": incident.saved_tokens,
        "spent_usd": incident.spent_usd,
        "saved_usd": incident.saved_usd,
        "projected_usd_an_hour": incident.projected_usd_an_hour,
        # As rules counted it, or as it was seen, whichever is more.
        "hits": max(incident.calls + incident.before, incident.count),
        "tool": tool_of(incident),
        "acknowledged": None if seen is None else {"time": moment(seen.time), "by": seen.by},
        "label": remarks.label,
        **plain,
    }
    listed: IncidentListed = found
    return listed


def shown(
    incident: Incident, remarks: Remarks, config: Config, cooldown_until: float | None
) -> IncidentShown:
    """Return all that is known of an incident, under the configuration in effect."""
    tool = tool_of(incident)
    unit, cells = strip_of(incident)
    is_false = remarks.label == "false_alarm"
    return {
        **listed(incident, remarks),
        "steps": _steps(incident, remarks),
        "strip": [_cell(one) for one in cells],
        "strip_unit": unit,
        "counts": [_count(one, incident, tool, config) for one in incident.opinions],
        "told": _told(incident, config),
        "cooldown_until": moment(cooldown_until),
        "notes": [_note(one) for one in remarks.notes],
        "suggestion": suggested(incident, tool, config) if is_false else None,
    }


def strip_of(incident: Incident) -> tuple[StripUnit, list[Cell]]:
    """Return the latest rounds; where none of them repeats, a cell for every call that counted."""
    rounds = cells_of(incident.strip)
    # Who sends what was refused again is counted too: what it is that loops is still in the rounds.
    if incident.signal not in COUNTED or any(one.repeats for one in rounds):
        return "round", rounds
    number = min(incident.count, MOST)
    tools = (incident.tool,) if incident.tool else ()
    named = incident.fingerprint.partition("-")[2][:8]
    return "call", [Cell(named, tools, False, number > 1)] * number


def tool_of(incident: Incident) -> str | None:
    """Return the only tool that an incident is about; None where there are several, or none."""
    unit, cells = strip_of(incident)
    if unit == "call":
        return incident.tool or None
    ago = incident.evidence[0].ago if incident.evidence else 0
    cells = cells[-(ago + 1) :] if ago else cells
    going_on = [one for one in cells if one.repeats] or [one for one in cells if one.is_error]
    names = {name for one in going_on or cells[-1:] for name in one.tools}
    return names.pop() if len(names) == 1 else None


def _cell(one: Cell) -> CellShown:
    return {
        "id": one.id, "tools": list(one.tools), "is_error": one.is_error, "repeats": one.repeats,
    }  # fmt: skip


def _count(said: Opinion, incident: Incident, tool: str | None, config: Config) -> CountShown:
    """Return what a rule said, against its thresholds; if they changed since, the one it met."""
    ladder = thresholds_of(incident, said, tool, config)
    steps = {action.value: threshold for action, threshold in ladder.steps} if ladder else {}
    is_same = said.threshold in steps.values()
    return {
        "policy": said.policy,
        "rule": said.rule,
        "signal": said.signal,
        "count": said.count,
        "thresholds": steps if is_same else {said.action: said.threshold},
        "action": said.action,
    }


def _told(incident: Incident, config: Config) -> ToldShown | None:
    answer = told(incident, config)
    if answer is None:
        return None
    return {
        "status": answer.status,
        "headers": {name.decode(): value.decode("latin-1") for name, value in answer.headers},
        "body": msgspec.json.decode(answer.body),
    }


def _steps(incident: Incident, remarks: Remarks) -> list[StepShown]:
    """Return what happened, releases among it, in the order of time."""
    steps: list[StepShown] = [
        {
            "time": moment(one.time), "what": one.what, "rule": one.rule, "count": one.count,
            "fingerprint": one.fingerprint,
        }
        for one in incident.steps
    ]  # fmt: skip
    steps += [
        {"time": moment(one.time), "what": "released", "rule": "", "count": 0, "fingerprint": ""}
        for one in remarks.releases
    ]
    return sorted(steps, key=lambda one: one["time"])


def _note(one: Remark) -> NoteShown:
    return {"time": moment(one.time), "by": one.by, "text": one.text}
