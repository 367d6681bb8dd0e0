"""Tools for operators: what the file says, and what is set on all instances while they run."""

import tomllib

import pytest
from tests.admin.looping import reading
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, until
from tests.store.serving import server

PATH = "/api/v1/tools"
FILE = """
[tools.poll_job]
thresholds = { warn = 20, block = 60 }
"""
OF_FILE = {"thresholds": {"warn": 20, "block": 60}, "exempt": False}


@pytest.fixture
async def operator(tmp_path):
    async with operating(tmp_path, FILE) as (_, operator):
        yield operator


async def put(operator, settings, name="poll_job", **more):
    return await told(operator, "PUT", f"{PATH}/{name}", json=settings, **more)


async def test_what_is_put_stands_in_place_of_the_file_until_it_is_taken_back(operator):
    nothing = {
        "name": "poll_job", "version": 0, "file": OF_FILE, "run_time": None, "effective": OF_FILE,
        "toml": None,
    }  # fmt: skip
    assert await told(operator, "GET", PATH) == {"tools": [nothing]}
    made = await put(operator, {"exempt": True})
    assert made["version"] > 0
    assert (made["file"], made["run_time"]) == (OF_FILE, {"exempt": True})
    assert made["effective"] == {"exempt": True}
    assert tomllib.loads(made["toml"]) == {"tools": {"poll_job": {"exempt": True}}}
    assert await told(operator, "GET", f"{PATH}/poll_job") == made
    assert await told(operator, "DELETE", f"{PATH}/poll_job") == nothing


@pytest.mark.parametrize("name", ["read_file", "mcp%2Fsearch", "a%20b", "%C3%A9t%C3%A9"])
async def test_a_tool_that_no_file_has_begins_and_ends(operator, name):
    made = await put(operator, {"thresholds": {"warn": 9}}, name)
    assert (made["file"], made["effective"]["thresholds"]) == (None, {"warn": 9})
    gone = await told(operator, "DELETE", f"{PATH}/{name}")
    assert (gone["effective"], gone["version"]) == (None, 0)
    await told(operator, "GET", f"{PATH}/{name}", status=404)


async def test_a_stale_version_is_refused_with_what_is_there_now(operator):
    first = await put(operator, {"exempt": True, "version": 0})
    error = (await put(operator, {"thresholds": {"warn": 9}, "version": 0}, status=409))["error"]
    assert (error["code"], error["tool"]) == ("stale_version", first)


@pytest.mark.parametrize(
    ("name", "sent", "says"),
    [
        ("poll_job", {"exempt": True, "thresholds": {"warn": 3}}, "needs one or the other"),
        ("poll_job", {"thresholds": {"warn": 1}}, "must be 2 or more"),
        ("poll_job", {"thresholds": {"warn": 9, "block": 3}}, "needs a higher threshold"),
        ("poll_job", {"thresholds": {"explode": 9}}, "explode"),
        ("poll_job", {"colour": "red"}, "is not a setting"),
        ("x" * 201, {"exempt": True}, "the name of a tool"),
        ("poll_job", ["exempt"], "Send settings such as"),
    ],
    ids=["both", "too low", "falling", "no action", "unknown", "long name", "a list"],
)
async def test_a_mistake_changes_nothing(operator, name, sent, says):
    error = (await put(operator, sent, name, status=400))["error"]
    assert says in error["message"]
    (tool,) = (await told(operator, "GET", PATH))["tools"]
    assert (tool["version"], tool["effective"]) == (0, OF_FILE)


@pytest.mark.parametrize("setting", [{"exempt": True}, {"thresholds": {"block": 9}}], ids=str)
async def test_it_changes_what_is_refused(tmp_path, setting):
    async with operating(tmp_path) as (here, operator):
        assert (await here.ask(headers=JSON, body=reading(6, task="One."))).status == 429
        await put(operator, setting, "read_file")
        assert (await here.ask(headers=JSON, body=reading(6, task="Two."))).status == 200
        await told(operator, "DELETE", f"{PATH}/read_file")
        assert (await here.ask(headers=JSON, body=reading(6, task="Three."))).status == 429


async def test_it_holds_on_all_instances_within_a_second(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with server() as valkey:
        async with (
            operating(folders[0], store=valkey.url) as (_, operator),
            operating(folders[1], store=valkey.url) as (there, _),
        ):
            tasks = iter(f"Task {number}." for number in range(10_000))

            async def status():
                body = reading(6, task=next(tasks))
                return (await there.ask(headers=JSON, body=body)).status

            assert await status() == 429
            await put(operator, {"exempt": True}, "read_file")
            await until(lambda: "read_file" in there.app.gateway.runtime.config.tools)
            assert await status() == 200
            await told(operator, "DELETE", f"{PATH}/read_file")
            await until(lambda: "read_file" not in there.app.gateway.runtime.config.tools)
            assert await status() == 429


async def test_while_the_store_is_away_nothing_is_changed(tmp_path):
    with server() as valkey:
        async with operating(tmp_path, FILE, store=valkey.url) as (_, operator):
            valkey.kill()
            refused = await put(operator, {"exempt": True}, status=503)
            assert refused["error"]["code"] == "store_unavailable"
            entries = (await told(operator, "GET", "/api/v1/audit"))["entries"]
            assert entries == []
