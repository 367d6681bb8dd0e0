"""An operation is declared once: route, permission and document follow, and every answer fits."""

import json
import re
from copy import deepcopy

import pytest
import requests
import schemathesis
from schemathesis.config import SchemathesisConfig
from tests.admin.operating import operating, told
from tests.cli.operating import operated
from tests.examples import examples
from tests.gateway.test_usage import PRICES

from looptrap.admin import server
from looptrap.admin.api import ApiRequest
from looptrap.admin.operation import ERROR_DESCRIPTIONS, Api, get
from looptrap.admin.server import APIS, OPERATIONS, document

READ_TOKEN = {"Authorization": "Bearer read"}


def test_every_api_has_operations_and_a_route_for_each():
    for api in APIS:
        routes = [(route.method, route.path) for route in api(None).routes()]
        assert routes == [(one.method, one.path) for one in api.operations]
        assert routes, api


def test_the_answer_is_the_return_type_of_the_handler():
    class Sample(Api):
        @get("/api/v1/sample", "a sample")
        async def _show(self, request: ApiRequest) -> dict[str, int]:
            return {"found": len(request.query)}

    (operation,) = Sample.operations
    assert (operation.answer, operation.name) == (dict[str, int], "get_sample")


def test_a_handler_without_a_return_type_cannot_be_declared():
    with pytest.raises(KeyError, match="return"):

        @get("/api/v1/sample", "a sample")
        async def _show(self, request):
            return {}


def test_only_questions_need_no_token_that_may_write():
    assert {"/api/v1/what-if", "/api/v1/try"} == server.READ_ONLY_PATHS


@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if one.method != "GET"],
    ids=lambda operation: operation.name,
)
async def test_the_read_token_opens_what_is_declared_read_only(tmp_path, operation):
    path = operation.path.replace("{id}", "1").replace("{name}", "x")
    async with operating(tmp_path, token="write", read_token="read") as (_, operator):
        # 415: it was let in, and sent no JSON.
        status = 415 if operation.read_only else 403
        found = await told(operator, operation.method, path, status=status, headers=READ_TOKEN)
    assert found["error"]["code"] == ("not_json" if operation.read_only else "read_only")


STREAMS = "/api/v1/events"
"""Answered without end: described, but not to be tried."""

CONFIGURATION = {
    "generation": {"max-examples": examples(12), "deterministic": True, "database": "none"},
    "checks": {
        # What is well formed may still be unknown: a cursor, an incident, a channel, a version.
        "positive_data_acceptance": {
            "expected-statuses": ["2xx", "400", "401", "403", "404", "409", "429"]
        },
    },
    "operations": [
        # Each is answered by a process of its own.
        {"include-path": "/api/v1/try", "generation": {"max-examples": examples(4)}},
    ],
}

TOML = (
    PRICES
    + """
[[projects]]
name = "research"
detection = "shadow"

[[kill_switches]]
match = { caller = "key:stolen" }
reason = "credential leaked"

[[budgets]]
name = "runs"
by = ["session"]
limit_usd = 5
period = "1d"

[[channels]]
name = "ops"
url = "{hook}"
allow_private = true
allow_http = true

[tools.poll_job]
thresholds = { warn = 20, block = 60 }
"""
)


def strict(schema):
    """Return a document under which an answer has nothing that is not in it."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(one) for name, one in schema.items()}
    if "properties" in closed and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def tried():
    """Return the document without what cannot be tried."""
    told = strict(deepcopy(document()))
    told["paths"].pop(STREAMS, None)
    return told


SCHEMA = schemathesis.openapi.from_dict(tried(), config=SchemathesisConfig.from_dict(CONFIGURATION))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A gateway that has seen a loop."""
    with operated(tmp_path_factory.mktemp("gateway"), TOML) as one:
        one.ask(8, "Again?", **{"X-Looptrap-Session": "run-42"})
        one.ask(1, "Something else")
        one.until(lambda out: "run-42" in out, "spending", "--by", "session")
        one.until(lambda out: "inc_" in out, "incidents")
        yield one


def test_it_is_a_document_of_openapi_3_1(running):
    told = requests.get(f"http://{running.admin}/api/v1/openapi.json", timeout=20)
    assert told.headers["Content-Type"] == "application/json"
    assert told.json() == json.loads(json.dumps(document()))
    assert told.json()["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(told.json()).validate()


def test_names_are_unique_and_every_reference_leads_somewhere():
    told = document()
    names = [one["operationId"] for methods in told["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names)
    for place in set(re.findall(r'"#/components/([^"]+)"', json.dumps(told))):
        kind, name = place.split("/")
        assert name in told["components"][kind], place


def test_every_question_says_how_it_can_fail():
    for path, methods in document()["paths"].items():
        for method, one in methods.items():
            assert {"400", "401", "403", "503"} <= set(one["responses"]), (method, path)
            assert ("415" in one["responses"]) is ("requestBody" in one), (method, path)
    assert set(ERROR_DESCRIPTIONS) == {
        int(status) for status in document()["components"]["responses"]
    }


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("incidents", "incidents"),
        ("spending?by=session", "rows"),
        ("stats?by=caller", "groups"),
        ("providers", "providers"),
        ("policies", "policies"),
        ("config", "values"),
        ("budgets", "budgets"),
        ("cooldowns", "cooldowns"),
        ("alerts", "channels"),
        ("kill-switches", "kill_switches"),
        ("projects", "projects"),
        ("tools", "tools"),
    ],
)
def test_what_is_tried_is_not_empty(running, path, name):
    told = requests.get(f"http://{running.admin}/api/v1/{path}", timeout=20).json()
    assert told[name], "else nothing would be known of how its items look"


@SCHEMA.parametrize()
def test_whatever_is_sent_is_answered_as_the_document_says(case, running):
    case.call_and_validate(base_url=f"http://{running.admin}", timeout=20)
