"""What is set on one instance holds on all: through a real Valkey, while it is away, and after."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.serving import CHAT, JSON, chat, is_degraded, request, serving, until
from tests.store.serving import free_port

from looptrap.errors import ConfigError
from looptrap.gateway.shared_settings import EntryStore, runtime_override, shared_keys
from looptrap.gateway.shared_settings.shared_keys import SharedKeyStore
from looptrap.store.redis.connection import StoreError
from looptrap.testing import Gate, Reply

SETTINGS = "lt:cfg:settings"
RED = {"match": {"header:x-team": "red"}, "reason": "leaked"}
AS_RED = JSON | {"X-Team": "red"}
RULE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 4
"""


@pytest.fixture
def instances(instances):
    """Start gateways that share a store, with one rule unless told otherwise."""
    return lambda count=2, toml=RULE, **options: instances(count, toml, **options)


async def ask(here, headers=AS_RED, text=None):
    body = chat(text or f"Question {next(NUMBERS)}")
    return (await here.ask(target=CHAT, headers=headers, body=body)).status


NUMBERS = iter(range(10**9))


def kills(here):
    return here.app.shared_settings.kill_switches


def projects(here):
    return here.app.shared_settings.projects


def ids(here):
    return [one.id for one in kills(here).in_force()]


async def is_refused(here):
    return await ask(here) == 403


async def is_let_in(here):
    return await ask(here) == 200


async def put(here, name="research", version=None, **settings):
    return await projects(here).put(here.app.config, name, settings, version)


def threshold(here, name="research"):
    found = [one for one in here.app.gateway.runtime.config.projects if one.name == name]
    return found[0].threshold if found else None


class TestKillSwitches:
    async def test_set_on_one_they_hold_there_at_once_and_on_others_within_a_second(
        self, instances
    ):
        one, other = await instances()
        assert await is_let_in(other)
        switch, is_shared = await kills(one).add(RED)
        assert is_shared
        assert await is_refused(one)
        async with asyncio.timeout(1):
            await until(lambda: ids(other) == [switch.id])
        assert await is_refused(other)
        assert await ask(other, JSON) == 200

    async def test_ended_on_one_they_are_ended_on_all(self, instances):
        one, other = await instances()
        switch, _ = await kills(one).add(RED)
        await until(lambda: is_refused(other))
        assert await kills(other).drop(switch.id) is True
        assert await is_let_in(other)
        await until(lambda: is_let_in(one))
        assert await kills(other).drop(switch.id) is None

    async def test_one_that_starts_later_knows_them_before_it_serves(self, instances):
        (one,) = await instances(1)
        await kills(one).add(RED)
        (other,) = await instances(1)
        assert await is_refused(other)

    async def test_news_that_get_lost_are_noticed(self, instances, valkey):
        (one,) = await instances(1)
        entry = {"created": "2026-11-15T12:00:00Z", "switch": RED}
        with valkey.client() as client:
            client.hset(SETTINGS, "kill:0badcafe", json.dumps(entry))
            client.hincrby(SETTINGS, "", 1)  # and nothing is published
        await until(lambda: is_refused(one))

    async def test_the_expired_go(self, instances, valkey):
        (one,) = await instances(1)
        over = datetime.now(UTC) - timedelta(seconds=1)
        entry = {"created": "2026-11-15T12:00:00Z", "switch": RED | {"expires": over.isoformat()}}
        with valkey.client() as client:
            client.hset(SETTINGS, "kill:0badcafe", json.dumps(entry))
            client.hincrby(SETTINGS, "", 1)
            await until(lambda: "0badcafe" in one.app._entries.of("kill"))
            assert ids(one) == []
            switch, _ = await kills(one).add(RED)
            assert [name for name in client.hkeys(SETTINGS) if name.startswith(b"kill:")] == [
                f"kill:{switch.id}".encode()
            ]

    async def test_one_ends_by_itself_at_its_time(self, instances, monkeypatch):
        (one,) = await instances(1)
        soon = datetime.now(UTC) + timedelta(hours=1)
        await kills(one).add(RED | {"expires": soon.isoformat()})
        assert await is_refused(one)
        monkeypatch.setattr(one.app.gateway, "clock", soon.timestamp)
        assert await is_let_in(one)

    async def test_a_call_in_flight_ends_as_it_began(self, instances):
        gate = Gate()
        (one,) = await instances(1, script=[Reply.pause(gate)])
        client = await one.connect()
        await client.send(request(headers=AS_RED, body=chat()))
        await gate.reached.wait()
        await kills(one).add(RED)
        assert await is_refused(one)
        gate.open()
        assert (await client.answer()).status == 200

    async def test_a_reload_leaves_them(self, instances):
        (one,) = await instances(1)
        await kills(one).add(RED)
        one.app.reload(one.app.config)
        assert await is_refused(one)

    async def test_no_line_of_the_log_has_their_values(self, instances, valkey, caplog):
        (one,) = await instances(1)
        await kills(one).add({"match": {"caller": "cred:5f0c2a9be4d17786"}})
        with valkey.client() as client:
            client.hset(SETTINGS, "kill:1", '{"match": {"caller": "cred:5f0c2a9be4d17786"}}')
            client.hincrby(SETTINGS, "", 1)
        await until(lambda: one.app.ignored == 1)
        assert "kill:1" in caplog.text
        assert "5f0c2a9b" not in caplog.text


