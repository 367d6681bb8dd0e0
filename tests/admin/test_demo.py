"""The demo as an operator plays it: an incident to look at, and nothing that is counted as real."""

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import until

PATH = "/api/v1/demo"
CHANNEL = """
[[channels]]
name = "on-call"
kind = "webhook"
url = "{url}/hook"
allow_private = true
allow_http = true
"""


async def incidents(operator, number=1):
    """Wait until there are so many incidents; return them."""
    found = []

    async def are_there():
        page = await told(operator, "GET", "/api/v1/incidents", params={"state": "all"})
        found[:] = page["incidents"]
        return len(found) == number and all(
            one["refused"] or one["mode"] == "shadow" for one in found
        )

    await until(are_there)
    return found


async def test_it_is_caught_by_the_rules_in_effect(tmp_path):
    async with operating(tmp_path) as (_, operator):
        played = await told(operator, "POST", PATH, json={})
        assert (played["refused"], played["calls"]) == (6, 13), "seven calls passed"
        [one] = await incidents(operator)
        assert (one["caller"], one["session"], one["is_demo"]) == ("demo", played["session"], True)
        assert (one["rule"], one["tool"], one["action"]) == (
            "identical-conversation",
            "read_log",
            "block",
        )
        assert one["saved_usd"] > 0 < one["spent_usd"], "at list prices"
        shown = await told(operator, "GET", f"/api/v1/incidents/{one['id']}")
        assert len(shown["strip"]) >= 3


async def test_it_is_counted_nowhere_and_reaches_nobody(tmp_path):
    async with operating(tmp_path, CHANNEL) as (here, operator):
        await told(operator, "POST", PATH, json={})
        await incidents(operator)
        stats = await told(operator, "GET", "/api/v1/stats")
        figures = ("calls", "cost_usd", "saved_usd", "looped_usd")
        assert [stats["totals"][name] for name in figures] == [0, 0, 0, 0]
        assert stats["burning"]["loops"] == 0
        assert here.app.recorder.tracker.saved == 0
        assert not any(here.app.recorder.history.outbox.counts().values())
        assert here.provider.requests == []


async def test_each_one_is_an_incident_of_its_own(tmp_path):
    async with operating(tmp_path) as (_, operator):
        names = {(await told(operator, "POST", PATH, json={}))["session"] for _ in range(2)}
        assert {one["session"] for one in await incidents(operator, 2)} == names


async def test_in_shadow_mode_it_shows_what_would_have_been_refused(tmp_path):
    async with operating(tmp_path, mode="shadow") as (_, operator):
        played = await told(operator, "POST", PATH, json={})
        assert (played["calls"], played["refused"]) == (20, 0)
        assert played["acted"] > 10
        [one] = await incidents(operator)
        assert (one["mode"], one["is_contained"]) == ("shadow", False)


async def test_where_no_rule_sees_it_nothing_is_made_up(tmp_path):
    rules = """
[[policies]]
name = "mine"
[[policies.rules]]
name = "chant"
watch = "chant"
thresholds = { block = 50 }
"""
    async with operating(tmp_path, rules) as (_, operator):
        played = await told(operator, "POST", PATH, json={})
        assert (played["calls"], played["acted"]) == (20, 0)


async def test_real_calls_are_judged_as_if_it_had_not_been_played(tmp_path):
    async with operating(tmp_path) as (here, operator):
        before = here.app.tally.requests
        await told(operator, "POST", PATH, json={})
        assert here.app.tally.requests == before
        cooldowns = await told(operator, "GET", "/api/v1/cooldowns")
        assert cooldowns["cooldowns"] == []


@pytest.mark.parametrize("token", ["reader", ""], ids=["the read token", "no token"])
async def test_it_needs_a_token_that_may_write(tmp_path, token):
    async with operating(tmp_path, token="writer", read_token="reader") as (_, operator):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        status = 403 if token else 401
        await told(operator, "POST", PATH, json={}, headers=headers, status=status)
