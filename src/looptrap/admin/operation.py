"""An operation of the admin API: declared beside its handler, served and documented from there.

Its JSON Schemas are made from the tables that read its parameters and its body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

import msgspec
from aiohttp import web

from looptrap import __version__
from looptrap.admin.api import (
    JSON_TYPE,
    ApiError,
    ApiRequest,
    ErrorBody,
    Instant,
    fields,
    json_response,
    problems_response,
    read_json,
    read_parameters,
)
from looptrap.config import Config
from looptrap.dialect.content import UNREADABLE
from looptrap.errors import ConfigError
from looptrap.gateway.app import App
from looptrap.incident.history import IncidentHistory
from looptrap.policy import preset
from looptrap.schema import Choice, Flag, Kind, Listing, Mapped, Moment, Number, Table, Text, read

T = TypeVar("T")

Schema = dict[str, Any]

NO_PARAMETERS = fields()
ANY_TEXT = Text()

Method = Literal["GET", "POST", "PUT", "DELETE"]

Handler = Callable[[Any, ApiRequest], Awaitable[Any]]
"""A method of an Api. It returns a value for JSON, or a response that it has sent itself."""

ERROR_DESCRIPTIONS = {
    400: "what was sent has mistakes: nothing was changed",
    401: "the token is missing or wrong",
    403: "read_only, cross_site or foreign_host: not allowed, or not from there",
    404: "there is no such thing",
    408: "the request did not arrive in time",
    409: "it has changed since, or there is nothing to judge",
    413: "the body is too large",
    415: "the body is not application/json",
    422: "an answer would take too long: ask for less",
    429: "such a question is being answered already",
    500: "this failed inside; the log says why",
    502: "the worker that was asked has ended",
    503: "the history or the store cannot be used, or no worker is up",
}
COMMON_ERRORS = (400, 401, 403, 408, 500, 502, 503)
BODY_ERRORS = (413, 415)


def kind_schema(kind: Kind) -> Schema:
    """Return the schema of what a kind reads."""
    match kind:
        case Text() if kind.into is preset.known:
            return {"enum": preset.names()}
        case Text() if kind.pattern == ANY_TEXT.pattern:
            return {"type": "string", "minLength": 1}
        case Text():
            return {"type": "string", "pattern": f"^(?:{kind.pattern})$"}
        case Choice():
            return {"enum": list(kind.values)}
        case Number():
            low = "exclusiveMinimum" if kind.above else "minimum"
            number = "integer" if kind.whole else "number"
            return {"type": number, low: kind.low, "maximum": kind.high}
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


def object_schema(properties: Schema, required: Sequence[str]) -> Schema:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def table_schema(table: Table[Any], *excluded: str) -> Schema:
    """Return the schema of a table without the excluded fields."""
    included = [one for one in table.fields if one.name not in excluded]
    properties = {one.name: {**kind_schema(one.kind), "description": one.doc} for one in included}
    return object_schema(properties, [one.name for one in included if one.required])


def nullable(schema: Schema) -> Schema:
    """Return the schema of a value or null."""
    return {"anyOf": [schema, {"type": "null"}]}


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


REF_TEMPLATE = "#/components/schemas/{name}"


def _schema(kind: Any) -> Schema:
    """Return the schema of a type; of one with a name, a reference to it."""
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REF_TEMPLATE)
    return schema


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request: its schema, or a type that has one, and the function that reads it."""

    kind: Any
    read: Callable[[bytes], Any]


def json_body(table: Table[Any], *excluded: str, **others: Schema) -> Body:
    """Return a body that its handler checks: fields of a table, and others with these schemas."""
    schema = table_schema(table, *excluded)
    return Body({**schema, "properties": {**schema["properties"], **others}}, read_json)


def table_body(table: Table[Any]) -> Body:
    """Return a body that is read by a table."""
    return Body(table_schema(table), lambda content: read(table, read_json(content)))


def nullable_body(table: Table[Any]) -> Body:
    """Return a body that is read by a table, in which null means that a field is not given."""

    def read_given(content: bytes) -> Any:
        value = read_json(content)
        if isinstance(value, dict):
            value = {name: one for name, one in value.items() if one is not None}
        return read(table, value)

    schema = table_schema(table)
    properties = {name: nullable(one) for name, one in schema["properties"].items()}
    return Body({**schema, "properties": properties}, read_given)