class TestAStoreThatIsAway:
    async def test_at_the_start_is_followed_as_soon_as_it_is_there(self, instances, valkey):
        (one,) = await instances(1)
        switch, _ = await kills(one).add(RED)
        kept = valkey.client().hgetall(SETTINGS)
        valkey.kill()
        file = RULE + '[[kill_switches]]\nmatch = { "header:x-team" = "blue" }\n'
        (late,) = await instances(1, file)
        assert await is_let_in(late)
        assert await ask(late, JSON | {"X-Team": "blue"}) == 403
        valkey.start()
        with valkey.client() as client:
            client.hset(SETTINGS, mapping=kept)
        await until(lambda: ids(late) == [switch.id])
        assert await is_refused(late)

    async def test_meanwhile_a_switch_holds_here_and_elsewhere_afterwards(self, instances, valkey):
        one, other = await instances()
        valkey.kill()
        switch, is_shared = await kills(one).add(RED)
        assert not is_shared
        assert await is_refused(one)
        assert await is_let_in(other)
        valkey.start()
        await until(lambda: ids(other) == [switch.id])

    async def test_meanwhile_an_ended_switch_is_ended_here_and_elsewhere_afterwards(
        self, instances, valkey
    ):
        one, other = await instances()
        switch, _ = await kills(one).add(RED)
        await until(lambda: ids(other) == [switch.id])
        valkey.kill()
        assert await kills(one).drop(switch.id) is False
        assert await is_let_in(one)
        assert await is_refused(other)
        valkey.start()
        await until(lambda: ids(other) == [])
        assert ids(one) == []

    async def test_meanwhile_projects_cannot_be_changed(self, instances, valkey):
        (one,) = await instances(1)
        await put(one, threshold=9)
        valkey.kill()
        with pytest.raises(StoreError):
            await put(one, threshold=7)
        assert threshold(one) == 9

    async def test_having_lost_its_data_it_is_given_again_what_instances_know(
        self, instances, valkey
    ):
        one, other = await instances()
        switch, _ = await kills(one).add(RED)
        await put(one, threshold=9)
        await until(lambda: ids(other) == [switch.id] and threshold(other) == 9)
        valkey.kill()
        valkey.start()  # nothing was saved
        await until(lambda: not is_degraded(one) and not is_degraded(other))
        with valkey.client() as client:
            await until(lambda: client.hexists(SETTINGS, f"kill:{switch.id}"))
            await until(lambda: client.hexists(SETTINGS, "project:research"))
        assert await is_refused(one)
        assert await is_refused(other)
        (late,) = await instances(1)
        assert await is_refused(late)
        assert threshold(late) == 9

    async def test_flushed_under_running_instances_it_is_filled_again(self, instances, valkey):
        one, other = await instances()
        switch, _ = await kills(one).add(RED)
        await until(lambda: ids(other) == [switch.id])
        with valkey.client() as client:
            client.flushall()
            await until(lambda: client.hexists(SETTINGS, f"kill:{switch.id}"))
        assert ids(one) == ids(other) == [switch.id]

    async def test_of_two_that_put_a_project_back_the_later_setting_wins(self, instances, valkey):
        one, other = await instances()
        await put(one, threshold=9)
        await until(lambda: threshold(other) == 9)
        later = await put(one, threshold=12)
        older = msgspec.json.encode({"version": later.version - 5, "settings": {"threshold": 9}})
        with valkey.client() as client:
            client.delete(SETTINGS)
            client.hset(SETTINGS, mapping={"project:research": older, "epoch": "another"})
        await until(lambda: threshold(other) == threshold(one) == 12)
        with valkey.client() as client:
            await until(lambda: b"12" in client.hget(SETTINGS, "project:research"))


