"""Gateway keys: their names, and nothing of the keys themselves."""

from datetime import UTC, datetime

from tests.admin.operating import operating, told

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
