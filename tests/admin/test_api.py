"""The admin listener: health for orchestrators, releases for operators, nothing for strangers."""

import asyncio
from contextlib import closing

import msgspec
import pytest
from tests.admin.operating import operating
from tests.gateway.serving import JSON, chat
from tests.wire.fake_client import Client

from looptrap.admin.server import AdminServer
from looptrap.config.kind import Address
from looptrap.errors import ConfigError


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as (here, operator):
        yield here, operator


@pytest.fixture
async def guarded(tmp_path):
    async with operating(tmp_path, token="t0ken") as (_, operator):
        yield operator


@pytest.mark.parametrize(("path", "status"), [("/livez", "alive"), ("/readyz", "ready")])
async def test_a_running_gateway_is_alive_and_ready(running, path, status):
    _, operator = running
    async with operator.get(path) as answer:
        assert (answer.status, await answer.json()) == (200, {"status": status})


async def test_a_stopping_gateway_is_alive_but_takes_no_more(running):
    here, operator = running
    await here.app.stop()
    async with operator.get("/readyz") as answer:
        assert (answer.status, await answer.json()) == (503, {"status": "stopping"})
    async with operator.get("/livez") as answer:
        assert answer.status == 200


async def test_a_release_lets_the_next_call_through(running):
    here, operator = running
    answers = [await here.ask(headers=JSON, body=chat()) for _ in range(7)]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
    fingerprint = msgspec.json.decode(answers[-1].body)["detail"]["fingerprint"]
    for known in (True, False):
        async with operator.post("/api/v1/release", json={"fingerprint": fingerprint}) as answer:
            assert (answer.status, await answer.json()) == (200, {"released": known})
    assert (await here.ask(headers=JSON, body=chat())).status == 200


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        pytest.param({"json": {}}, 400, "bad_request", id="nothing"),
        pytest.param(
            {"json": {"fingerprint": "nonsense"}}, 400, "bad_request", id="no fingerprint"
        ),
        pytest.param({"json": {"fingerprint": 7}}, 400, "bad_request", id="a number"),
        pytest.param({"json": {"fingerprint": "1-ab", "x": 1}}, 400, "bad_request", id="more"),
        pytest.param({"json": ["1-ab"]}, 400, "bad_request", id="a list"),
        pytest.param({"data": b"\xff"}, 415, "not_json", id="bytes"),
        pytest.param({"data": {"fingerprint": "1-ab"}}, 415, "not_json", id="a form of any page"),
    ],
)
async def test_a_release_that_cannot_be_understood_is_refused_in_words(running, sent, status, code):
    _, operator = running
    async with operator.post("/api/v1/release", **sent) as answer:
        assert answer.status == status
        error = (await answer.json())["error"]
    assert error["code"] == code
    assert error["message"].startswith("Send ")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:4101", 200),
        ("localhost", 200),
        ("[::1]:4101", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:80", 403),
        ("localhost.evil.example", 403),
        ("evil.example:4101", 403),
        ("", 403),
    ],
)
async def test_pages_pointed_at_loopback_under_a_foreign_name_get_nothing(running, host, status):
    _, operator = running
    async with operator.get("/metrics", headers={"Host": host}) as answer:
        assert answer.status == status
        assert (b"looptrap_requests" in await answer.read()) is (status == 200)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        pytest.param("Bearer t0ken", 200, id="the token"),
        pytest.param("Bearer wrong", 401, id="a wrong one"),
        pytest.param("Bearer ", 401, id="an empty one"),
        pytest.param(None, 401, id="none"),
    ],
)
async def test_with_a_token_only_its_holder_is_let_in(guarded, authorization, status):
    headers = {"Authorization": authorization} if authorization is not None else {}
    for method, path in (("GET", "/metrics"), ("POST", "/api/v1/release")):
        async with guarded.request(method, path, headers=headers) as answer:
            assert answer.status == (415 if path != "/metrics" and status == 200 else status)


async def test_a_token_that_is_no_text_is_a_wrong_one(guarded):
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded._base_url.port)
    with closing(writer):
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
        assert (await Client(reader, writer).answer()).status == 401


async def test_a_token_opens_the_listener_under_any_name(guarded):
    headers = {"Host": "gateway.internal", "Authorization": "Bearer t0ken"}
    async with guarded.get("/metrics", headers=headers) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_orchestrators_need_no_token(guarded, path):
    async with guarded.get(path, headers={"Host": "10.0.0.7:4101"}) as answer:
        assert answer.status == 200


async def test_off_loopback_a_token_is_required(running):
    here, _ = running
    with pytest.raises(ConfigError, match=r"gateway\.admin: 0\.0\.0\.0 can be reached by others"):
        AdminServer(here.app, Address("0.0.0.0", 0))


async def test_an_address_in_use_is_said_in_one_line(running):
    here, operator = running
    taken = Address("127.0.0.1", operator._base_url.port)
    with pytest.raises(ConfigError, match=rf"admin: cannot listen at {taken}: .*in use") as caught:
        await AdminServer(here.app, taken).start()
    assert "\n" not in str(caught.value)
