"""JSON Schema of settings: made from the tables that read them."""

from __future__ import annotations

from typing import Any

from looptrap.admin.api import Instant
from looptrap.policy import preset
from looptrap.schema import Choice, Flag, Kind, Listing, Mapped, Moment, Number, Table, Text

Schema = dict[str, Any]

ANY_TEXT: Schema = {"type": "string", "minLength": 1}
ANY_TEXT_PATTERN = Text().pattern


def kind_schema(kind: Kind) -> Schema:
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
            return {"type": "array", "items": kind_schema(kind.of)}
        case Mapped():
            return {
                "type": "object",
                "propertyNames": kind_schema(kind.keys),
                "additionalProperties": kind_schema(kind.values),
                "minProperties": kind.least,
            }
        case Table():
            return table_schema(kind)
        case _:
            raise TypeError(f"{type(kind).__name__} has no schema")


def table_schema(table: Table[Any], *excluded: str) -> Schema:
    """Return the schema of a table without the excluded fields."""
    fields = [one for one in table.fields if one.name not in excluded]
    return {
        "type": "object",
        "properties": {
            one.name: {**kind_schema(one.kind), "description": one.doc} for one in fields
        },
        "required": [one.name for one in fields if one.required],
        "additionalProperties": False,
    }


def nullable(schema: Schema) -> Schema:
    """Return the schema of a value or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def nullable_fields(table: Table[Any]) -> Schema:
    """Return the schema of a table in which null means that a field is not given."""
    schema = table_schema(table)
    properties = {name: nullable(one) for name, one in schema["properties"].items()}
    return {**schema, "properties": properties}


def parameter_schemas(table: Table[Any]) -> list[Schema]:
    """Return the fields of a table as parameters in a URL."""
    return [
        {
            "name": one.name,
            "in": "query",
            "required": one.required,
            "description": one.doc,
            "schema": kind_schema(one.kind)
            | ({"default": one.kind.plain(one.default)} if one.default is not None else {}),
        }
        for one in table.fields
    ]


def _text(kind: Text) -> Schema:
    if kind.into is preset.known:
        return {"enum": preset.names()}
    if kind.pattern == ANY_TEXT_PATTERN:
        return ANY_TEXT
    return {"type": "string", "pattern": f"^(?:{kind.pattern})$"}


def _number(kind: Number) -> Schema:
    low = "exclusiveMinimum" if kind.above else "minimum"
    return {
        "type": "integer" if kind.whole else "number",
        low: kind.low,
        "maximum": kind.high,
    }
