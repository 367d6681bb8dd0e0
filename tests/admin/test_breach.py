"""Breaches of budgets: who was refused, how often, since when, and how to raise the limit."""

import tomllib
from datetime import UTC, datetime

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat, until
from tests.gateway.test_usage import PRICES
from tests.store.serving import server

from looptrap.config import load
from looptrap.testing import Reply, Tokens

PATH = "/api/v1/breaches"

TOML = (
    PRICES
    + """
[[budgets]]
name = "runs"
by = ["session"]
limit_usd = 0.3
period = "1d"
output_tokens = 100

[[budgets]]
name = "watched"
by = ["caller"]
limit_tokens = 300
mode = "shadow"
"""
)


@pytest.fixture
async def running(tmp_path):
    script = [Reply.text(tokens=Tokens(1_000, 500))] * 20
    async with operating(tmp_path, TOML, script=script) as both:
        yield both


async def ask(here, session, text="Hi"):
    headers = {**JSON, "X-Looptrap-Session": session}
    return (await here.ask(headers=headers, body=chat(text))).status


async def breaches(operator, number, **wanted):
    """Wait until there are so many; return them."""
    found = []

    async def are_there():
        found[:] = (await told(operator, "GET", PATH, params=wanted))["breaches"]
        return len(found) == number

    await until(are_there)
    return found


async def exceed(here, session, refused):
    statuses = [await ask(here, session, f"{session} {number}") for number in range(1 + refused)]
    assert statuses == [200, *[402] * refused]


async def test_a_breach_says_who_was_refused_how_often_and_what_it_would_have_cost(running):
    here, operator = running
    assert await told(operator, "GET", PATH) == {"breaches": [], "next": None}
    await exceed(here, "run-1", 3)
    await until(
        lambda: any(b.refused == 3 for b in here.app.recorder.history.breaches.breaches()[0])
    )
    [one] = await breaches(operator, 1, budget="runs")
    assert one["by"] == {"caller": "addr:127.0.0.1", "session": "run-1"}
    assert (one["refused"], one["unit"], one["limit"]) == (3, "usd", 0.3)
    assert one["used"] > 0.3
    assert 0 < one["estimated_usd"] < 0.3
    assert (one["state"], one["mode"]) == ("open", "enforce")
    midnight = datetime.fromisoformat(one["resets"])
    assert midnight.hour == midnight.minute == 0
    assert one["opened"] <= one["last"]
    assert datetime.fromisoformat(one["opened"]) <= datetime.now(UTC)


async def test_a_budget_in_shadow_mode_counts_what_it_would_have_refused(running):
    here, operator = running
    await exceed(here, "run-1", 1)
    [one] = await breaches(operator, 1, budget="watched")
    assert (one["mode"], one["unit"], one["resets"]) == ("shadow", "tokens", None)


async def test_a_call_that_was_refused_for_a_loop_does_not_count(running):
    here, _ = running
    await exceed(here, "run-1", 1)
    statuses = [await ask(here, "run-1", "the same") for _ in range(9)]
    by_budget = 1 + statuses.count(402)
    assert 429 in statuses
    stored = here.app.recorder.history.breaches.breaches
    await until(lambda: any(one.refused == by_budget for one in stored(budget="runs").items))
    await ask(here, "run-1", "another")
    await until(lambda: any(one.refused == by_budget + 1 for one in stored(budget="runs").items))


async def test_one_is_shown_with_the_settings_that_raise_it(running, tmp_path):
    here, operator = running
    await exceed(here, "run-1", 1)
    [one] = await breaches(operator, 1, budget="runs")
    shown = await told(operator, "GET", f"{PATH}/{one['id']}")
    assert {name: shown[name] for name in one} == one
    assert shown["words"].startswith("runs: a session may cost $0.30 a day")
    [budget] = tomllib.loads(shown["toml"])["budgets"]
    assert (budget["name"], budget["limit_usd"], shown["raised_limit"]) == ("runs", 0.6, 0.6)
    file = tmp_path / "raised.toml"
    file.write_text(shown["toml"])
    assert load(file, env={}, flags={}).budgets[0].limit_usd == 0.6
    error = (await told(operator, "GET", f"{PATH}/bud_none", status=404))["error"]
    assert error["code"] == "not_found"


async def test_breaches_are_paged_the_latest_first(running):
    here, operator = running
    for number in range(4):
        await exceed(here, f"run-{number}", 1)
    whole = await breaches(operator, 4, budget="runs")
    assert [one["by"]["session"] for one in whole] == ["run-3", "run-2", "run-1", "run-0"]
    asked = {"budget": "runs", "limit": 3}
    first = await told(operator, "GET", PATH, params=asked)
    rest = await told(operator, "GET", PATH, params={**asked, "cursor": first["next"]})
    assert first["breaches"] + rest["breaches"] == whole
    for cursor in ("x", "x~y", ""):
        await told(operator, "GET", PATH, params={"cursor": cursor}, status=400)


CHANNEL = """
[[channels]]
name = "ops"
url = "{url}/hook"
allow_private = true
allow_http = true
"""


async def test_the_alert_names_the_breach(tmp_path):
    def answer(_received):
        return Reply.text(tokens=Tokens(1_000, 500))

    async with operating(tmp_path, TOML + CHANNEL, script=answer) as (here, operator):
        await exceed(here, "run-1", 1)
        [one] = await breaches(operator, 1, budget="runs")
        named = f'"breach_id":"{one["id"]}"'.encode()
        await until(lambda: any(named in received.body for received in here.provider.requests))


async def test_instances_with_one_history_add_up(tmp_path):
    script = [Reply.text(tokens=Tokens(1_000, 500))] * 20
    with server() as shared:
        options = {"script": script, "store": shared.url, "history": str(tmp_path / "both.db")}
        one, two = tmp_path / "one", tmp_path / "two"
        one.mkdir()
        two.mkdir()
        async with (
            operating(one, TOML, **options) as (here, operator),
            operating(two, TOML, **options) as (there, _),
        ):
            await exceed(here, "run-1", 2)
            assert await ask(there, "run-1", "another") == 402

            async def is_added():
                found = (await told(operator, "GET", PATH, params={"budget": "runs"}))["breaches"]
                return [one["refused"] for one in found] == [3]

            await until(is_added)
