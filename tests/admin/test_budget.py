"""Budgets: whose accounts were charged lately, how they stand, and how they are reset."""

import tomllib
from datetime import datetime

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat
from tests.gateway.test_usage import PRICES
from tests.store.serving import server

from looptrap.testing import Reply, Tokens

PATH = "/api/v1/budgets"

TOML = (
    PRICES
    + """
[[budgets]]
name = "runs"
by = ["session"]
limit_usd = 5
period = "1d"
output_tokens = 500

[[budgets]]
name = "everybody"
by = ["caller"]
limit_tokens = 1_000_000

[[policies]]
name = "p"
[[policies.rules]]
name = "r"
watch = "conversation"
threshold = 100
action = "block"
[[policies.rates]]
name = "slowly"
rps = 1000
"""
)


@pytest.fixture(params=["memory", "shared"])
async def running(request, tmp_path):
    script = [Reply.text(tokens=Tokens(1_000, 500))] * 20
    if request.param == "memory":
        async with operating(tmp_path, TOML, script=script) as both:
            yield both
        return
    with server() as shared:
        # Patient: a busy machine must not make it count alone.
        flags = {"store": shared.url, "store_timeout": 5}
        async with operating(tmp_path, TOML, script=script, **flags) as both:
            yield both


async def ask(here, session, text="Hi"):
    headers = {**JSON, "X-Looptrap-Session": session}
    return (await here.ask(headers=headers, body=chat(text))).status


async def budgets_of(operator):
    found = await told(operator, "GET", PATH)
    return {one["name"]: one for one in found["budgets"]}


async def test_budgets_are_told_before_anything_was_spent(running):
    _, operator = running
    found = await told(operator, "GET", PATH)
    runs = found["budgets"][0]
    words = runs.pop("words")
    assert words.startswith("runs: a session may cost $5.00 a day")
    assert runs == {
        "name": "runs", "by": ["session"], "unit": "usd", "limit": 5.0, "file_limit": 5.0,
        "version": 0, "toml": None, "period": "1d",
        "thresholds": {"warn": 80, "throttle": 95, "block": 100}, "mode": "enforce",
        "accounts": [],
    }  # fmt: skip
    assert found["budgets"][1]["unit"] == "tokens"
    (rate,) = found["rates"]
    assert (rate["name"], rate["policy"]) == ("slowly", "p")
    assert "1000 calls a second" in rate["words"]


async def test_accounts_are_told_the_most_used_first(running):
    here, operator = running
    assert [await ask(here, name) for name in ("a", "b", "b")] == [200] * 3
    found = await budgets_of(operator)
    first, second = found["runs"]["accounts"]
    assert first["by"] == {"caller": "addr:127.0.0.1", "session": "b"}
    assert (first["used"], first["percent"], first["limit"]) == (4.0, 80, 5.0)
    assert (second["by"]["session"], second["used"], second["percent"]) == ("a", 2.0, 40)
    resets = datetime.fromisoformat(first["resets"])
    assert (resets.hour, resets.minute, resets.second) == (0, 0, 0)
    (everybody,) = found["everybody"]["accounts"]
    assert (everybody["used"], everybody["resets"]) == (4_500, None)


async def test_an_account_that_refuses_is_exceeded_until_it_is_reset(running):
    here, operator = running
    assert [await ask(here, "a") for _ in range(3)] == [200, 200, 402]
    (account,) = (await budgets_of(operator))["runs"]["accounts"]
    assert account["is_exceeded"] is True
    notices = (await told(operator, "GET", "/api/v1/status"))["notices"]
    (notice,) = [one for one in notices if one["code"] == "budget_exceeded"]
    assert "runs of caller addr:127.0.0.1 and session a" in notice["message"]
    sent = {"fingerprint": account["fingerprint"]}
    assert (await told(operator, "POST", "/api/v1/release", json=sent))["released"] is True
    assert (await budgets_of(operator))["runs"]["accounts"] == []
    assert await ask(here, "a") == 200


