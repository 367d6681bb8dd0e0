"""Incidents as operators see them: the summary in a list, the detail of one, and exports."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Literal, TypedDict, TypeVar, cast, get_args

import msgspec
from msgspec import Raw

from looptrap.admin.api import iso_time, view_of
from looptrap.config import Config
from looptrap.detect.remembered_round import UNKNOWN_TOOL
from looptrap.detect.strip import MAX_CELLS, Break, StripCell
from looptrap.dialect.answer import Answer
from looptrap.dialect.model import Call, DialectName, Request
from looptrap.incident.model import (
    NO_ANNOTATIONS,
    Annotations,
    Incident,
    IncidentStep,
    Label,
    RuleDecision,
    strip_cells,
)
from looptrap.incident.tracker import COUNTED_SIGNALS
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Mode, Policy, Project
from looptrap.policy.refusal import final_message, refusal
from looptrap.policy.rule import SIGNALS, Rule
from looptrap.policy.verdict import Verdict

_Named = TypeVar("_Named", Policy, Project, Rule)

EMPTY_BODY = Raw(b"{}")
"""The body of the refused request is not kept."""


def rebuild_refusal(incident: Incident, config: Config) -> Answer | None:
    """Return the latest refusal, not streamed; None where the calls passed."""
    action = Action(incident.action) if incident.action else Action.ALLOW
    if incident.mode == "shadow" or not incident.refused or not action.refuses:
        return None
    call, request_id = _call(incident), incident.request_id
    verdict = _verdict(incident, action, config)
    if action is Action.STOP:
        ended = final_message(call, verdict, shadow=None, request_id=request_id, now=incident.last)
        if ended is not None:
            return ended
    status = config.block_status
    return refusal(call, verdict, shadow=None, request_id=request_id, block_status=status)


def _call(incident: Incident) -> Call:
    dialect = cast(
        DialectName, incident.dialect if incident.dialect in get_args(DialectName) else "http"
    )
    request = Request(
        body=bytes(EMPTY_BODY),
        caller=incident.caller,
        project=incident.project,
        agent=incident.agent,
    )
    return Call(request, dialect, incident.model, generates=True, raws=[EMPTY_BODY])


def _verdict(incident: Incident, action: Action, config: Config) -> Verdict:
    """Return the decision; what an incident does not keep is taken from the rule as it is now."""
    policy = _named(config.policies, incident.policy)
    rule = _named(policy.rules, incident.rule) if policy is not None else None
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


def _named(things: Iterable[_Named], name: str) -> _Named | None:
    return next((one for one in things if one.name == name), None)


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
    highest = max(opinions, key=lambda one: one.count)
    count = highest.count
    ladder = effective_ladder(incident, highest, tool, config)
    known = config.tools.get(tool)
    if ladder is None or (known is not None and known.exempt):
        return None
    if known is not None and known.ladder is not None and ladder.first > count:
        return None  # it is set already
    factor = max((count + 1) / ladder.first, 1.0)
    raised = {action.value: ceil(threshold * factor) for action, threshold in ladder.steps}
    is_too_high = max(raised.values()) > MAX_THRESHOLD
    return {
        "tool": tool,
        "setting": {"exempt": True} if is_too_high else {"thresholds": raised},
        "why": f"It was called {count} times in a row, or nearly, and that was all right.",
    }


def effective_ladder(
    incident: Incident, decision: RuleDecision, tool: str | None, config: Config
) -> Ladder | None:
    """Return the ladder of a rule as it is now for the tool, or for the project of an incident."""
    known = config.tools.get(tool) if tool and decision.signal in SIGNALS else None
    if known is not None and known.ladder is not None:
        return known.ladder
    policy = _named(config.policies, decision.policy)
    project = _named(config.projects, incident.project)
    if policy is not None and project is not None:
        policy = project.adapt(policy)
    rule = _named(policy.rules, decision.rule) if policy is not None else None
    return rule.ladder if rule is not None else None


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
    after: Break
    error: str


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
    agent: str
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
    paid: int
    refused: int
    stage: int
    input_tokens: int
    output_tokens: int
    saved_tokens: int
    spent_usd: float | None
    saved_usd: float | None
    projected_usd_an_hour: float | None
    is_contained: bool
    is_demo: bool
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
    seen = annotations.acknowledged
    return view_of(
        IncidentSummary,
        incident,
        state="open" if incident.closed is None else "closed",
        opened=iso_time(incident.opened),
        last=iso_time(incident.last),
        closed=iso_time(incident.closed),
        alarmed=iso_time(incident.alarmed),
        instances=incident.instance.split(", "),
        tool=looping_tool(incident),
        acknowledged=seen and view_of(Acknowledgement, seen, time=iso_time(seen.time)),
        label=annotations.label,
    )


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
        "strip": [view_of(CellView, one) for one in cells],
        "strip_unit": unit,
        "counts": [_count(one, incident, tool, config) for one in incident.opinions],
        "told": _refusal_view(incident, config),
        "cooldown_until": iso_time(cooldown_until),
        "notes": [view_of(NoteView, one, time=iso_time(one.time)) for one in annotations.notes],
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
    """Return the only tool of an incident; None where there are several, none, or no name."""
    unit, cells = visible_strip(incident)
    if unit == "call":
        return incident.tool or None
    ago = incident.evidence[0].ago if incident.evidence else 0
    cells = cells[-(ago + 1) :] if ago else cells
    looping = [one for one in cells if one.repeats] or [one for one in cells if one.is_error]
    names = {name for one in looping or cells[-1:] for name in one.tools}
    return names.pop() if len(names) == 1 and UNKNOWN_TOOL not in names else None


def _count(
    decision: RuleDecision, incident: Incident, tool: str | None, config: Config
) -> RuleCountView:
    """Return the count of a rule with its thresholds; if those changed since, the one it met."""
    ladder = effective_ladder(incident, decision, tool, config)
    steps = {action.value: threshold for action, threshold in ladder.steps} if ladder else {}
    is_same = decision.threshold in steps.values()
    thresholds = steps if is_same else {decision.action: decision.threshold}
    return view_of(RuleCountView, decision, thresholds=thresholds)


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
    releases = [IncidentStep(one.time, "released") for one in annotations.releases]
    steps = [
        view_of(StepView, one, time=iso_time(one.time)) for one in (*incident.steps, *releases)
    ]
    return sorted(steps, key=lambda one: one["time"])


CSV_COLUMNS = (
    "id", "state", "opened", "last", "closed", "caller", "project", "session", "agent", "model",
    "provider", "mode", "policy", "rule", "signal", "action", "tool", "hits", "calls", "refused",
    "input_tokens", "output_tokens", "saved_tokens", "spent_usd", "saved_usd", "acknowledged",
    "label", "message",
)  # fmt: skip

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Characters with which spreadsheets begin a formula, or skip before one."""


def csv_pieces(pages: Iterator[list[IncidentSummary]]) -> Iterator[bytes]:
    """Yield a CSV file in pieces; no text in it is read as a formula."""
    yield _csv_lines([CSV_COLUMNS])
    for page in pages:
        yield _csv_lines([[_csv_cell(one, name) for name in CSV_COLUMNS] for one in page])


def _csv_lines(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _csv_cell(incident: Mapping[str, Any], name: str) -> object:
    value = incident[name]
    if name == "acknowledged" and value is not None:
        value = value["time"]
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"  # clients choose names: a spreadsheet must not run them
    return value


def json_pieces(pages: Iterator[list[IncidentSummary]]) -> Iterator[bytes]:
    """Yield a JSON array in pieces, an incident a line."""
    lead = b"["
    for page in pages:
        for_page = b",\n".join(map(msgspec.json.encode, page))
        yield lead + for_page
        lead = b",\n"
    yield b"[]\n" if lead == b"[" else b"]\n"
