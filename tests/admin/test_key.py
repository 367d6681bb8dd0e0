"""Gateway keys: made, replaced and revoked by operators, and shown by name only."""

import json
from datetime import UTC, datetime

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import CHAT, JSON, chat, until
from tests.store.serving import server

from looptrap.gateway import keys

PATH = "/api/v1/keys"


async def test_where_nobody_needs_a_key_there_is_none(tmp_path):
    async with operating(tmp_path) as (_, operator):
        assert await told(operator, "GET", PATH) == {"keys": [], "requires_keys": False}


async def test_keys_are_told_by_name_with_their_project(tmp_path):
    toml = "[[projects]]\nname = 'research'\nkeys = ['ann']"
    async with operating(tmp_path, toml) as (here, operator):
        texts = [here.add_key("ci", project="build"), here.add_key("ann")]
        keys.revoke(here.state, "ci", now=datetime.now(UTC))
        here.app.ring.refresh()
        found = await told(operator, "GET", PATH)
        assert found["requires_keys"] is True
        assert [(one["name"], one["project"]) for one in found["keys"]] == [
            ("ann", "research"), ("ci", "build")
        ]  # fmt: skip
        assert [one["revoked"] is not None for one in found["keys"]] == [False, True]
        for text in texts:
            _, key_id, secret = text.split("-", 2)
            assert secret not in str(found)
            assert key_id not in str(found)


@pytest.fixture(params=["file", "shared store"])
async def running(request, tmp_path):
    if request.param == "file":
        async with operating(tmp_path) as both:
            yield both
        return
    with server() as shared:
        async with operating(tmp_path, store=shared.url) as both:
            yield both


async def status(here, key, text="Hi"):
    headers = JSON | {"Authorization": "Bearer sk-own", "X-Looptrap-Key": key}
    return (await here.ask(target=CHAT, headers=headers, body=chat(text))).status


async def add(operator, name="ci", **more):
    return await told(operator, "POST", PATH, json={"name": name, **more}, status=201)


async def audit(operator):
    entries = (await told(operator, "GET", "/api/v1/audit"))["entries"]
    return [(one["what"], one["target"]) for one in entries]


async def test_a_key_is_made_shown_once_and_valid_at_once(running):
    here, operator = running
    made = await add(operator, project="build")
    assert (made["name"], made["project"], made["revoked"]) == ("ci", "build", None)
    assert await status(here, made["key"]) == 200
    assert await status(here, "lt-00000000-" + "a" * 43) == 401
    found = await told(operator, "GET", PATH)
    assert found["requires_keys"] is True
    entries = await told(operator, "GET", "/api/v1/audit")
    for text in (json.dumps(found), json.dumps(entries)):
        assert made["key"].split("-", 2)[2] not in text
    assert await audit(operator) == [("key.add", "ci")]


async def test_a_revoked_key_is_refused_at_once(running):
    here, operator = running
    made = await add(operator)
    gone = await told(operator, "DELETE", f"{PATH}/ci")
    assert gone["revoked"] is not None
    assert await status(here, made["key"]) == 401
    await told(operator, "DELETE", f"{PATH}/ci", status=404)
    assert (await add(operator))["key"] != made["key"]


@pytest.mark.parametrize(("grace", "is_valid"), [(0, False), (3_600, True)])
async def test_a_key_that_is_replaced_stays_valid_for_the_grace_only(running, grace, is_valid):
    here, operator = running
    before = await add(operator, project="build")
    path = f"{PATH}/ci/rotate"
    after = await told(operator, "POST", path, json={"grace_seconds": grace})
    assert (after["name"], after["project"]) == ("ci", "build")
    assert await status(here, after["key"]) == 200
    assert await status(here, before["key"]) == (200 if is_valid else 401)
    await told(operator, "DELETE", f"{PATH}/ci")
    assert [await status(here, one["key"]) for one in (before, after)] == [401, 401]
    assert [what for what, _ in await audit(operator)] == ["key.revoke", "key.rotate", "key.add"]


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        pytest.param({"name": "ci"}, "already: revoke it first, or rotate it", id="taken"),
        pytest.param({"name": "a b"}, "name: is the text", id="bad name"),
        pytest.param({"name": "x", "project": "a b"}, "project: is the text", id="bad project"),
        pytest.param({}, "has no name", id="no name"),
        pytest.param({"name": "x", "role": "admin"}, "role: is not a setting", id="a field more"),
    ],
)
async def test_a_mistake_makes_no_key(running, sent, says):
    _, operator = running
    await add(operator)
    error = (await told(operator, "POST", PATH, json=sent, status=400))["error"]
    assert says in error["message"]
    assert len((await told(operator, "GET", PATH))["keys"]) == 1


async def test_a_key_that_is_pasted_as_a_name_is_not_repeated(running):
    _, operator = running
    pasted = "lt-0123abcd-" + "s3cr3t" * 7
    answer = await told(operator, "POST", PATH, json={"name": pasted}, status=400)
    assert "begins with lt-" in answer["error"]["message"]
    assert "s3cr3t" not in json.dumps(answer)


async def test_the_read_token_makes_no_key(tmp_path):
    async with operating(tmp_path, token="a" * 16, read_token="b" * 16) as (here, operator):
        reader = {"Authorization": f"Bearer {'b' * 16}"}
        for method, path, sent in (
            ("POST", PATH, {"json": {"name": "ci"}}),
            ("POST", f"{PATH}/ci/rotate", {"json": {}}),
            ("DELETE", f"{PATH}/ci", {}),
        ):
            refused = await told(operator, method, path, headers=reader, status=403, **sent)
            assert refused["error"]["code"] == "read_only"
        assert here.app.ring.keys == []


async def test_where_keys_cannot_be_kept_none_is_made(tmp_path):
    async with operating(tmp_path) as (here, operator):
        here.state.path.write_text("precious")
        refused = await told(operator, "POST", PATH, json={"name": "ci"}, status=503)
        assert refused["error"]["code"] == "state_unavailable"
        assert here.state.path.read_text() == "precious"
    with server() as valkey:
        async with operating(tmp_path / "..", store=valkey.url) as (_, operator):
            valkey.kill()
            refused = await told(operator, "POST", PATH, json={"name": "ci"}, status=503)
            assert refused["error"]["code"] == "store_unavailable"


async def test_a_key_of_the_own_file_is_revoked_there_beside_a_shared_store(tmp_path):
    with server() as valkey:
        async with operating(tmp_path, store=valkey.url) as (here, operator):
            text = here.add_key("old")
            made = await add(operator, "new")
            assert [await status(here, one) for one in (text, made["key"])] == [200, 200]
            await told(operator, "DELETE", f"{PATH}/old")
            assert [await status(here, one) for one in (text, made["key"])] == [401, 200]


async def test_a_key_made_on_one_instance_is_valid_on_all(tmp_path):
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    with server() as valkey:
        async with (
            operating(folders[0], store=valkey.url) as (_, operator),
            operating(folders[1], store=valkey.url) as (other, elsewhere),
        ):
            made = await add(operator)

            async def is_known():
                return (await told(elsewhere, "GET", PATH))["keys"]

            await until(is_known)
            assert await status(other, made["key"]) == 200
            await told(elsewhere, "DELETE", f"{PATH}/ci")
            assert await status(other, made["key"]) == 401
