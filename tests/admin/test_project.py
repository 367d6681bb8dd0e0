"""Projects for operators: settings on top of the file's, with versions and every mistake told."""

import tomllib

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON
from tests.store.serving import server

PATH = "/api/v1/projects"
FILE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "runs"
  watch = "session"
  threshold = 4

[[projects]]
name = "research"
keys = ["ci"]
threshold = 6
"""
RESEARCH = {"name": "research", "keys": ["ci"], "detection": "on", "threshold": 6}


@pytest.fixture
async def operator(tmp_path):
    async with operating(tmp_path, FILE) as (_, operator):
        yield operator


async def put(operator, settings, name="research", **more):
    return await told(operator, "PUT", f"{PATH}/{name}", json=settings, **more)


async def test_what_is_put_is_on_top_of_the_file_until_it_is_taken_back(operator):
    of_file = {"name": "research", "file": RESEARCH}
    nothing = of_file | {"version": 0, "run_time": None, "effective": RESEARCH, "toml": None}
    assert await told(operator, "GET", PATH) == {"projects": [nothing]}
    made = await put(operator, {"threshold": 9, "detection": "shadow"})
    given = {"threshold": 9, "detection": "shadow"}
    assert made["version"] > 0
    assert made == of_file | {
        "version": made["version"], "run_time": given, "effective": RESEARCH | given,
        "toml": made["toml"],
    }  # fmt: skip
    assert tomllib.loads(made["toml"]) == {"projects": [RESEARCH | given]}
    assert await told(operator, "GET", PATH) == {"projects": [made]}
    assert await told(operator, "GET", f"{PATH}/research") == made
    assert await told(operator, "DELETE", f"{PATH}/research") == nothing


async def test_a_project_that_no_file_has_begins_and_ends(operator):
    made = await put(operator, {"action": "warn"}, "new")
    assert made["file"] is None
    assert made["effective"] == {"name": "new", "keys": [], "detection": "on", "action": "warn"}
    gone = await told(operator, "DELETE", f"{PATH}/new")
    assert (gone["effective"], gone["version"]) == (None, 0)
    assert (await told(operator, "GET", f"{PATH}/new", status=404))["error"]["code"] == "not_found"


@pytest.mark.parametrize("way", ["If-Match", "the body"])
async def test_a_stale_version_is_refused_with_what_is_there_now(operator, way):
    async def change(threshold, version, status=200):
        if way == "If-Match":
            headers = {"If-Match": f'"{version}"'}
            return await put(operator, {"threshold": threshold}, headers=headers, status=status)
        settings = {"threshold": threshold, "version": version}
        return await put(operator, settings, status=status)

    first = await change(9, 0)
    second = await change(12, first["version"])
    error = (await change(7, first["version"], 409))["error"]
    assert (error["code"], error["project"]) == ("stale_version", second)
    stale = {"If-Match": f'"{first["version"]}"'}
    gone = await told(operator, "DELETE", f"{PATH}/research", headers=stale, status=409)
    assert gone["error"]["project"] == second


async def test_the_version_is_the_tag_of_the_answer(operator):
    async with operator.put(f"{PATH}/research", json={"threshold": 9}) as answer:
        tag, version = answer.headers["ETag"], (await answer.json())["version"]
    assert tag == f'"{version}"'
    await put(operator, {"threshold": 12}, headers={"If-Match": tag})


async def test_every_mistake_is_told_at_once(operator):
    sent = {"threshold": 1, "detection": "maybe", "keys": ["x"], "name": "y", "colour": "red"}
    error = (await put(operator, sent, status=400))["error"]
    assert sorted(one["place"] for one in error["problems"]) == [
        "colour", "detection", "keys", "name", "threshold",
    ]  # fmt: skip
    assert "can be set in the file only" in error["message"]


@pytest.mark.parametrize(
    ("name", "sent", "status", "says"),
    [
        ("research", {"json": {"threshold": 5000}}, 400, "policy p: rule 'runs': threshold is"),
        ("a%20b", {"json": {}}, 400, 'name: is the text "a b", must be a name'),
        ("research", {"json": ["threshold"]}, 400, "Send settings"),
        ("research", {"json": {"version": "1"}}, 400, "version: must be the number"),
        ("research", {"json": {"version": True}}, 400, "version: must be the number"),
        ("research", {"json": {}, "headers": {"If-Match": "*"}}, 400, "If-Match: must be one"),
        ("research", {"json": {"version": 1}, "headers": {"If-Match": '"2"'}}, 400, "If-Match"),
        ("research", {"data": b"{", "headers": JSON}, 400, "Send JSON"),
        ("research", {"data": b"{}"}, 415, "Send application/json."),
    ],
    ids=["does not fit a policy", "bad name", "a list", "a text as version", "true as version",
         "any version", "two versions", "cut off", "another type"],
)  # fmt: skip
async def test_a_mistake_changes_nothing(operator, name, sent, status, says):
    error = (await told(operator, "PUT", f"{PATH}/{name}", status=status, **sent))["error"]
    assert says in error["message"]
    [project] = (await told(operator, "GET", PATH))["projects"]
    assert (project["version"], project["effective"]) == (0, RESEARCH)


async def test_while_the_store_is_away_nothing_is_changed(tmp_path):
    with server() as valkey:
        async with operating(tmp_path, FILE, store=valkey.url) as (_, operator):
            valkey.kill()
            for method, more in (("PUT", {"json": {"threshold": 9}}), ("DELETE", {})):
                refused = await told(operator, method, f"{PATH}/research", status=503, **more)
                assert refused["error"]["code"] == "store_unavailable"
            [project] = (await told(operator, "GET", PATH))["projects"]
            assert project["version"] == 0
