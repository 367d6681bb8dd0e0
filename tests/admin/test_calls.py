"""The log of calls for operators: who called, what it came to, and what was decided."""

import asyncio

import pytest
from tests.admin.looping import incident, loop
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat, until
from tests.incident.history.keeping import NOON
from tests.incident.history.test_calls import CALLS, logged

PATH = "/api/v1/calls"
SECRET_TEXT = "the launch code is 0000"


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as (here, operator):
        yield here, operator


@pytest.fixture
async def filled(running):
    here, operator = running
    await asyncio.to_thread(here.app.recorder.history.put, calls=CALLS)
    return operator


async def listed(operator, number, **wanted):
    """Wait until so many calls are listed; return them, the latest first."""
    found = []

    async def are_there():
        found[:] = (await told(operator, "GET", PATH, params=wanted))["calls"]
        return len(found) == number

    await until(are_there)
    return found


async def test_calls_are_listed_with_all_that_is_known_of_them(running):
    here, operator = running
    headers = {"X-Looptrap-Session": "run-1", "User-Agent": "claude-cli/2.0", "X-Request-Id": "r1"}
    await here.ask(headers=JSON | headers, body=chat(SECRET_TEXT))
    (call,) = await listed(operator, 1)
    assert (call["id"], call["weight"], call["caller"]) == (1, 1, "addr:127.0.0.1")
    assert (call["session"], call["agent"], call["model"]) == ("run-1", "Claude Code", "gpt-5.3")
    assert (call["status"], call["verdict"], call["request_id"]) == (200, "allow", "r1")
    assert call["provider"]
    assert call["input_tokens"] > 0
    assert call["cost_usd"] > 0
    assert 0 <= call["first_byte"] <= call["latency"] < 60
    assert SECRET_TEXT not in str(call)


async def test_a_refused_call_leads_to_its_incident(running):
    here, operator = running
    await loop(here)
    found = await incident(operator, lambda one: one["refused"] == 2)
    refused = await listed(operator, 2, verdict="refused")
    shown = await told(operator, "GET", f"{PATH}/{refused[0]['id']}")
    assert shown == {**refused[0], "incidents": [found["id"]]}
    assert (shown["status"], shown["provider"], shown["cost_usd"]) == (429, "", 0.0)
    assert (shown["rule"], shown["session"]) == (found["rule"], found["session"])
    (allowed, *_) = await listed(operator, 5, verdict="allow")
    assert (await told(operator, "GET", f"{PATH}/{allowed['id']}"))["incidents"] == []


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"caller": "bob"}, [2]),
        ({"status": "4xx"}, [3]),
        ({"status": "502"}, [5]),
        ({"min_cost_usd": "0.005"}, [5]),
        ({"min_latency": "10"}, [5]),
        ({"verdict": "shadow"}, [4]),
        ({"rule": "chant"}, [6]),
        ({"after": "4"}, [6, 5]),
        ({"since": "2027-01-15T08:00:04Z"}, [6, 5]),
        ({"until": "2027-01-15T08:00:01Z"}, [1]),
    ],
    ids=str,
)
async def test_calls_are_filtered(filled, wanted, ids):
    found = await told(filled, "GET", PATH, params=wanted)
    assert [one["id"] for one in found["calls"]] == ids


async def test_pages_follow_each_other(filled):
    first = await told(filled, "GET", PATH, params={"limit": 4})
    second = await told(filled, "GET", PATH, params={"limit": 4, "cursor": first["next"]})
    assert [one["id"] for one in first["calls"] + second["calls"]] == [6, 5, 4, 3, 2, 1]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("status", "many"),
        ("status", "9xx"),
        ("verdict", "maybe"),
        ("min_cost_usd", "-1"),
        ("after", "-1"),
        ("cursor", "nonsense"),
        ("since", "yesterday"),
        ("colour", "red"),
    ],
)
async def test_a_wrong_parameter_is_named(filled, parameter, value):
    async with filled.get(PATH, params={parameter: value}) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["problems"][0]["place"] == parameter


