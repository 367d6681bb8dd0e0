"""Questions that change nothing, as a document has them."""

from __future__ import annotations

from typing import Any

from looptrap.admin import (
    alert,
    audit,
    budget,
    config,
    cooldown,
    event,
    incident,
    key,
    kill,
    policy,
    provider,
    spending,
    stats,
    status,
    try_it,
    what_if,
)
from looptrap.admin.history import NOTHING
from looptrap.admin.incident import ChangesShown, IncidentsShown
from looptrap.admin.incident_view import IncidentShown
from looptrap.admin.layer import LayerShown
from looptrap.admin.openapi import shape
from looptrap.admin.openapi.kind import table_of
from looptrap.admin.openapi.operation import Operation
from looptrap.admin.project import ProjectsShown
from looptrap.admin.tool import ToolsShown
from looptrap.replay.try_it import Tried

PROJECTS = "/api/v1/projects"
TOOLS = "/api/v1/tools"
DOCUMENT = "/api/v1/openapi.json"


def _get(path: str, answer: Any, about: str, **more: Any) -> Operation:
    return Operation(method="GET", path=path, about=about, answer=answer, **more)


QUESTIONS = [
    _get(
        status.PATH, status.Status, "what runs, and what is not as it should be", parameters=NOTHING
    ),
    _get(stats.PATH, stats.Stats, "what was done with calls over time", parameters=stats.ASKED),
    _get(
        spending.PATH,
        spending.Spending,
        "what calls came to, and by whom",
        parameters=spending.ASKED,
    ),
    _get(provider.PATH, provider.Providers, "whether providers answer", parameters=NOTHING),
    _get(key.PATH, key.Keys, "the gateway keys, by name", parameters=NOTHING),
    _get(
        config.PATH, config.Effective, "every value in effect, and its origin", parameters=NOTHING
    ),
    _get(policy.PATH, policy.Policies, "the rules in effect, in words", parameters=NOTHING),
    _get(budget.PATH, budget.Budgets, "budgets, and how accounts stand", parameters=NOTHING),
    _get(cooldown.PATH, cooldown.Cooldowns, "what is refused right now", parameters=NOTHING),
    _get(incident.PATH, IncidentsShown, "incidents, a page of them", parameters=incident.LISTED),
    _get(f"{incident.PATH}/{{id}}", IncidentShown, "one incident, with all of it", errors=(404,)),
    _get(
        f"{incident.PATH}/changes",
        ChangesShown,
        "incidents that changed since",
        parameters=incident.CHANGED,
    ),
    _get(alert.PATH, shape.Channels, "channels, and how they are doing"),
    _get(
        f"{alert.PATH}/letters",
        shape.Letters,
        "alerts on their way, delivered and given up",
        parameters=alert.LETTERS,
    ),
    _get(kill.PATH, shape.Switches, "kill switches in force"),
    _get(PROJECTS, ProjectsShown, "projects, of the file and set at run time"),
    _get(f"{PROJECTS}/{{name}}", LayerShown, "one project", errors=(404,)),
    _get(TOOLS, ToolsShown, "tools with settings of their own"),
    _get(f"{TOOLS}/{{name}}", LayerShown, "one tool", errors=(404,)),
    _get(audit.PATH, audit.EntriesShown, "who changed what", parameters=audit.ENTRIES),
    _get(
        event.PATH,
        str,
        "what happens, as it does; an id to go on after, where the connection broke",
        parameters=NOTHING,
        headers=("Last-Event-ID",),
        kind="text/event-stream",
    ),
    _get(DOCUMENT, dict[str, Any], "this document", parameters=NOTHING),
    Operation(
        method="POST",
        path=what_if.PATH,
        about="other settings, tried on captured calls",
        answer=shape.WhatIf,
        body=table_of(what_if.WHAT_IF),
        errors=(409, 422, 429),
    ),
    Operation(
        method="POST",
        path=try_it.PATH,
        about="what every rule says of a conversation that is sent",
        answer=Tried,
        body=table_of(try_it.TRIED),
        errors=(422, 429),
    ),
]
