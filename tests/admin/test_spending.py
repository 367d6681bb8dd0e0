"""Spending for operators: in all, over time, and by who or what made the calls."""

import asyncio
import time
from datetime import UTC, datetime

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat, until
from tests.incident.history.test_usage import DOLLAR, FIRST, spent

PATH = "/api/v1/spending"
NOW = int(time.time())
AGO = NOW - NOW % 3600 - 3600 - FIRST
"""Seconds after FIRST: the beginning of the last hour that is over."""

CALLS = [
    (AGO, "key:ann", "research", "gpt", DOLLAR, "run-1"),
    (AGO + 60, "key:ann", "research", "gpt", 2 * DOLLAR, "run-1"),
    (AGO + 120, "key:bob", "", "claude", None, "run-2"),
]


@pytest.fixture
async def operator(tmp_path):
    async with operating(tmp_path) as (here, operator):
        await asyncio.to_thread(here.app.recorder.history.put, spending=spent(*CALLS))
        yield operator


def moment(seconds):
    return datetime.fromtimestamp(FIRST + seconds, UTC).isoformat()


async def test_without_a_question_all_of_the_last_day_is_told(operator):
    found = await told(operator, "GET", PATH)
    assert found["totals"] == {
        "calls": 3, "allowed": 3, "refused": 0, "warned": 0, "shadowed": 0, "input_tokens": 30,
        "output_tokens": 15, "unpriced": 1, "estimated": 0, "cost_usd": 3.0, "saved_usd": 0.0,
        "looped_usd": 0.0,
    }  # fmt: skip
    since, until = (datetime.fromisoformat(found[name]) for name in ("since", "until"))
    assert (until - since).total_seconds() == 86_400
    assert set(found) == {"since", "until", "totals"}


@pytest.mark.parametrize(
    ("by", "shares"),
    [
        ("caller", [("key:ann", 2, 3.0), ("key:bob", 1, None)]),
        ("project", [("research", 2, 3.0), ("", 1, None)]),
        ("model", [("gpt", 2, 3.0), ("claude", 1, None)]),
        ("provider", [("openai", 3, 3.0)]),
    ],
)
async def test_shares_are_told_and_what_has_no_price_has_none(operator, by, shares):
    found = await told(operator, "GET", PATH, params={"by": by})
    assert [(one["name"], one["calls"], one["cost_usd"]) for one in found["rows"]] == shares
    one = await told(operator, "GET", PATH, params={"by": by, "limit": "1"})
    assert len(one["rows"]) == 1


async def test_sessions_are_told_with_their_burn_rate(operator):
    found = await told(operator, "GET", PATH, params={"by": "session"})
    first, second = found["rows"]
    assert {name: first[name] for name in ("name", "caller", "project", "model")} == {
        "name": "run-1", "caller": "key:ann", "project": "research", "model": "gpt"
    }  # fmt: skip
    assert (first["calls"], first["tokens"], first["cost_usd"]) == (2, 30, 3.0)
    assert (first["burn"], second["cost_usd"]) == (0, None)
    assert datetime.fromisoformat(first["last"]).timestamp() == FIRST + AGO + 60


async def test_over_time_it_is_told_step_by_step(operator):
    params = {"since": moment(AGO), "until": moment(AGO + 3600), "step": "60"}
    found = await told(operator, "GET", PATH, params=params)
    assert [one["calls"] for one in found["series"]] == [1, 1, 1]
    assert datetime.fromisoformat(found["series"][0]["time"]).timestamp() == FIRST + AGO
    found = await told(operator, "GET", PATH, params={**params, "step": "3600", "by": "caller"})
    told_by = [(one["name"], one["calls"]) for one in found["series"]]
    assert told_by == [("key:ann", 2), ("key:bob", 1)]


async def test_only_what_was_within_the_time_is_told(operator):
    params = {"since": moment(AGO + 60), "until": moment(AGO + 120)}
    found = await told(operator, "GET", PATH, params=params)
    assert (found["totals"]["calls"], found["totals"]["cost_usd"]) == (1, 2.0)


@pytest.mark.parametrize(
    ("params", "place", "message"),
    [
        ({"by": "rule"}, "by", "must be"),
        ({"order": "name"}, "order", "must be"),
        ({"step": "59"}, "step", "60 or more"),
        ({"step": "90"}, "step", "whole minutes"),
        ({"step": "60", "since": "2020-01-01T00:00:00Z"}, "step", "more than 2000 steps"),
        ({"since": "yesterday"}, "since", "must be"),
        ({"limit": "501"}, "limit", "500 or less"),
        ({"cursor": "x"}, "cursor", "is not a setting"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
async def test_mistakes_are_told(operator, params, place, message):
    error = (await told(operator, "GET", PATH, params=params, status=400))["error"]
    (problem,) = error["problems"]
    assert problem["place"] == place
    assert message in problem["message"]


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("caller", "addr:127.0.0.1"),
        ("project", ""),
        ("session", "run-42"),
        ("model", "gpt-5.3"),
    ],
)
async def test_open_incidents_are_counted_by_whose_they_are(tmp_path, by, name):
    async with operating(tmp_path) as (here, operator):
        for _ in range(7):
            await here.ask(headers={**JSON, "X-Looptrap-Session": "run-42"}, body=chat())

        async def rows():
            return (await told(operator, "GET", PATH, params={"by": by}))["rows"]

        async def are_open():
            return sum(one["incidents"] for one in await rows()) == 1

        await until(are_open)
        (row,) = [one for one in await rows() if one["incidents"]]
        assert row["name"] == name
