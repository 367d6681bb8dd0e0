"""Events for operators: what happens is told while it does, to those who listen and keep up."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest
from tests.admin.listening import PATH, listening
from tests.admin.looping import PATH as INCIDENTS
from tests.admin.looping import incident, loop
from tests.admin.operating import operating, told
from tests.gateway.serving import until
from tests.store.serving import server

from looptrap.admin import event_stream as event_module
from looptrap.admin.event_stream import (
    MAX_QUEUED_FRAMES,
    MAX_SUBSCRIBERS,
    EventFeed,
    EventSubscriber,
)
from looptrap.errors import DatabaseError


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as both:
        yield both


async def test_a_loop_is_told_within_three_seconds_as_a_list_has_it(running):
    here, operator = running
    async with listening(operator) as ear:
        began = time.monotonic()
        await loop(here, 6)
        heard = await ear.hear("incident", lambda one: one["refused"] == 1)
        assert time.monotonic() - began < 3
        (listed,) = (await told(operator, "GET", INCIDENTS))["incidents"]
        assert heard == listed


async def test_its_end_is_told(tmp_path):
    toml = "[incidents]\nquiet = 1"
    async with operating(tmp_path, toml) as (here, operator), listening(operator) as ear:
        await loop(here, 6)
        await ear.hear("incident", lambda one: one["state"] == "open")
        await ear.hear("incident", lambda one: one["state"] == "closed")


async def test_an_incident_that_goes_on_is_told_once_a_second_at_most(running):
    here, operator = running
    async with listening(operator) as ear:
        began, heard = time.monotonic(), 0
        going_on = asyncio.ensure_future(loop(here, 400))
        while (await ear.hear("incident"))["calls"] < 395:
            heard += 1
        assert heard <= time.monotonic() - began
        await going_on


async def test_what_somebody_changes_is_told(running):
    _, operator = running
    async with listening(operator) as ear:
        await told(operator, "PUT", "/api/v1/tools/ls", json={"exempt": True})
        assert await ear.hear("change") == {"what": "tool.put", "target": "ls"}


async def test_a_viewer_of_the_log_hears_that_there_are_more_calls(running):
    here, operator = running
    async with listening(operator) as ear:
        await loop(here, times=2)
        last = 0
        while last < 2:
            last = (await ear.hear("calls"))["last"]
        found = await told(operator, "GET", "/api/v1/calls", params={"after": 0})
        assert [one["id"] for one in found["calls"]] == [2, 1]


async def test_what_is_said_of_an_incident_is_told(running):
    here, operator = running
    await loop(here, 7)
    one = (await incident(operator, lambda shown: shown["refused"] == 2))["id"]
    async with listening(operator) as ear:
        label = {"label": "false_alarm"}
        await told(operator, "PUT", f"{INCIDENTS}/{one}/label", json=label)
        await ear.hear("incident", lambda heard: heard["label"] == "false_alarm")


async def test_figures_are_told_again_and_again_and_add_up(running):
    here, operator = running
    async with listening(operator) as ear:
        assert await loop(here, 9) == [200] * 5 + [429] * 4
        allowed = refused = 0
        while (allowed, refused) != (5, 4):
            figures = await ear.hear("stats")
            allowed, refused = allowed + figures["allowed"], refused + figures["refused"]
            assert (allowed, refused) <= (5, 4)
        nothing = await ear.hear("stats")
    assert nothing == {
        "time": nothing["time"], "allowed": 0, "warned": 0, "refused": 0, "shadowed": 0,
        "cost_usd": 0.0, "saved_usd": 0.0,
    }  # fmt: skip


async def test_the_status_is_told_when_it_is_another(running):
    _, operator = running
    async with listening(operator) as ear:
        switch = {"match": {"caller": "key:x"}, "reason": "leaked"}
        await told(operator, "POST", "/api/v1/kill-switches", json=switch, status=201)
        heard = await ear.hear("status")
        shown = await told(operator, "GET", "/api/v1/status")
        assert heard["notices"] == shown["notices"] != []
        assert set(shown) - set(heard) == {"can_write", "operator", "workers"}


async def test_who_was_away_is_told_what_changed_meanwhile_and_nothing_twice(running):
    here, operator = running
    async with listening(operator) as ear:
        await loop(here, 7, "one")
        first = await ear.hear("incident", lambda one: one["refused"] == 2)
        last = ear.last_id
        assert int(last) > 0
    await loop(here, 7, "two")
    other = await incident(operator, lambda one: one["refused"] == 2 and one["id"] != first["id"])
    async with listening(operator, last) as ear:
        missed = await ear.hear("incident")
        assert missed["id"] == other["id"]
        assert int(ear.last_id) > int(last)


@pytest.mark.parametrize("last", ["9" * 18, "-1", "x", "9" * 5000])
async def test_an_id_from_nowhere_leads_to_now(running, last):
    here, operator = running
    await loop(here, 7)
    await incident(operator, lambda one: one["refused"] == 2)
    async with listening(operator, last) as ear:
        assert (await ear.next())[0] == "stats"


async def test_silence_is_broken_by_pings(tmp_path, monkeypatch):
    monkeypatch.setattr(event_module, "PING_INTERVAL_S", 0.05)
    async with operating(tmp_path) as (_, operator), listening(operator) as ear:
        assert await ear.next() == ("", "ping")


async def test_nothing_is_looked_at_while_nobody_listens(running, monkeypatch):
    here, operator = running
    looks = []
    last_change = here.app.recorder.history.last_change
    monkeypatch.setattr(
        here.app.recorder.history, "last_change", lambda: looks.append(1) or last_change()
    )
    async with listening(operator) as ear:
        await ear.hear("stats")
    assert looks
    await until(lambda: not _polling())
    seen = len(looks)
    async with listening(operator):
        await until(lambda: len(looks) > seen)


def _polling():
    return [one for one in asyncio.all_tasks() if "_poll_forever" in repr(one.get_coro())]


async def test_all_who_listen_share_one_look(running):
    _, operator = running
    async with AsyncExitStack() as stack:
        ears = [await stack.enter_async_context(listening(operator)) for _ in range(5)]
        assert len(_polling()) == 1
        await told(operator, "PUT", "/api/v1/tools/ls", json={"exempt": True})
        for ear in ears:
            await ear.hear("change")


async def test_only_so_many_may_listen(running, monkeypatch):
    _, operator = running
    monkeypatch.setattr("looptrap.admin.event_stream.MAX_SUBSCRIBERS", 2)
    async with listening(operator), listening(operator):
        refused = await told(operator, "GET", PATH, status=503)
        assert refused["error"]["code"] == "too_many_listeners"

    async def is_let_in():
        async with operator.get(PATH) as answer:
            return answer.status == 200

    await until(is_let_in)
    assert MAX_SUBSCRIBERS == 50


async def test_who_does_not_keep_up_is_cut_off_and_the_others_are_not(running):
    here, _ = running
    cut = []
    slow, quick = (
        EventSubscriber(lambda: cut.append("slow")),
        EventSubscriber(lambda: cut.append("quick")),
    )
    feed = EventFeed(here.app)
    for listener in (slow, quick):
        await feed.join(listener)
    try:
        for number in range(MAX_QUEUED_FRAMES + 1):
            feed._send(b"%d" % number)
            assert await quick.get(1.0) == b"%d" % number
        assert cut == ["slow"]
    finally:
        for listener in (slow, quick):
            feed.leave(listener)


async def test_they_end_with_the_listener_at_once(tmp_path):
    async with AsyncExitStack() as stack:
        _, operator = await stack.enter_async_context(operating(tmp_path))
        answer = await stack.enter_async_context(operator.get(PATH, timeout=None))
        assert await answer.content.readline() == b"event: hello\n"
        began = time.monotonic()
        ending = asyncio.ensure_future(answer.content.read())
        await stack.aclose()
        await asyncio.gather(ending, return_exceptions=True)
        assert time.monotonic() - began < 5


async def test_a_history_that_cannot_be_read_for_a_while_ends_nothing(running, monkeypatch):
    here, operator = running
    history = here.app.recorder.history
    failed = []

    def broken():
        failed.append(1)
        raise DatabaseError("disk I/O error")

    async with listening(operator) as ear:
        with monkeypatch.context() as patched:
            patched.setattr(history, "last_change", broken)
            await until(lambda: failed)
        await loop(here, 6)
        await ear.hear("incident", lambda one: one["refused"] == 1)


async def test_what_another_host_saw_is_told_too(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with server() as valkey:
        async with (
            operating(folders[0], store=valkey.url) as (here, _),
            operating(folders[1], store=valkey.url) as (_, theirs),
            listening(theirs) as ear,
        ):
            await loop(here, 6)
            await ear.hear("incident", lambda one: one["refused"] == 1)


async def test_only_the_holder_of_a_token_listens(tmp_path):
    async with operating(tmp_path, token="t0ken") as (_, operator):
        await told(operator, "GET", PATH, status=401)
        await told(operator, "GET", f"{PATH}?x=1", status=401)
        bearer = {"Authorization": "Bearer t0ken"}
        await told(operator, "GET", f"{PATH}?x=1", status=400, headers=bearer)