def struct_body(struct: type[T], example: str, schema: Schema | None = None) -> Body:
    """Return a body that is read into a Struct; the example is part of the error message."""

    def read_struct(content: bytes) -> T:
        try:
            return msgspec.json.decode(content, type=struct)
        except UNREADABLE as error:
            raise ApiError(400, "bad_request", f"Send {example}: {error}.") from None

    return Body(schema or struct, read_struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path: who answers it, how it is called, and what comes back."""

    method: Method
    path: str
    summary: str
    handler: Handler
    answer: Any
    """The type of what comes back."""
    status: int = 200
    parameters: Table[Any] = NO_PARAMETERS
    body: Body | None = None
    max_body_bytes: int | None = None
    """Where a body may be larger than the listener allows elsewhere."""
    headers: tuple[str, ...] = ()
    """Request headers with a meaning of their own."""
    errors: tuple[int, ...] = ()
    """Statuses beyond those that every operation may answer."""
    content_type: str = JSON_TYPE
    path_kind: Kind = ANY_TEXT
    """What the variable part of the path may be."""
    read_only: bool = False
    """A question too long for a URL: the read token may ask it, though it is a POST."""

    @property
    def name(self) -> str:
        """The operationId: method and path in one word."""
        words = self.path.removeprefix("/api/v1/").translate(str.maketrans("/-.", "___", "{}"))
        return f"{self.method.lower()}_{words}"

    async def respond(self, api: Api, http: web.Request) -> web.StreamResponse:
        """Read a request as declared, have it answered, and return the response."""
        try:
            request = ApiRequest(http, read_parameters(http, self.parameters))
            if self.body is not None:
                if http.content_type != JSON_TYPE:
                    # A page of another site cannot send this type without asking first.
                    raise ApiError(415, "not_json", "Send application/json.")
                request.body = self.body.read(await http.read())
            answer = await self.handler(api, request)
        except ConfigError as error:
            return problems_response(error)
        if isinstance(answer, web.StreamResponse):
            return answer
        return json_response(answer, self.status, **request.response_headers)

    def describe(self) -> Schema:
        """Return the operation as OpenAPI has it."""
        content = {self.content_type: {"schema": _schema(self.answer)}}
        errors = {*COMMON_ERRORS, *self.errors, *(BODY_ERRORS if self.body is not None else ())}
        in_path = [part.strip("{}") for part in self.path.split("/") if part.startswith("{")]
        document: Schema = {
            "operationId": self.name,
            "tags": [self.path.split("/")[3].removesuffix(".json")],
            "summary": self.summary,
            "parameters": [
                *(_parameter(name, "path", kind_schema(self.path_kind)) for name in in_path),
                *parameter_schemas(self.parameters),
                *(_parameter(name, "header", {"type": "string"}) for name in self.headers),
            ],
            "responses": {
                str(self.status): {"description": "the answer", "content": content},
                **{
                    str(code): {"$ref": f"#/components/responses/{code}"} for code in sorted(errors)
                },
            },
        }
        if self.body is not None:
            kind = self.body.kind
            schema = kind if isinstance(kind, dict) else _schema(kind)
            content = {JSON_TYPE: {"schema": schema}}
            document["requestBody"] = {"required": True, "content": content}
        return document


def _parameter(name: str, place: Literal["path", "header"], schema: Schema) -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def operation(
    method: Method, path: str, summary: str, **more: Any
) -> Callable[[Handler], Operation]:
    """Declare a method of an Api as an operation; its return type is what is documented."""

    def declare(handler: Handler) -> Operation:
        options = {"answer": get_type_hints(handler)["return"], **more}
        return Operation(method=method, path=path, summary=summary, handler=handler, **options)

    return declare


get = partial(operation, "GET")
post = partial(operation, "POST")
put = partial(operation, "PUT")
delete = partial(operation, "DELETE")


class Api:
    """Operations of one gateway on one subject."""

    operations: ClassVar[tuple[Operation, ...]] = ()
    """Those declared in the class, unless it lists them itself."""

    def __init_subclass__(cls) -> None:
        if "operations" not in vars(cls):
            cls.operations = tuple(one for one in vars(cls).values() if isinstance(one, Operation))

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def _history(self) -> IncidentHistory:
        return self._app.recorder.history

    @property
    def _config(self) -> Config:
        """The configuration in effect: that of the file with run-time settings on top."""
        return self._app.gateway.runtime.config

    def _now(self) -> float:
        return self._app.gateway.clock()

    def routes(self) -> list[web.RouteDef]:
        """Return the route of every operation."""
        return [
            web.route(one.method, one.path, partial(one.respond, self)) for one in self.operations
        ]


DESCRIPTION = (
    "What operators of a Looptrap gateway can see and do, on its admin address. On loopback no"
    " token is needed; elsewhere one is required. Everything is JSON, times are ISO 8601 in UTC,"
    " amounts are dollars, and null stands for what has no price."
)


def openapi_document(operations: Sequence[Operation]) -> Schema:
    """Return the OpenAPI 3.1 document that describes these operations."""
    bodies = [one.body.kind for one in operations if one.body is not None]
    types = [one.answer for one in operations] + [ErrorBody]
    types += [kind for kind in bodies if not isinstance(kind, dict)]
    _, components = msgspec.json.schema_components(types, ref_template=REF_TEMPLATE)
    paths: Schema = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = one.describe()
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
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                str(status): {
                    "description": description,
                    "content": {JSON_TYPE: {"schema": _schema(ErrorBody)}},
                }
                for status, description in ERROR_DESCRIPTIONS.items()
            },
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "the token of admin_token_env or of an operator; that of"
                    " read_token_env, and of operators who only read, may ask and change nothing",
                }
            },
        },
    }
