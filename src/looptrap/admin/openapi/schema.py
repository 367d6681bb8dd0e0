"""An operation of the admin API, and its settings as JSON Schema: the same tables read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from looptrap.admin.api import Instant
from looptrap.policy import preset
from looptrap.schema import Choice, Flag, Kind, Listing, Mapped, Moment, Number, Table, Text

Schema = dict[str, Any]

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


def table_schema(table: Table[Any], *left_out: str) -> Schema:
    """Return the schema of a table, without some of its fields."""
    fields = [one for one in table.fields if one.name not in left_out]
    return {
        "type": "object",
        "properties": {one.name: _described(one.kind, one.doc) for one in fields},
        "required": [one.name for one in fields if one.required],
        "additionalProperties": False,
    }


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


def _described(kind: Kind, doc: str) -> Schema:
    return {**kind_schema(kind), "description": doc}


def _text(kind: Text) -> Schema:
    if kind.into is preset.known:
        return {"enum": preset.names()}
    if kind.pattern == ANY_TEXT_PATTERN:
        return {"type": "string", "minLength": 1}
    return {"type": "string", "pattern": f"^(?:{kind.pattern})$"}


def _number(kind: Number) -> Schema:
    low = "exclusiveMinimum" if kind.above else "minimum"
    return {
        "type": "integer" if kind.whole else "number",
        low: kind.low,
        "maximum": kind.high,
    }


Method = Literal["GET", "POST", "PUT", "DELETE"]

ERROR_DESCRIPTIONS = {
    400: "what was sent has mistakes: nothing was changed",
    401: "the token is missing or wrong",
    403: "read_only, cross_site or foreign_host: this one may not do that, or not from there",
    404: "there is no such thing",
    408: "the request did not arrive in time",
    409: "it is another by now, or there is nothing to judge",
    413: "more was sent than is taken",
    415: "the body is not application/json",
    422: "an answer would take too long: ask for less",
    429: "such a question is being answered already",
    500: "this failed inside; the log says why",
    502: "the worker that was asked has ended",
    503: "the history or the store cannot be used, or no worker is up",
}
"""What it means that a question is not answered, by status."""

COMMON_ERRORS = (400, 401, 403, 408, 500, 502, 503)
BODY_ERRORS = (413, 415)

JSON_CONTENT = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is asked under a path, and answered."""

    method: Method
    path: str
    about: str
    answer: Any
    """The type of what comes back."""
    status: int = 200
    parameters: Table[Any] | None = None
    body: Any = None
    """Its schema, or its type."""
    headers: tuple[str, ...] = ()
    """Of the request, that count."""
    errors: tuple[int, ...] = ()
    """Statuses that not every question can have."""
    kind: str = JSON_CONTENT
    of_path: dict[str, Schema] = field(default_factory=dict)
    """What may stand in the path, where that is not any text."""

    @property
    def name(self) -> str:
        """What tells it from all others."""
        words = self.path.removeprefix("/api/v1/").replace("{", "").replace("}", "")
        return (
            f"{self.method.lower()}_{words.replace('/', '_').replace('-', '_').replace('.', '_')}"
        )

    def described(self, answer: Schema) -> Schema:
        """Return the operation as a document has it; `answer` is the schema of what comes back."""
        told: Schema = {
            "operationId": self.name,
            "tags": [self.path.split("/")[3].removesuffix(".json")],
            "summary": self.about,
            "parameters": self._parameters(),
            "responses": {
                str(self.status): {
                    "description": "what was asked for",
                    "content": {self.kind: {"schema": answer}},
                }
            },
        }
        if self.body is not None:
            told["requestBody"] = {
                "required": True,
                "content": {JSON_CONTENT: {"schema": self.body}},
            }
        codes = {*COMMON_ERRORS, *self.errors, *(BODY_ERRORS if self.body is not None else ())}
        for code in sorted(codes):
            told["responses"][str(code)] = {"$ref": f"#/components/responses/{code}"}
        return told

    def _parameters(self) -> list[Schema]:
        in_path = [one.strip("{}") for one in self.path.split("/") if one.startswith("{")]
        text = {"type": "string", "minLength": 1}
        return [
            *(
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "schema": self.of_path.get(name, text),
                }
                for name in in_path
            ),
            *(parameter_schemas(self.parameters) if self.parameters is not None else ()),
            *(
                {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
                for name in self.headers
            ),
        ]