MALFORMED = [b" ", b"\xff\xfe", b"null", b"{}", b"[" * 5000, b'{"version": "x", "settings": {}}']


@pytest.mark.parametrize("value", MALFORMED, ids=lambda value: repr(value[:12]))
async def test_what_cannot_be_used_is_ignored_counted_and_told_once(
    instances, valkey, caplog, value
):
    (one,) = await instances(1)
    await kills(one).add(RED)
    names = ["kill:0badcafe", "project:research", "key:ci"]
    with valkey.client() as client:
        client.hset(SETTINGS, mapping=dict.fromkeys(names, value))
        client.hset(SETTINGS, mapping={"unknown:x": value, b"\xff": value})
        client.hincrby(SETTINGS, "", 1)
        await until(lambda: one.app.ignored == 3)
        client.hincrby(SETTINGS, "", 1)
        await one.app._entries.refresh()
    assert one.app.ignored == 3
    assert [caplog.text.count(f'"{name}"') for name in names] == [1, 1, 1]
    assert await is_refused(one)
    assert not one.app.ring.has_keys
    assert await put(one, threshold=9)  # the entry that was of no use is replaced


@pytest.mark.parametrize(
    ("name", "value"),
    [("lt:cfg:secret", "short"), (SETTINGS, "a text where a table belongs")],
    ids=["a short secret", "another type"],
)
async def test_a_store_that_somebody_spoilt_stops_nobody(instances, valkey, name, value):
    with valkey.client() as client:
        client.set(name, value)
        one, other = await instances()
        assert await is_let_in(one)
        assert one.app.ignored == 1
        await kills(one).add(RED)
        assert await is_refused(one)
        client.delete(name)
    await until(lambda: is_refused(other))


async def test_settings_that_do_not_fit_an_instances_policies_are_ignored_there(instances):
    (one,) = await instances(1)
    session = RULE.replace('"conversation"', '"session"')
    (other,) = await instances(1, session)
    await put(one, threshold=5_000)
    await until(lambda: other.app._entries.ignored == 1)
    assert (threshold(one), threshold(other)) == (5_000, None)


def switches():
    entry = {"created": "2026-11-15T12:00:00Z"}
    return st.sampled_from([entry, entry | {"switch": RED}]).map(msgspec.json.encode)


def layers():
    entry = st.fixed_dictionaries({"version": st.integers(0, 5), "settings": st.just({})})
    return entry.map(msgspec.json.encode)


def entries_of_keys():
    made = {"digest": "ab" * 32, "created": "2026-11-15T12:00:00Z", "name": "ci"}
    ids, revoked = (
        st.sampled_from(["00000001", "00000002"]),
        st.sampled_from([None, made["created"]]),
    )
    one = st.fixed_dictionaries({"id": ids, "revoked": revoked}).map(lambda more: made | more)
    return st.lists(one, max_size=2, unique_by=lambda one: one["id"]).map(msgspec.json.encode)


@pytest.mark.parametrize(
    ("merge", "entries"),
    [
        pytest.param(runtime_override._merge_ended_wins, switches(), id="kill switches"),
        pytest.param(runtime_override._merge_later_wins, layers(), id="projects and tools"),
        pytest.param(shared_keys._merge_keys, entries_of_keys(), id="keys"),
    ],
)
@given(data=st.data())
def test_an_entry_that_was_put_back_is_put_back_once(merge, entries, data):
    any_entry = entries | st.binary(min_size=1)
    there, ours = data.draw(st.none() | any_entry), data.draw(any_entry)
    merged = merge(there, ours)
    assert merge(merged, ours) == merged
    assert there is None or merge(merged, there) == merged