@pytest.mark.parametrize("number", ["7", "0", "x", "1e3", "9" * 30])
async def test_a_call_that_is_not_there_is_not_found(filled, number):
    async with filled.get(f"{PATH}/{number}") as answer:
        assert answer.status == 404


async def test_calls_are_summed_up_over_time_by_their_weight(running):
    here, operator = running
    rows = [logged(0), logged(70, weight=50), logged(75, caller="bob")]
    await asyncio.to_thread(here.app.recorder.history.put, calls=rows)
    span = {"since": "2027-01-15T08:00:00Z", "until": "2027-01-15T08:03:00Z", "step": 60}
    found = await told(operator, "GET", f"{PATH}/series", params=span | {"caller": "ann"})
    assert NOON % 60 == 0
    assert [step["calls"] for step in found["series"]] == [1, 50, 0]
    assert found["series"][1]["cost_usd"] == pytest.approx(50 * 2e-6)


async def test_a_log_that_is_off_says_so(tmp_path):
    async with operating(tmp_path, "[call_log]\nenabled = false\n") as (here, operator):
        await here.ask(headers=JSON, body=chat())
        spent = "/api/v1/spending"

        async def is_counted():
            return (await told(operator, "GET", spent))["totals"]["calls"] == 1

        await until(is_counted)
        found = await told(operator, "GET", PATH)
    assert found == {"calls": [], "next": None, "is_logging": False}


# What other answers say of one caller or session


async def test_figures_of_one_caller_alone(running):
    here, operator = running
    await loop(here, times=2, text="One?")

    async def calls_of(path, **query):
        return (await told(operator, "GET", path, params=query))["totals"]["calls"]

    async def are_counted():
        return await calls_of("/api/v1/stats") == 2

    await until(are_counted)
    for path in ("/api/v1/stats", "/api/v1/spending"):
        assert await calls_of(path, caller="addr:127.0.0.1") == 2
        assert await calls_of(path, caller="addr:127.0.0.1", model="other") == 0
        assert await calls_of(path, caller="key:other") == 0


async def test_one_session_alone(running):
    here, operator = running
    for session in ("run-1", "run-2"):
        await here.ask(headers=JSON | {"X-Looptrap-Session": session}, body=chat())
    query = {"by": "session", "caller": "addr:127.0.0.1"}
    names = []

    async def are_there():
        found = await told(operator, "GET", "/api/v1/spending", params=query)
        names[:] = sorted(row["name"] for row in found["rows"])
        return len(names) == 2

    await until(are_there)
    query["session"] = "run-2"
    (row,) = (await told(operator, "GET", "/api/v1/spending", params=query))["rows"]
    assert (row["name"], row["calls"]) == ("run-2", 1)


@pytest.mark.parametrize(
    "query", [{"session": "a"}, {"by": "caller", "session": "a"}, {"by": "session", "model": "m"}]
)
async def test_filters_that_do_not_go_together_are_a_mistake(running, query):
    async with running[1].get("/api/v1/spending", params=query) as answer:
        assert answer.status == 400


async def test_budgets_of_one_caller_or_session_alone(tmp_path):
    toml = '[[budgets]]\nby = ["session"]\nlimit_usd = 5\nperiod = "1d"\n'
    async with operating(tmp_path, toml) as (here, operator):
        for session in ("run-1", "run-2"):
            await here.ask(headers=JSON | {"X-Looptrap-Session": session}, body=chat())

        async def accounts(**query):
            found = await told(operator, "GET", "/api/v1/budgets", params=query)
            return sorted(one["by"]["session"] for one in found["budgets"][0]["accounts"])

        assert await accounts(caller="addr:127.0.0.1") == ["run-1", "run-2"]
        assert await accounts(caller="addr:127.0.0.1", session="run-2") == ["run-2"]
        assert await accounts(caller="key:other") == []
