"""The OpenAPI document: all operations, those that read and those that change something."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import msgspec
from aiohttp import web

from looptrap import __version__
from looptrap.admin import (
    alert,
    audit,
    budget,
    config,
    enforcement,
    event_stream,
    incident,
    provider,
    status,
    try_it,
    usage,
    what_if,
)
from looptrap.admin.alert import ChannelList, ChannelTestResults, DeliveryPage, ResendResult
from looptrap.admin.api import NO_PARAMETERS, ErrorBody, json_response, read_parameters
from looptrap.admin.enforcement import (
    FINGERPRINT_KIND,
    KillSwitchCreated,
    KillSwitchEnded,
    KillSwitchList,
    ReleaseResult,
)
from looptrap.admin.incident import IncidentChanges, IncidentPage
from looptrap.admin.incident_view import IncidentDetail
from looptrap.admin.openapi.schema import (
    ERROR_DESCRIPTIONS,
    JSON_CONTENT,
    Operation,
    Schema,
    kind_schema,
    table_schema,
)
from looptrap.admin.runtime_override import OverrideView, ProjectList, ToolList
from looptrap.admin.what_if import WhatIfResult
from looptrap.gateway.app import App
from looptrap.policy.setting.policy import KILL_SWITCH, PROJECT, TOOL
from looptrap.policy.setting.rule import NAME
from looptrap.replay.try_it import TryItReport

PROJECTS_PATH = "/api/v1/projects"
TOOLS_PATH = "/api/v1/tools"
DOCUMENT_PATH = "/api/v1/openapi.json"


def _get(path: str, answer: Any, about: str, **more: Any) -> Operation:
    return Operation(method="GET", path=path, about=about, answer=answer, **more)


READ_OPERATIONS = [
    _get(
        status.STATUS_PATH,
        status.GatewayStatus,
        "what runs, and what is not as it should be",
        parameters=NO_PARAMETERS,
    ),
    _get(
        usage.STATS_PATH,
        usage.Stats,
        "what was done with calls over time",
        parameters=usage.STATS_PARAMETERS,
    ),
    _get(
        usage.SPENDING_PATH,
        usage.SpendingReport,
        "what calls came to, and by whom",
        parameters=usage.SPENDING_PARAMETERS,
    ),
    _get(
        provider.PROVIDERS_PATH,
        provider.ProviderList,
        "whether providers answer",
        parameters=NO_PARAMETERS,
    ),
    _get(config.KEYS_PATH, config.KeyList, "the gateway keys, by name", parameters=NO_PARAMETERS),
    _get(
        config.CONFIG_PATH,
        config.EffectiveConfig,
        "every value in effect, and its origin",
        parameters=NO_PARAMETERS,
    ),
    _get(
        config.POLICIES_PATH,
        config.PolicyList,
        "the rules in effect, in words",
        parameters=NO_PARAMETERS,
    ),
    _get(
        budget.BUDGETS_PATH,
        budget.BudgetList,
        "budgets, and how accounts stand",
        parameters=NO_PARAMETERS,
    ),
    _get(
        enforcement.COOLDOWNS_PATH,
        enforcement.CooldownList,
        "what is refused right now",
        parameters=NO_PARAMETERS,
    ),
    _get(
        incident.INCIDENTS_PATH,
        IncidentPage,
        "incidents, a page of them",
        parameters=incident.LIST_PARAMETERS,
    ),
    _get(
        f"{incident.INCIDENTS_PATH}/{{id}}",
        IncidentDetail,
        "one incident, with all of it",
        errors=(404,),
    ),
    _get(
        f"{incident.INCIDENTS_PATH}/changes",
        IncidentChanges,
        "incidents that changed since",
        parameters=incident.CHANGES_PARAMETERS,
    ),
    _get(alert.ALERTS_PATH, ChannelList, "channels, and how they are doing"),
    _get(
        f"{alert.ALERTS_PATH}/letters",
        DeliveryPage,
        "alerts on their way, delivered and given up",
        parameters=alert.DELIVERY_PARAMETERS,
    ),
    _get(enforcement.KILL_SWITCHES_PATH, KillSwitchList, "kill switches in force"),
    _get(PROJECTS_PATH, ProjectList, "projects, of the file and set at run time"),
    _get(f"{PROJECTS_PATH}/{{name}}", OverrideView, "one project", errors=(404,)),
    _get(TOOLS_PATH, ToolList, "tools with settings of their own"),
    _get(f"{TOOLS_PATH}/{{name}}", OverrideView, "one tool", errors=(404,)),
    _get(audit.AUDIT_PATH, audit.AuditPage, "who changed what", parameters=audit.ENTRY_PARAMETERS),
    _get(
        event_stream.EVENTS_PATH,
        str,
        "what happens, as it does; an id to go on after, where the connection broke",
        parameters=NO_PARAMETERS,
        headers=("Last-Event-ID",),
        kind="text/event-stream",
    ),
    _get(DOCUMENT_PATH, dict[str, Any], "this document", parameters=NO_PARAMETERS),
    Operation(
        method="POST",
        path=what_if.WHAT_IF_PATH,
        about="other settings, tried on captured calls",
        answer=WhatIfResult,
        body=table_schema(what_if.WHAT_IF_FIELDS),
        errors=(409, 422, 429),
    ),
    Operation(
        method="POST",
        path=try_it.TRY_PATH,
        about="what every rule says of a conversation that is sent",
        answer=TryItReport,
        body=table_schema(try_it.TRY_FIELDS),
        errors=(422, 429),
    ),
]


NONEMPTY_STRING: Schema = {"type": "string", "minLength": 1}
STRING: Schema = {"type": "string"}

NULL: Schema = {"type": "null"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, NULL]}


def _named(name: str, schema: Schema, **others: Schema) -> Schema:
    """Return what names this, and possibly others."""
    properties = {name: schema, **others}
    return {
        "type": "object",
        "properties": properties,
        "required": [name],
        "additionalProperties": False,
    }


RELEASE_SCHEMA: Schema = {
    "anyOf": [
        _named("fingerprint", kind_schema(FINGERPRINT_KIND), caller=NULL, incident=NULL),
        _named("caller", STRING, incident=_or_null(STRING), fingerprint=NULL),
        _named("incident", STRING, caller=_or_null(STRING), fingerprint=NULL),
    ]
}


def _lenient(table: Schema) -> Schema:
    """Return a table in which null stands for what is not given."""
    properties = {name: _or_null(one) for name, one in table["properties"].items()}
    return {**table, "properties": properties}


def _versioned(settings: Schema) -> Schema:
    """Return settings that may say for which version they are meant."""
    version = {"type": "integer", "minimum": 0, "description": "only if this is there now"}
    return {**settings, "properties": {**settings["properties"], "version": version}}


def _post(path: str, answer: Any, about: str, body: Any, **more: Any) -> Operation:
    return Operation(method="POST", path=path, about=about, answer=answer, body=body, **more)


def _override_operations(path: str, what: str, settings: Schema, name: Schema) -> list[Operation]:
    place, of_path = f"{path}/{{name}}", {"name": name}
    return [
        Operation(
            method="PUT",
            path=place,
            about=f"sets what is set of a {what}",
            answer=OverrideView,
            body=_versioned(settings),
            headers=("If-Match",),
            errors=(409,),
            of_path=of_path,
        ),
        Operation(
            method="DELETE",
            path=place,
            about=f"goes back to what the file says of a {what}",
            answer=OverrideView,
            headers=("If-Match",),
            errors=(409,),
        ),
    ]


WRITE_OPERATIONS = [
    _post(
        enforcement.RELEASE_PATH,
        ReleaseResult,
        "lets refused calls pass",
        RELEASE_SCHEMA,
        errors=(404,),
    ),
    _post(
        enforcement.COOLDOWNS_PATH,
        enforcement.ExtendedCooldown,
        "refuses something for longer",
        table_schema(enforcement.EXTEND_FIELDS),
        errors=(404,),
    ),
    _post(
        f"{incident.INCIDENTS_PATH}/{{id}}/acknowledge",
        IncidentDetail,
        "says that somebody takes care of it",
        incident.AcknowledgeRequest,
        errors=(404,),
    ),
    _post(
        f"{incident.INCIDENTS_PATH}/{{id}}/notes",
        IncidentDetail,
        "writes something down about it",
        incident.NoteRequest,
        errors=(404, 409),
    ),
    Operation(
        method="PUT",
        path=f"{incident.INCIDENTS_PATH}/{{id}}/label",
        about="says whether it was a loop",
        answer=IncidentDetail,
        body=incident.LabelRequest,
        errors=(404,),
    ),
    _post(
        enforcement.KILL_SWITCHES_PATH,
        KillSwitchCreated,
        "sets a kill switch",
        table_schema(KILL_SWITCH),
        status=201,
    ),
    Operation(
        method="DELETE",
        path=f"{enforcement.KILL_SWITCHES_PATH}/{{id}}",
        about="ends a kill switch that was set at run time",
        answer=KillSwitchEnded,
        errors=(404,),
    ),
    *_override_operations(
        PROJECTS_PATH, "project", table_schema(PROJECT, "name", "keys"), kind_schema(NAME)
    ),
    *_override_operations(TOOLS_PATH, "tool", table_schema(TOOL), NONEMPTY_STRING),
    _post(
        f"{alert.ALERTS_PATH}/test",
        ChannelTestResults,
        "sends a test event through channels",
        _lenient(table_schema(alert.TEST_FIELDS)),
        errors=(404,),
    ),
    _post(
        f"{alert.ALERTS_PATH}/resend",
        ResendResult,
        "sends again what was given up",
        _lenient(table_schema(alert.RESEND_FIELDS)),
    ),
]


REF_TEMPLATE = "#/components/schemas/{name}"

OPERATIONS = [*READ_OPERATIONS, *WRITE_OPERATIONS]

DESCRIPTION = (
    "What operators of a Looptrap gateway can see and do, on its admin address. On loopback nobody"
    " needs a token; elsewhere it is asked for. All of it is JSON, times are ISO 8601 in UTC,"
    " amounts are dollars, and null stands for what has no price."
)


WITH_PARAMETERS = frozenset(
    (one.method, one.path) for one in OPERATIONS if one.parameters is not None
)


def takes_parameters(method: str, path: str) -> bool:
    """Say whether something can be asked in the URL under a path."""
    return (method.replace("HEAD", "GET"), path) in WITH_PARAMETERS


class OpenApiDocumentApi:
    """Answers at `/api/v1/openapi.json`."""

    def __init__(self, _app: App) -> None:
        pass

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(DOCUMENT_PATH, self._tell)]

    async def _tell(self, request: web.Request) -> web.Response:
        read_parameters(request, NO_PARAMETERS)
        # Made once, which takes a while.
        return json_response(await asyncio.to_thread(document))


@cache
def document() -> Schema:
    """Return the OpenAPI document of the admin API."""
    types = [
        *(one.answer for one in OPERATIONS),
        *filter(_is_type, map(_body, OPERATIONS)),
        ErrorBody,
    ]
    _, components = msgspec.json.schema_components(types, ref_template=REF_TEMPLATE)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Looptrap admin API",
            "version": __version__,
            "summary": "See what loops, understand it, act",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": _paths(),
        "components": {
            "schemas": components,
            "responses": {str(status): _response(status) for status in ERROR_DESCRIPTIONS},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "the token of admin_token_env; that of read_token_env may ask"
                    " and change nothing",
                }
            },
        },
    }


def _paths() -> Schema:
    paths: Schema = {}
    for one in OPERATIONS:
        described = one.described(_schema(one.answer))
        if _is_type(one.body):
            described["requestBody"]["content"][JSON_CONTENT]["schema"] = _schema(one.body)
        paths.setdefault(one.path, {})[one.method.lower()] = described
    return paths


def _schema(kind: Any) -> Schema:
    """Return the schema of a type; of one that has a name, where it stands."""
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REF_TEMPLATE)
    return schema


def _body(operation: Operation) -> Any:
    return operation.body


def _is_type(body: Any) -> bool:
    return body is not None and not isinstance(body, dict)


def _response(status: int) -> Schema:
    return {
        "description": ERROR_DESCRIPTIONS[status],
        "content": {JSON_CONTENT: {"schema": _schema(ErrorBody)}},
    }
