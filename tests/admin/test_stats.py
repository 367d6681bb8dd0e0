"""Statistics: what was done with calls, step by step, and how savings are told."""

import asyncio
from datetime import UTC, datetime

import pytest
from tests.admin.operating import operating, told
from tests.admin.test_spending import AGO, CALLS, moment
from tests.gateway.serving import JSON, chat, until
from tests.gateway.test_usage import PRICES
from tests.incident.history.test_usage import FIRST, spent

from looptrap.testing import Reply, Tokens

PATH = "/api/v1/stats"
SPAN = {"since": moment(AGO), "until": moment(AGO + 3600)}


@pytest.fixture
async def operator(tmp_path):
    async with operating(tmp_path) as (here, operator):
        await asyncio.to_thread(here.app.recorder.history.put, spending=spent(*CALLS))
        yield operator


@pytest.mark.parametrize(
    ("step", "calls"),
    [
        ("60", [1, 1, 1] + [0] * 57),
        ("300", [3] + [0] * 11),
        ("3600", [3]),
    ],
    ids=["minutes", "five minutes", "hours"],
)
async def test_every_step_is_told_also_those_without_a_call(operator, step, calls):
    found = await told(operator, "GET", PATH, params={**SPAN, "step": step})
    assert [one["calls"] for one in found["series"]] == calls
    times = [datetime.fromisoformat(one["time"]).timestamp() for one in found["series"]]
    assert times == [FIRST + AGO + int(step) * n for n in range(len(calls))]
    assert found["totals"]["calls"] == sum(calls)
    assert found["step"] == int(step)


async def test_without_a_question_the_last_day_is_told_in_steps_of_five_minutes(operator):
    found = await told(operator, "GET", PATH)
    assert len(found["series"]) in (288, 289)
    assert found["totals"] == {
        "calls": 3, "allowed": 3, "warned": 0, "refused": 0, "shadowed": 0, "input_tokens": 30,
        "output_tokens": 15, "cost_usd": 3.0, "unpriced": 1, "estimated": 0, "saved_usd": 0.0,
        "looped_usd": 0.0,
    }  # fmt: skip
    assert "groups" not in found


async def test_the_first_step_is_told_as_a_whole(operator):
    params = {"since": moment(AGO + 90), "until": moment(AGO + 3600), "step": "3600"}
    found = await told(operator, "GET", PATH, params=params)
    assert datetime.fromisoformat(found["since"]) == datetime.fromtimestamp(FIRST + AGO, UTC)
    assert [one["calls"] for one in found["series"]] == [3]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("caller", ["key:ann", "key:bob"]),
        ("project", ["research", ""]),
        ("model", ["gpt", "claude"]),
        ("provider", ["openai"]),
    ],
)
async def test_shares_are_told_where_they_are_asked_for(operator, by, names):
    found = await told(operator, "GET", PATH, params={**SPAN, "by": by})
    assert found["by"] == by
    assert [one["name"] for one in found["groups"]] == names
    assert sum(one["totals"]["calls"] for one in found["groups"]) == 3


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"step": "61"}, "step"),
        ({"step": "60", "since": "2020-01-01T00:00:00Z"}, "step"),
        ({"since": moment(AGO + 60), "until": moment(AGO)}, "step"),
        ({"by": "session"}, "by"),
        ({"since": "today"}, "since"),
        ({"order": "cost"}, "order"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
async def test_mistakes_are_told(operator, params, place):
    error = (await told(operator, "GET", PATH, params=params, status=400))["error"]
    assert [problem["place"] for problem in error["problems"]] == [place]


async def test_a_loop_through_the_gateway_is_refused_saved_and_explained(tmp_path):
    script = [Reply.text(tokens=Tokens(1_000, 500))] * 5
    async with operating(tmp_path, PRICES, script=script) as (here, operator):
        for _ in range(8):
            await here.ask(headers=JSON, body=chat())

        async def totals():
            return (await told(operator, "GET", PATH))["totals"]

        async def is_told():
            found = await totals()
            return (found["calls"], found["saved_usd"] > 0) == (8, True)

        await until(is_told)
        found = await totals()
        assert (found["allowed"], found["refused"], found["cost_usd"]) == (5, 3, 10.0)
        how = (await told(operator, "GET", PATH))["saved_usd"]["how"]
        assert "refused" in how
        assert "price" in how


@pytest.mark.parametrize(
    ("options", "burning"),
    [
        pytest.param({"mode": "shadow"}, {"loops": 1, "usd_an_hour": 2.0 * 3 * 60}, id="shadow"),
        pytest.param({}, {"loops": 0, "usd_an_hour": 0}, id="contained"),
    ],
)
async def test_what_leaves_now_is_what_loops_cost_that_pass(tmp_path, options, burning):
    script = [Reply.text(tokens=Tokens(1_000, 500))] * 8
    async with operating(tmp_path, PRICES, script=script, **options) as (here, operator):
        for _ in range(8):
            await here.ask(headers=JSON, body=chat())

        async def is_told():
            found = await told(operator, "GET", PATH)
            return (found["burning"], found["totals"]["calls"]) == (burning, 8)

        await until(is_told)
        incidents = (await told(operator, "GET", "/api/v1/incidents"))["incidents"]
        assert [one["is_contained"] for one in incidents] == [not options]
