"""The admin address of several workers: they look like one, and one of them answers for all."""

from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.serving import JSON, chat, serving

from looptrap.admin.auth import AdminAccess, Operator, TokenHolder, token_access
from looptrap.admin.server import AdminServer
from looptrap.admin.worker_proxy import WorkerEndpoint, WorkerProxy
from looptrap.config.kind import Address
from looptrap.errors import ConfigError
from looptrap.retry.breaker import CircuitKey, CircuitOpening

LOOPBACK = Address("127.0.0.1", 0)
GONE = WorkerEndpoint(99, ("127.0.0.1", 1), "t")


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
async def operating(folder, token="", read_token="", toml="", access=None):
    """Two gateways behind one admin address, and a client of that."""
    crew = Crew()
    async with AsyncExitStack() as stack:
        for pid in (1, 2):
            (folder / str(pid)).mkdir()
            here = await stack.enter_async_context(serving(folder / str(pid), toml))
            admin = AdminServer(here.app, LOOPBACK, token_access(f"inside-{pid}"))
            stack.push_async_callback(admin.stop)
            crew.apps.append(here)
            crew.there.append(WorkerEndpoint(pid, await admin.start(), f"inside-{pid}"))
        front = WorkerProxy(
            crew.apps[0].app, crew, LOOPBACK, access or token_access(token, read_token)
        )
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
    assert await ask(operator, "/api/v1/release", **sent) == (200, b'{"released":true}')
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
        WorkerProxy(crew.apps[0].app, crew, Address("0.0.0.0", 0))


class TestAllWorkers:
    """What one worker alone does not know is told of all of them."""

    async def told(self, operator, path, **sent):
        status, body = await ask(operator, f"/api/v1/{path}", **sent)
        assert status == 200, body
        return msgspec.json.decode(body)

    async def test_the_status_is_that_of_all(self, running):
        crew, operator = running
        status = await self.told(operator, "status")
        assert status["workers"] == {"size": 2, "serving": 2}
        assert status["can_write"] is True
        crew.apps[1].app.recorder.writer._is_failing = True
        status = await self.told(operator, "status")
        assert status["history"]["is_writing"] is False
        assert status["notices"][0]["code"] == "history_stuck"

    async def test_nothing_has_come_only_if_nothing_came_to_any(self, running):
        crew, operator = running

        async def codes():
            return [one["code"] for one in (await self.told(operator, "status"))["notices"]]

        assert await codes() == ["no_calls"]
        await crew.apps[1].ask(headers=JSON, body=chat())
        assert await codes() == []

    async def test_a_worker_that_is_missing_is_told(self, running):
        crew, operator = running
        crew.there[1] = GONE
        status = await self.told(operator, "status")
        assert status["workers"] == {"size": 2, "serving": 1}
        assert "worker_missing" in [one["code"] for one in status["notices"]]

    async def test_calls_to_providers_are_added_up(self, running):
        crew, operator = running
        for here, number in zip(crew.apps, (2, 3), strict=True):
            for n in range(number):
                await here.ask(headers=JSON, body=chat(f"{n}"))
        (upstream,) = (await self.told(operator, "providers"))["providers"]
        assert upstream["calls"] == sum(upstream["first_bytes"]) == 5
        assert upstream["p95_first_byte_seconds"] > 0

    async def test_a_circuit_that_one_has_opened_is_open(self, running):
        crew, operator = running
        crew.apps[1].app.attempts._learn(CircuitOpening(CircuitKey("upstream"), 60.0))
        (upstream,) = (await self.told(operator, "providers"))["providers"]
        assert [one["state"] for one in upstream["breakers"]] == ["open"]

    async def test_accounts_of_budgets_are_those_that_any_has_charged(self, tmp_path):
        toml = "[[budgets]]\nname = 'all'\nby = ['session']\nlimit_tokens = 1000000\n"
        async with operating(tmp_path, toml=toml) as (crew, operator):
            for n, here in enumerate(crew.apps):
                headers = {**JSON, "X-Looptrap-Session": f"run-{n}"}
                await here.ask(headers=headers, body=chat())
            (budget,) = (await self.told(operator, "budgets"))["budgets"]
            sessions = {one["by"]["session"] for one in budget["accounts"]}
            assert sessions == {"run-0", "run-1"}
            wanted = "budgets?caller=addr:127.0.0.1&session=run-1"
            (budget,) = (await self.told(operator, wanted))["budgets"]
            assert [one["by"]["session"] for one in budget["accounts"]] == ["run-1"]
            status, _ = await ask(operator, "/api/v1/budgets?colour=red")
            assert status == 400

    async def test_the_worker_asked_records_the_name_of_the_operator(self, tmp_path):
        holder = TokenHolder(Operator("Zoë, ops"), "t0ken", "gateway.operators[0].token_env")
        access = AdminAccess((holder,))
        toml = "[gateway]\nworkers = 2\n"
        async with operating(tmp_path, toml=toml, access=access) as (_, operator):
            headers = {"Authorization": "Bearer t0ken", "X-Looptrap-Operator": "somebody-else"}
            sent = {"method": "PUT", "json": {"exempt": True}, "headers": headers}
            assert (await ask(operator, "/api/v1/tools/poll", **sent))[0] == 200
            (entry,) = (await self.told(operator, "audit", headers=headers))["entries"]
            assert (entry["by"], entry["source"]) == ("Zoë, ops", "127.0.0.1")
            status = await self.told(operator, "status", headers=headers)
            assert status["operator"] == "Zoë, ops"

    async def test_a_read_token_reads_and_writes_nothing(self, tmp_path):
        async with operating(tmp_path, "t0ken", "r3ader") as (_, operator):
            headers = {"Authorization": "Bearer r3ader"}
            status = await self.told(operator, "status", headers=headers)
            assert status["can_write"] is False
            sent = {"method": "POST", "json": {}, "headers": headers}
            refused, body = await ask(operator, "/api/v1/release", **sent)
            assert (refused, msgspec.json.decode(body)["error"]["code"]) == (403, "read_only")

    async def test_without_a_worker_there_is_nothing_to_tell(self, running):
        crew, operator = running
        crew.there.clear()
        status, body = await ask(operator, "/api/v1/status")
        assert (status, msgspec.json.decode(body)["error"]["code"]) == (503, "no_worker")

    async def test_mistakes_are_told_as_one_worker_tells_them(self, running):
        _, operator = running
        status, body = await ask(operator, "/api/v1/status?verbose=1")
        assert (status, msgspec.json.decode(body)["error"]["code"]) == (400, "bad_request")
