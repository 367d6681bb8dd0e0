"""The configuration as operators see it: every value, its origin, and no secret."""

import pytest
from tests.admin.operating import operating, told

PATH = "/api/v1/config"

TOML = """
block_status = 422

[gateway]
admin_token_env = "ADMIN_TOKEN"

[[projects]]
name = "research"
threshold = 12

[[channels]]
name = "chat"
kind = "slack"
url = "https://hooks.slack.example/services/T000/B000/s3cret"

[[providers]]
name = "mine"
base_url = "https://models.example/v1"
api_key_env = "MY_KEY"
"""


@pytest.fixture
async def operator(tmp_path):
    env = {"ADMIN_TOKEN": "adm1n", "MY_KEY": "sk-s3cret"}
    async with operating(tmp_path, TOML, env=env) as (_, operator):
        yield operator


async def values_of(operator):
    found = await told(operator, "GET", PATH)
    return {one["place"]: (one["value"], one["origin"]) for one in found["values"]}


async def test_every_value_says_where_it_came_from(operator):
    found = await values_of(operator)
    assert found["block_status"] == (422, "looptrap.toml")
    assert found["gateway.listen"] == ("127.0.0.1:0", "--listen")
    assert found["capture"] == ("off", "default")
    assert found["policies[0].name"][1] == "preset default"
    assert found["projects[0].threshold"] == (12, "looptrap.toml")


async def test_what_is_set_at_run_time_says_so(operator):
    sent = {"threshold": 20}
    await told(operator, "PUT", "/api/v1/projects/research", json=sent)
    await told(operator, "PUT", "/api/v1/projects/other", json={"detection": "off"})
    sent = {"match": {"caller": "key:ci"}}
    await told(operator, "POST", "/api/v1/kill-switches", json=sent, status=201)
    sent = {"thresholds": {"warn": 9}}
    await told(operator, "PUT", "/api/v1/tools/poll.job", json=sent)
    found = await values_of(operator)
    assert found['tools."poll.job".thresholds'] == ({"warn": 9}, "set at run time")
    assert found["projects[0].threshold"] == (20, "set at run time")
    assert found["projects[0].name"] == ("research", "looptrap.toml")
    assert found["projects[1].detection"] == ("off", "set at run time")
    assert found["kill_switches[0].match"] == ({"caller": "key:ci"}, "set at run time")


async def test_no_secret_is_told(operator):
    text = str(await told(operator, "GET", PATH))
    assert "s3cret" not in text
    assert "adm1n" not in text
    assert "hooks.slack.example" in text
    assert "MY_KEY" in text


async def test_a_password_in_the_address_of_the_store_is_not_told(tmp_path):
    store = "redis://user:p4ss@127.0.0.1:1/0"
    async with operating(tmp_path, store=store) as (_, operator):
        for path in (PATH, "/api/v1/status"):
            text = str(await told(operator, "GET", path))
            assert "p4ss" not in text
            assert "redis://user:***@127.0.0.1:1/0" in text


async def test_it_is_told_in_sentences(operator):
    found = (await told(operator, "GET", PATH))["sentences"]
    assert any("identical-conversation" in line for line in found["policies"])
    assert found["projects"] == ["research: detection is on, with its own threshold 12"]
    assert found["channels"][0].startswith("chat (slack) gets")
    assert "A loop is refused with HTTP status 422." in found["otherwise"]


async def test_policies_are_told_with_their_rules(operator):
    found = await told(operator, "GET", "/api/v1/policies")
    assert found["preset"] == "default"
    rules = {rule["name"]: rule for one in found["policies"] for rule in one["rules"]}
    counted = rules["identical-conversation"]
    assert (counted["watch"], counted["window"], counted["rounds"]) == ("conversation", 15, None)
    assert counted["thresholds"]["block"] == 6
    assert "is blocked" in counted["words"]
    read = next(rule for rule in rules.values() if rule["watch"] == "repeat")
    assert read["window"] is None
    assert read["by"] == []
    assert found["policies"][0]["select"].startswith("every ")
