"""Rules for operators: of the preset or the file, changed one by one while the gateway runs."""

import tomllib

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import CHAT, JSON, chat, until
from tests.store.serving import server

from looptrap.config import load

PATH = "/api/v1/rules"
NAME = "identical-conversation"
LADDER = {"warn": 3, "block": 4}


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as both:
        yield both


async def put(operator, settings, name=NAME, **more):
    return await told(operator, "PUT", f"{PATH}/{name}", json=settings, **more)


async def rule(operator, name=NAME):
    [policy] = (await told(operator, "GET", "/api/v1/policies"))["policies"]
    return next(one for one in policy["rules"] if one["name"] == name)


async def statuses(here, text, count):
    body = chat(text)
    return [(await here.ask(target=CHAT, headers=JSON, body=body)).status for _ in range(count)]


async def test_the_default_rules_are_listed(running):
    _, operator = running
    found = (await told(operator, "GET", PATH))["rules"]
    names = [one["name"] for one in found]
    assert {NAME, "no-progress", "same-error"} <= set(names)
    assert all(one["file"] == one["effective"] for one in found)
    assert all(one["run_time"] is one["toml"] is None for one in found)


async def test_other_thresholds_hold_until_they_are_taken_back(running):
    here, operator = running
    made = await put(operator, {"thresholds": LADDER})
    assert made["effective"] == made["file"] | {"thresholds": LADDER}
    assert (await rule(operator))["thresholds"] == LADDER
    assert await statuses(here, "Again?", 4) == [200, 200, 200, 429]
    gone = await told(operator, "DELETE", f"{PATH}/{NAME}")
    assert gone["effective"] == gone["file"]
    assert await statuses(here, "And again?", 4) == [200] * 4


async def test_a_rule_can_be_switched_off(running):
    here, operator = running
    await put(operator, {"enabled": False})
    assert (await rule(operator))["enabled"] is False
    assert await statuses(here, "Again?", 9) == [200] * 9


async def test_the_snippet_makes_a_change_lasting(tmp_path):
    toml = '[rules."identical-conversation"]\nthreshold = 5\ncooldown = 20\n'
    async with operating(tmp_path, toml) as (_, operator):
        made = await put(operator, {"thresholds": LADDER})
        assert tomllib.loads(made["toml"]) == {
            "rules": {NAME: {"cooldown": 20, "thresholds": LADDER}}
        }
        (tmp_path / "lasting.toml").write_text(made["toml"])
        config = load(tmp_path / "lasting.toml", env={})
        [lasting] = [one for one in config.policies[0].rules if one.name == NAME]
        assert lasting.cooldown == made["effective"]["cooldown"] == 20
        assert {action.value: at for action, at in lasting.ladder.steps} == LADDER


async def test_every_value_says_that_it_was_set_at_run_time(running):
    _, operator = running
    await put(operator, {"thresholds": LADDER})
    values = (await told(operator, "GET", "/api/v1/config"))["values"]
    of_run_time = {one["place"]: one["value"] for one in values if "run time" in one["origin"]}
    assert list(of_run_time.values()) == list(LADDER.values()) or LADDER in of_run_time.values()


async def test_what_the_file_forbids_stays_forbidden(tmp_path):
    async with operating(tmp_path, 'on_loop = "notify"') as (here, operator):
        await put(operator, {"thresholds": LADDER})
        assert (await rule(operator))["thresholds"] == {"warn": 3}
        assert await statuses(here, "Again?", 6) == [200] * 6


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        pytest.param("identical", {"enabled": False}, "there is no such rule", id="unknown"),
        pytest.param(NAME, {"thresholds": {"block": 1}}, "thresholds.block: is 1", id="too low"),
        pytest.param(NAME, {"thresholds": {"ban": 3}}, "thresholds", id="no such action"),
        pytest.param(NAME, {"watch": "tool"}, "watch: is not a setting", id="another watch"),
        pytest.param("no-progress", {"window": 60}, "window", id="not of this rule"),
        pytest.param(NAME, {}, "is empty", id="nothing"),
        pytest.param(NAME, ["enabled"], "Send settings such as", id="a list"),
    ],
)
async def test_a_mistake_changes_nothing(running, name, settings, says):
    _, operator = running
    error = (await put(operator, settings, name, status=400))["error"]
    assert says in error["message"]
    assert all(one["version"] == 0 for one in (await told(operator, "GET", PATH))["rules"])


async def test_a_change_that_does_not_fit_a_project_of_run_time_is_refused(tmp_path):
    toml = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  window_kind = "streak"
  by = ["caller"]
  threshold = 4
"""
    async with operating(tmp_path, toml) as (_, operator):
        await told(operator, "PUT", "/api/v1/projects/lab", json={"threshold": 9_000})
        error = (await put(operator, {"by": ["session"]}, "same", status=400))["error"]
        assert "project lab: policy p: rule 'same': threshold is 9000" in error["message"]
        await put(operator, {"by": ["model"]}, "same")


async def test_a_change_on_one_instance_holds_on_all(tmp_path):
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    with server() as valkey:
        async with (
            operating(folders[0], store=valkey.url) as (_, operator),
            operating(folders[1], store=valkey.url) as (other, elsewhere),
        ):
            await put(operator, {"thresholds": LADDER})

            async def has_changed():
                return (await rule(elsewhere))["thresholds"] == LADDER

            await until(has_changed)
            assert await statuses(other, "Again?", 4) == [200, 200, 200, 429]