class TestProjects:
    FILE = RULE + '[[projects]]\nname = "research"\nkeys = ["ci"]\nthreshold = 6\ncooldown = 5\n'

    async def test_set_on_one_they_bind_on_all_on_top_of_the_file(self, instances):
        one, other = await instances(2, self.FILE)
        await put(one, threshold=9)
        await until(lambda: threshold(other) == 9)
        (bound,) = other.app.gateway.runtime.config.projects
        assert (bound.keys, bound.cooldown) == (("ci",), 5)
        await projects(other).drop("research", None)
        await until(lambda: threshold(one) == threshold(other) == 6)

    async def test_what_is_put_replaces_all_that_was_put(self, instances):
        (one,) = await instances(1, self.FILE)
        await put(one, threshold=9, detection="shadow")
        await put(one, window=30)
        (bound,) = one.app.gateway.runtime.config.projects
        assert (bound.threshold, bound.detection, bound.window) == (6, "on", 30)

    async def test_they_bind_the_calls_of_keys_of_that_project(self, instances):
        one, other = await instances()
        text = one.add_key(project="research")
        headers = JSON | {"X-Looptrap-Key": text, "Authorization": "Bearer sk-own"}
        await put(other, threshold=2)
        await until(lambda: threshold(one) == 2)
        assert [await ask(one, headers, "Again?") for _ in range(2)] == [200, 429]

    async def test_a_stale_version_changes_nothing(self, instances):
        one, other = await instances()
        first = await put(one, threshold=9, version=0)
        second = await put(other, threshold=12, version=first.version)
        assert second.version > first.version
        assert await put(one, threshold=7, version=first.version) is None
        assert await projects(one).drop("research", first.version) is None
        assert (threshold(one), projects(one).layer("research")) == (12, second)

    async def test_a_version_does_not_come_back(self, instances):
        (one,) = await instances(1)
        first = await put(one, threshold=9)
        await projects(one).drop("research", first.version)
        again = await put(one, threshold=9, version=0)
        assert again.version > first.version

    async def test_of_many_at_once_with_one_version_one_wins(self, instances):
        one, other = await instances()
        made = await asyncio.gather(
            *(put([one, other][n % 2], threshold=n + 2, version=0) for n in range(10))
        )
        assert sum(layer is not None for layer in made) == 1

    async def test_of_many_at_once_without_one_none_fails(self, instances):
        one, other = await instances()
        made = await asyncio.gather(*(put([one, other][n % 2], threshold=n + 2) for n in range(8)))
        assert len({layer.version for layer in made}) == 8


def key_store(here):
    return SharedKeyStore(EntryStore(here.app.store.configuration))


class TestKeys:
    async def add(self, here, name="ci", **more):
        _, text = await key_store(here).add(name, **more)
        return JSON | {"X-Looptrap-Key": text, "Authorization": "Bearer sk-own"}

    async def test_in_the_store_they_open_all_instances_and_close_them_to_others(self, instances):
        one, other = await instances()
        assert await is_let_in(one)
        headers = await self.add(one)
        for here in (one, other):
            await until(lambda here=here: here.app.ring.has_keys)
            assert await ask(here, JSON) == 401
            assert await ask(here, headers) == 200
        await key_store(one).revoke("ci")
        for here in (one, other):
            await until(lambda here=here: is_status(here, headers, 401))
            assert await ask(here, JSON) == 401, "keys stay required"

    async def test_those_of_the_file_count_beside_them(self, instances):
        (one,) = await instances(1)
        text = one.add_key("before")
        headers = await self.add(one, "after")
        await until(lambda: is_status(one, headers, 200))
        assert await ask(one, headers | {"X-Looptrap-Key": text}) == 200

    async def test_of_many_added_at_once_none_is_lost(self, instances):
        one, other = await instances()
        stores = [key_store(one), key_store(other)]
        names = [f"k{n}" for n in range(20)]
        await asyncio.gather(*(stores[n % 2].add(name) for n, name in enumerate(names)))
        assert sorted(one.name for one in await stores[0].list_keys()) == sorted(names)

    async def test_of_many_of_one_name_one_is_made(self, instances):
        one, other = await instances()
        stores = [key_store(one), key_store(other)]
        made = await asyncio.gather(
            *(stores[n % 2].add("ci") for n in range(10)), return_exceptions=True
        )
        failed = [one for one in made if isinstance(one, ConfigError)]
        assert len(failed) == 9
        assert len(await stores[0].list_keys()) == 1

    async def test_the_store_has_digests_only(self, instances, valkey):
        (one,) = await instances(1)
        headers = await self.add(one)
        secret = headers["X-Looptrap-Key"].split("-", 2)[2].encode()
        with valkey.client() as client:
            assert all(secret not in value for value in client.hgetall(SETTINGS).values())

    async def test_a_store_that_lost_them_is_given_them_again(self, instances, valkey):
        one, other = await instances()
        headers = await self.add(one)
        await until(lambda: one.app.ring.has_keys and other.app.ring.has_keys)
        with valkey.client() as client:
            client.flushall()
            await until(lambda: client.hexists(SETTINGS, "key:ci"))
        for here in (one, other):
            assert (await ask(here, JSON), await ask(here, headers)) == (401, 200)

    @pytest.mark.parametrize("fault", ["away", "empty"])
    async def test_one_that_starts_again_remembers_them(self, tmp_path, valkey, fault):
        async with serving(tmp_path, RULE, store=valkey.url) as one:
            headers = await self.add(one)
            await until(lambda: one.app.ring.has_keys)
            await until(lambda: len(list(tmp_path.glob("state.*"))) == 1)
        valkey.kill()
        if fault == "empty":
            valkey.start()
        async with serving(tmp_path, RULE, store=valkey.url) as one:
            assert (await ask(one, JSON), await ask(one, headers)) == (401, 200)
            if fault == "empty":
                with valkey.client() as client:
                    assert client.hexists(SETTINGS, "key:ci")

    async def test_what_is_remembered_of_one_store_is_not_given_to_another(self, tmp_path, valkey):
        async with serving(tmp_path, RULE, store=valkey.url) as one:
            await self.add(one)
            await until(lambda: len(list(tmp_path.glob("state.*"))) == 1)
        async with serving(tmp_path, RULE, store=f"{valkey.url}?db=1") as one:
            assert await is_let_in(one)
            assert await key_store(one).list_keys() == ()

    async def test_revoked_while_an_instance_was_down_they_stay_revoked(self, tmp_path, valkey):
        async with serving(tmp_path, RULE, store=valkey.url) as one:
            headers = await self.add(one)
            await until(lambda: len(list(tmp_path.glob("state.*"))) == 1)
        with valkey.client() as client:
            entry = json.loads(client.hget(SETTINGS, "key:ci"))
            entry[0]["revoked"] = "2026-11-16T00:00:00Z"
            client.hset(SETTINGS, "key:ci", json.dumps(entry))
        async with serving(tmp_path, RULE, store=valkey.url) as one:
            assert await ask(one, headers) == 401

    async def test_a_spoilt_memory_of_them_stops_nobody(self, tmp_path, valkey, caplog):
        async with serving(tmp_path, RULE, store=valkey.url) as one:
            headers = await self.add(one)
            await until(lambda: len(list(tmp_path.glob("state.*"))) == 1)
        next(tmp_path.glob("state.*")).write_text("precious")
        async with serving(tmp_path, RULE, store=valkey.url) as one:
            assert await ask(one, headers) == 200
        assert "is not a Looptrap state file" in caplog.text


