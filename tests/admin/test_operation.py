"""An operation is declared once: its route, its permission and its description follow."""

import pytest
from tests.admin.operating import operating, told

from looptrap.admin import server
from looptrap.admin.api import ApiRequest
from looptrap.admin.operation import Api, get
from looptrap.admin.server import APIS, OPERATIONS

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
