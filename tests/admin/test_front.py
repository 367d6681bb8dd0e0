"""The admin address of several workers: they look like one, and one of them answers for all."""

from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.serving import JSON, chat, serving

from looptrap.admin.api import Admin
from looptrap.admin.front import Front, Member
from looptrap.config.kind import Address
from looptrap.errors import ConfigError

LOOPBACK = Address("127.0.0.1", 0)
GONE = Member(99, ("127.0.0.1", 1), "t")


class Crew:
    """Workers on the test's own loop; a test takes them away and says how they are."""

    def __init__(self):
        self.apps = []
        self.there = []
        self.size = 2
        self.restarts = 0
        self.is_complete = True
        self.is_stopping = False

    def members(self):
        return list(self.there)


@asynccontextmanager
async def operating(folder, token=""):
    """Two gateways behind one admin address, and a client of that."""
    crew = Crew()
    async with AsyncExitStack() as stack:
        for pid in (1, 2):
            (folder / str(pid)).mkdir()
            here = await stack.enter_async_context(serving(folder / str(pid)))
            admin = Admin(here.app, LOOPBACK, f"inside-{pid}")
            stack.push_async_callback(admin.stop)
            crew.apps.append(here)
            crew.there.append(Member(pid, await admin.start(), f"inside-{pid}"))
        front = Front(crew.apps[0].app, crew, LOOPBACK, token)
        stack.push_async_callback(front.stop)
        host, port = await front.start()
        session = aiohttp.ClientSession(f"http://{host}:{port}")
        yield crew, await stack.enter_async_context(session)


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as both:
        yield both


async def ask(operator, path, method="GET", **sent):
    async with operator.request(method, path, **sent) as answer:
        return answer.status, await answer.read()


@pytest.mark.parametrize(
    ("lacking", "status", "word"),
    [
        pytest.param({}, 200, "ready", id="all are well"),
        pytest.param({"is_complete": False}, 503, "starting", id="not all have been up"),
        pytest.param({"is_stopping": True}, 503, "stopping", id="stopping"),
        pytest.param({"size": 3}, 200, "degraded", id="one is being replaced"),
        pytest.param({"there": []}, 503, "starting", id="nobody is there"),
        pytest.param({"there": [GONE]}, 503, "starting", id="nobody answers"),
    ],
)
async def test_readiness_is_that_of_all(running, lacking, status, word):
    crew, operator = running
    for name, value in lacking.items():
        setattr(crew, name, value)
    assert await ask(operator, "/readyz") == (status, b'{"status": "%b"}' % word.encode())
    assert await ask(operator, "/livez") == (200, b'{"status": "alive"}')


async def test_a_worker_that_stops_makes_the_whole_degraded(running):
    crew, operator = running
    await crew.apps[1].app.stop()
    assert await ask(operator, "/readyz") == (200, b'{"status": "degraded"}')


async def test_metrics_are_summed_and_keep_what_ended_workers_counted(running):
    crew, operator = running

    async def judged():
        _, text = await ask(operator, "/metrics")
        families = {one.name: one for one in text_string_to_metric_families(text.decode())}
        (workers,) = families["looptrap_workers"].samples
        verdicts = families["looptrap_requests"].samples
        return sum(sample.value for sample in verdicts), workers.value

    for here, number in zip(crew.apps, (2, 3), strict=True):
        for _ in range(number):
            await here.ask(headers=JSON, body=chat())
    assert await judged() == (5, 2)
    crew.there.pop()
    assert await judged() == (5, 1)


async def test_one_worker_answers_in_its_own_words(running):
    crew, operator = running
    here = crew.apps[0]
    answers = [await here.ask(headers=JSON, body=chat()) for _ in range(6)]
    fingerprint = msgspec.json.decode(answers[-1].body)["detail"]["fingerprint"]
    crew.there.insert(0, GONE)
    sent = {"method": "POST", "json": {"fingerprint": fingerprint}}
    assert await ask(operator, "/api/v1/release", **sent) == (200, b'{"released": true}')
    assert (await here.ask(headers=JSON, body=chat())).status == 200
    async with operator.post("/api/v1/release", data=b"x") as answer:
        assert answer.status == 415
        assert answer.content_type == "application/json"
        assert (await answer.json())["error"]["code"] == "not_json"


async def test_without_a_worker_operators_are_told_to_ask_again(running):
    crew, operator = running
    crew.there.clear()
    status, body = await ask(operator, "/api/v1/release", "POST", json={})
    assert (status, msgspec.json.decode(body)["error"]["code"]) == (503, "no_worker")


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/release", "/nowhere"])
@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        pytest.param("", {"Host": "evil.example"}, 403, id="a foreign name"),
        pytest.param("t0ken", {}, 401, id="no token"),
        pytest.param("t0ken", {"Authorization": "Bearer inside-1"}, 401, id="a worker's token"),
    ],
)
async def test_strangers_are_turned_away_in_front(tmp_path, path, token, headers, status):
    async with operating(tmp_path, token) as (crew, operator):
        crew.there.clear()  # nobody else was asked
        assert (await ask(operator, path, headers=headers))[0] == status


async def test_who_has_the_token_is_let_in_under_any_name(tmp_path):
    async with operating(tmp_path, "t0ken") as (_, operator):
        headers = {"Authorization": "Bearer t0ken", "Host": "ops.example"}
        assert (await ask(operator, "/metrics", headers=headers))[0] == 200
        sent = {"method": "POST", "json": {"fingerprint": "no"}, "headers": headers}
        assert (await ask(operator, "/api/v1/release", **sent))[0] == 400


async def test_an_address_that_others_reach_needs_a_token(running):
    crew, _ = running
    with pytest.raises(ConfigError, match="admin_token_env"):
        Front(crew.apps[0].app, crew, Address("0.0.0.0", 0))