async def is_status(here, headers, status):
    return await ask(here, headers) == status


class TestWhoMayBeServedBeyondLoopback:
    async def start(self, tmp_path, store, **more):
        async with serving(tmp_path, RULE, store=store, listen="0.0.0.0:0", **more) as here:
            here.host = "127.0.0.1"
            return await ask(here, JSON)

    async def test_nobody_where_the_store_says_that_there_are_no_keys(self, tmp_path, valkey):
        with pytest.raises(ConfigError, match="there are no gateway keys"):
            await self.start(tmp_path, valkey.url)

    async def test_holders_of_the_stores_keys(self, instances, tmp_path, valkey):
        (one,) = await instances(1)
        await TestKeys().add(one)
        assert await self.start(tmp_path, valkey.url) == 401

    async def test_nobody_while_the_store_does_not_say_which_keys_there_are(self, tmp_path):
        nobody = f"redis://127.0.0.1:{free_port()}"
        assert await self.start(tmp_path, nobody) == 401

    async def test_everybody_who_is_let_in_on_purpose(self, tmp_path):
        nobody = f"redis://127.0.0.1:{free_port()}"
        assert await self.start(tmp_path, nobody, allow_anonymous=True) == 200


class TestWithoutASharedStore:
    async def test_what_is_set_holds_here_and_now(self, serve):
        here = await serve(RULE)
        switch, is_shared = await kills(here).add(RED)
        assert is_shared  # with everybody there is
        assert await is_refused(here)
        first = await put(here, threshold=9)
        assert threshold(here) == 9
        assert await put(here, threshold=7, version=first.version - 1) is None
        await projects(here).drop("research", first.version)
        assert threshold(here) is None
        assert await kills(here).drop(switch.id) is True
        assert await is_let_in(here)

    async def test_it_is_gone_at_the_next_start(self, tmp_path):
        async with serving(tmp_path, RULE) as here:
            await kills(here).add(RED)
            assert await is_refused(here)
        async with serving(tmp_path, RULE) as here:
            assert await is_let_in(here)
        assert list(tmp_path.glob("state.*")) == []
