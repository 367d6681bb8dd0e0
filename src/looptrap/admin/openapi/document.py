"""The document: all operations together, with the shapes that they answer in."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import msgspec
from aiohttp import web

from looptrap import __version__
from looptrap.admin.answer import answer
from looptrap.admin.history import NOTHING, parameters
from looptrap.admin.openapi.changes import CHANGES
from looptrap.admin.openapi.kind import Schema
from looptrap.admin.openapi.operation import JSON, TOLD, Operation
from looptrap.admin.openapi.questions import DOCUMENT, QUESTIONS
from looptrap.admin.openapi.shape import Error
from looptrap.gateway.app import App

PLACES = "#/components/schemas/{name}"

OPERATIONS = [*QUESTIONS, *CHANGES]

ABOUT = (
    "What operators of a Looptrap gateway can see and do, on its admin address. On loopback nobody"
    " needs a token; elsewhere it is asked for. All of it is JSON, times are ISO 8601 in UTC,"
    " amounts are dollars, and null stands for what has no price."
)


TAKING = frozenset((one.method, one.path) for one in OPERATIONS if one.parameters is not None)


def takes_parameters(method: str, path: str) -> bool:
    """Say whether something can be asked in the URL under a path."""
    return (method.replace("HEAD", "GET"), path) in TAKING


class OpenApi:
    """Answers at `/api/v1/openapi.json`."""

    def __init__(self, _app: App) -> None:
        pass

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(DOCUMENT, self._tell)]

    async def _tell(self, request: web.Request) -> web.Response:
        parameters(request, NOTHING)
        # Made once, which takes a while.
        return answer(await asyncio.to_thread(document))


@cache
def document() -> Schema:
    """Return the OpenAPI document of the admin API."""
    types = [*(one.answer for one in OPERATIONS), *filter(_is_type, map(_body, OPERATIONS)), Error]
    _, components = msgspec.json.schema_components(types, ref_template=PLACES)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Looptrap admin API",
            "version": __version__,
            "summary": "See what loops, understand it, act",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": _paths(),
        "components": {
            "schemas": components,
            "responses": {str(status): _response(status) for status in TOLD},
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
            described["requestBody"]["content"][JSON]["schema"] = _schema(one.body)
        paths.setdefault(one.path, {})[one.method.lower()] = described
    return paths


def _schema(kind: Any) -> Schema:
    """Return the schema of a type; of one that has a name, where it stands."""
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=PLACES)
    return schema


def _body(operation: Operation) -> Any:
    return operation.body


def _is_type(body: Any) -> bool:
    return body is not None and not isinstance(body, dict)


def _response(status: int) -> Schema:
    return {"description": TOLD[status], "content": {JSON: {"schema": _schema(Error)}}}