async def test_they_are_still_told_after_something_was_set_at_run_time(running):
    here, operator = running
    await ask(here, "a")
    await told(operator, "PUT", "/api/v1/projects/x", json={"threshold": 12})
    assert len((await budgets_of(operator))["runs"]["accounts"]) == 1


async def test_asking_charges_nobody(running):
    here, operator = running
    await ask(here, "a")
    used = [(await budgets_of(operator))["runs"]["accounts"][0]["used"] for _ in range(3)]
    assert used == [2.0] * 3


async def test_what_clients_set_themselves_is_told_where_nobody_else_has(tmp_path):
    script = [Reply.text(tokens=Tokens(1_000, 500))]
    async with operating(tmp_path, PRICES, script=script) as (here, operator):
        assert await told(operator, "GET", PATH) == {"budgets": [], "rates": []}
        headers = {"X-Looptrap-Session": "a", "X-Looptrap-Session-Limit-Usd": "40"}
        await here.ask(headers=JSON | headers, body=chat("Hi", max_tokens=500))
        (own,) = (await told(operator, "GET", PATH))["budgets"]
        assert (own["name"], own["limit"]) == ("session-limit", None)
        (account,) = own["accounts"]
        assert (account["limit"], account["used"], account["percent"]) == (40.0, 2.0, 5)


async def put(operator, limits, name="runs", **more):
    return await told(operator, "PUT", f"{PATH}/{name}", json=limits, **more)


async def test_a_limit_that_is_raised_lets_refused_calls_pass_at_once(running):
    here, operator = running
    assert [await ask(here, "a") for _ in range(3)] == [200, 200, 402]
    [account] = (await budgets_of(operator))["runs"]["accounts"]
    assert account["is_exceeded"]
    made = await put(operator, {"limit_usd": 10})
    assert (made["file"]["limit_usd"], made["effective"]["limit_usd"]) == (5.0, 10.0)
    runs = (await budgets_of(operator))["runs"]
    assert (runs["limit"], runs["file_limit"]) == (10.0, 5.0)
    [account] = runs["accounts"]
    assert (account["limit"], account["percent"], account["is_exceeded"]) == (10.0, 40, False)
    assert [await ask(here, "a") for _ in range(3)] == [200, 200, 200]
    assert await ask(here, "a") == 402


async def test_a_limit_that_is_lowered_refuses_and_can_be_taken_back(running):
    here, operator = running
    assert await ask(here, "a") == 200
    made = await put(operator, {"limit_usd": 1})
    assert await ask(here, "a") == 402
    gone = await told(operator, "DELETE", f"{PATH}/runs")
    assert (gone["version"], gone["effective"]["limit_usd"], gone["toml"]) == (0, 5.0, None)
    assert await ask(here, "a") == 200
    audit = (await told(operator, "GET", "/api/v1/audit"))["entries"]
    assert [one["what"] for one in audit] == ["budget.delete", "budget.put"]
    [table] = tomllib.loads(made["toml"])["budgets"]
    assert (table["name"], table["by"], table["limit_usd"]) == ("runs", ["session"], 1)


@pytest.mark.parametrize(
    ("name", "limits", "says"),
    [
        pytest.param("run", {"limit_usd": 3}, "no such budget, did you mean runs?", id="unknown"),
        pytest.param("runs", {"limit_usd": -1}, "limit_usd: is -1", id="negative"),
        pytest.param("runs", {"limit_usd": "3"}, "limit_usd: is the text", id="a text"),
        pytest.param("runs", {"limit_usd": 1e30}, "limit_usd: is 1e+30", id="too much"),
        pytest.param("runs", {}, "is empty", id="nothing"),
        pytest.param("runs", {"mode": "shadow"}, "mode: is not a setting", id="another setting"),
        pytest.param("runs", [3], "Send settings such as", id="a list"),
    ],
)
async def test_a_mistake_changes_no_limit(running, name, limits, says):
    _, operator = running
    error = (await put(operator, limits, name, status=400))["error"]
    assert says in error["message"]
    assert (await budgets_of(operator))["runs"]["limit"] == 5.0
