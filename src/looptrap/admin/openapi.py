"""All operations of the admin API, and the OpenAPI 3.1 document that describes them."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import msgspec

from looptrap import __version__
from looptrap.admin.alert import AlertApi
from looptrap.admin.api import JSON_TYPE, ApiRequest, ErrorBody
from looptrap.admin.audit import AuditApi
from looptrap.admin.budget import BreachApi, BudgetApi
from looptrap.admin.call import CallApi
from looptrap.admin.config import ConfigApi
from looptrap.admin.demo import DemoApi
from looptrap.admin.enforcement import EnforcementApi
from looptrap.admin.event_stream import EventStreamApi
from looptrap.admin.incident import IncidentApi
from looptrap.admin.incident_bulk import IncidentBulkApi
from looptrap.admin.key import KeyApi
from looptrap.admin.operation import ERROR_DESCRIPTIONS, Api, Schema, get
from looptrap.admin.provider import ProviderApi
from looptrap.admin.rule_trial import RuleTrialApi
from looptrap.admin.runtime_override import ProjectApi, RuleApi, ToolApi
from looptrap.admin.status import StatusApi
from looptrap.admin.usage import UsageApi

REF_TEMPLATE = "#/components/schemas/{name}"

DESCRIPTION = (
    "What operators of a Looptrap gateway can see and do, on its admin address. On loopback no"
    " token is needed; elsewhere one is required. Everything is JSON, times are ISO 8601 in UTC,"
    " amounts are dollars, and null stands for what has no price."
)


class OpenApiDocumentApi(Api):
    """Answers at `/api/v1/openapi.json`."""

    @get("/api/v1/openapi.json", "this document")
    async def _show(self, _request: ApiRequest) -> dict[str, Any]:
        # It takes a while to make, and is made once.
        return await asyncio.to_thread(document)


APIS: tuple[type[Api], ...] = (
    StatusApi, UsageApi, CallApi, ProviderApi, KeyApi, ConfigApi, BudgetApi, BreachApi,
    IncidentBulkApi, IncidentApi, EnforcementApi, ProjectApi, ToolApi, RuleApi, AlertApi,
    AuditApi, EventStreamApi, RuleTrialApi, DemoApi, OpenApiDocumentApi,
)  # fmt: skip
"""Everything under `/api/v1`."""

OPERATIONS = [operation for api in APIS for operation in api.operations]


@cache
def document() -> Schema:
    """Return the OpenAPI document of the admin API."""
    bodies = [one.body.kind for one in OPERATIONS if one.body is not None]
    types = [one.answer for one in OPERATIONS] + [ErrorBody]
    types += [kind for kind in bodies if not isinstance(kind, dict)]
    _, components = msgspec.json.schema_components(types, ref_template=REF_TEMPLATE)
    paths: Schema = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = one.describe(_schema)
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


def _schema(kind: Any) -> Schema:
    """Return the schema of a type; of one with a name, a reference to it."""
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REF_TEMPLATE)
    return schema
