"""What a setting may be, as JSON Schema: the same tables read it."""

from __future__ import annotations

from typing import Any

from looptrap.admin.history import Instant
from looptrap.policy import preset
from looptrap.schema import Choice, Flag, Kind, Listing, Mapped, Moment, Number, Table, Text

Schema = dict[str, Any]

ANYTHING = Text().pattern


def schema_of(kind: Kind) -> Schema:
    """Return the schema of what a kind reads."""
    match kind:
        case Text():
            return _text(kind)
        case Choice():
            return {"enum": list(kind.values)}
        case Number():
            return _number(kind)
        case Flag():
            return {"type": "boolean"}
        case Moment() | Instant():
            return {"type": "string", "format": "date-time"}
        case Listing():
            return {"type": "array", "items": schema_of(kind.of)}
        case Mapped():
            return {
                "type": "object",
                "propertyNames": schema_of(kind.keys),
                "additionalProperties": schema_of(kind.values),
                "minProperties": kind.least,
            }
        case Table():
            return table_of(kind)
        case _:
            raise TypeError(f"{type(kind).__name__} has no schema")


def table_of(table: Table[Any], *left_out: str) -> Schema:
    """Return the schema of a table, without some of its fields."""
    fields = [one for one in table.fields if one.name not in left_out]
    return {
        "type": "object",
        "properties": {one.name: _described(one.kind, one.doc) for one in fields},
        "required": [one.name for one in fields if one.required],
        "additionalProperties": False,
    }


def parameters_of(table: Table[Any]) -> list[Schema]:
    """Return the fields of a table as parameters in a URL."""
    return [
        {
            "name": one.name,
            "in": "query",
            "required": one.required,
            "description": one.doc,
            "schema": schema_of(one.kind)
            | ({"default": one.kind.plain(one.default)} if one.default is not None else {}),
        }
        for one in table.fields
    ]


def _described(kind: Kind, doc: str) -> Schema:
    return {**schema_of(kind), "description": doc}


def _text(kind: Text) -> Schema:
    if kind.into is preset.known:
        return {"enum": preset.names()}
    if kind.pattern == ANYTHING:
        return {"type": "string", "minLength": 1}
    return {"type": "string", "pattern": f"^(?:{kind.pattern})$"}


def _number(kind: Number) -> Schema:
    low = "exclusiveMinimum" if kind.above else "minimum"
    return {
        "type": "integer" if kind.whole else "number",
        low: kind.low,
        "maximum": kind.high,
    }
