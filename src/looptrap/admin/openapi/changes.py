"""Questions that change something, as a document has them."""

from __future__ import annotations

from typing import Any

from looptrap.admin import alert, cooldown, incident, kill, release, remark
from looptrap.admin.cooldown import FINGERPRINT
from looptrap.admin.incident_view import IncidentShown
from looptrap.admin.layer import LayerShown
from looptrap.admin.openapi import shape
from looptrap.admin.openapi.kind import Schema, schema_of, table_of
from looptrap.admin.openapi.operation import Operation
from looptrap.admin.openapi.questions import PROJECTS, TOOLS
from looptrap.policy.setting.kind import NAME
from looptrap.policy.setting.policy import KILL_SWITCH, PROJECT, TOOL

TEXT: Schema = {"type": "string", "minLength": 1}
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


RELEASED: Schema = {
    "anyOf": [
        _named("fingerprint", schema_of(FINGERPRINT), caller=NULL, incident=NULL),
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


def _layer(path: str, what: str, settings: Schema, name: Schema) -> list[Operation]:
    place, of_path = f"{path}/{{name}}", {"name": name}
    return [
        Operation(
            method="PUT",
            path=place,
            about=f"sets what is set of a {what}",
            answer=LayerShown,
            body=_versioned(settings),
            headers=("If-Match",),
            errors=(409,),
            of_path=of_path,
        ),
        Operation(
            method="DELETE",
            path=place,
            about=f"goes back to what the file says of a {what}",
            answer=LayerShown,
            headers=("If-Match",),
            errors=(409,),
        ),
    ]


CHANGES = [
    _post(release.PATH, shape.Released, "lets refused calls pass", RELEASED, errors=(404,)),
    _post(
        cooldown.PATH,
        cooldown.Extended,
        "refuses something for longer",
        table_of(cooldown.EXTENDED),
        errors=(404,),
    ),
    _post(
        f"{incident.PATH}/{{id}}/acknowledge",
        IncidentShown,
        "says that somebody takes care of it",
        remark.Acknowledged,
        errors=(404,),
    ),
    _post(
        f"{incident.PATH}/{{id}}/notes",
        IncidentShown,
        "writes something down about it",
        remark.Noted,
        errors=(404, 409),
    ),
    Operation(
        method="PUT",
        path=f"{incident.PATH}/{{id}}/label",
        about="says whether it was a loop",
        answer=IncidentShown,
        body=remark.Labelled,
        errors=(404,),
    ),
    _post(kill.PATH, shape.SwitchSet, "sets a kill switch", table_of(KILL_SWITCH), status=201),
    Operation(
        method="DELETE",
        path=f"{kill.PATH}/{{id}}",
        about="ends a kill switch that was set at run time",
        answer=shape.SwitchEnded,
        errors=(404,),
    ),
    *_layer(PROJECTS, "project", table_of(PROJECT, "name", "keys"), schema_of(NAME)),
    *_layer(TOOLS, "tool", table_of(TOOL), TEXT),
    _post(
        f"{alert.PATH}/test",
        shape.Trials,
        "sends a test event through channels",
        _lenient(table_of(alert.TRIAL)),
        errors=(404,),
    ),
    _post(
        f"{alert.PATH}/resend",
        shape.Resent,
        "sends again what was given up",
        _lenient(table_of(alert.RESENT)),
    ),
]
