"""Incidents for operators: there at once, shown with their steps, followed, and released."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat, until
from tests.store.serving import server

from looptrap.errors import DatabaseError
from looptrap.incident.model import Incident

PATH = "/api/v1/incidents"
RELEASE = "/api/v1/release"

BASE = float(int(time.time()) - 3600)
"""Lately: what is old and closed goes by itself."""


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as both:
        yield both


async def loop(here, text="Again?", calls=7, **headers):
    """Send the same so many times; return the statuses."""
    asked = [await here.ask(headers=JSON | headers, body=chat(text)) for _ in range(calls)]
    return [answer.status for answer in asked]


async def listed(operator, **wanted):
    return (await told(operator, "GET", PATH, params=wanted))["incidents"]


async def first(operator, is_so=lambda one: True):
    """Wait for an incident to be listed; return it."""
    found = []

    async def is_there():
        found[:] = [one for one in await listed(operator, state="all") if is_so(one)]
        return bool(found)

    await until(is_there)
    return found[0]


def put(here, *incidents):
    return asyncio.to_thread(here.app.recorder.history.put, incidents)


def incident(number, **changes):
    given = {
        "id": f"inc_{number:04}", "instance": "h.1", "key": str(number), "opened": BASE + number,
        "last": BASE + number + 1, "action": "block", "rule": "same", "caller": "key:ci",
    }  # fmt: skip
    return Incident(**{**given, **changes})


def moment(at, hours=0):
    return datetime.fromtimestamp(at, timezone(timedelta(hours=hours))).isoformat()


async def test_an_incident_is_listed_within_a_second_of_the_refusal(running):
    here, operator = running
    assert await loop(here, calls=6) == [200] * 5 + [429]
    refused_at = time.monotonic()
    found = await first(operator, lambda one: one["refused"] == 1)
    assert time.monotonic() - refused_at < 1
    assert (found["state"], found["hits"], found["action"]) == ("open", 6, "block")
    assert (found["rule"], found["model"]) == ("identical-conversation", "gpt-5.3")
    assert found["caller"].startswith("addr:127.0.0.1")
    opened = datetime.fromisoformat(found["opened"])
    assert abs(datetime.now(UTC) - opened) < timedelta(minutes=1)
    assert found["closed"] is None
    assert "steps" not in found


async def test_no_word_of_a_prompt_is_shown(running):
    here, operator = running
    await loop(here, "my secret is xyzzy")
    found = await first(operator, lambda one: one["refused"] == 2)
    shown = await told(operator, "GET", f"{PATH}/{found['id']}")
    assert "xyzzy" not in json.dumps([found, shown])


@pytest.mark.parametrize("length", [None, 12], ids=["by its id", "by how that begins"])
async def test_one_is_shown_with_its_steps(running, length):
    here, operator = running
    await loop(here)
    found = await first(operator, lambda one: one["refused"] == 2)
    shown = await told(operator, "GET", f"{PATH}/{found['id'][:length]}")
    assert {name: shown[name] for name in found} == found
    blocked = next(step for step in shown["steps"] if step["what"] == "block")
    assert (blocked["rule"], blocked["count"]) == ("identical-conversation", 6)
    assert blocked["fingerprint"] in shown["fingerprints"]
    assert datetime.fromisoformat(blocked["time"]).tzinfo is not None


async def test_one_that_is_unknown_or_ambiguous_is_not_found(running):
    here, operator = running
    await put(here, incident(1), incident(2))
    for wanted in ("inc_none", "inc_000", "%2F"):
        error = (await told(operator, "GET", f"{PATH}/{wanted}", status=404))["error"]
        assert error["code"] == "not_found"
        assert "No incident has this id" in error["message"]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({}, [4, 3, 2]),
        ({"state": "closed"}, [1]),
        ({"state": "all"}, [4, 3, 2, 1]),
        ({"caller": "key:a+b & c"}, [2]),
        ({"project": "red", "state": "all"}, [3, 1]),
        ({"session": "s"}, [3]),
        ({"rule": "other"}, [4]),
        ({"since": moment(BASE + 4)}, [4, 3]),
        ({"since": moment(BASE + 5, hours=1)}, [4]),
    ],
    ids=["open", "closed", "all", "caller", "project", "session", "rule", "since", "offset"],
)
async def test_they_are_listed_by_what_is_asked(running, wanted, ids):
    here, operator = running
    await put(
        here,
        incident(1, closed=BASE + 2, project="red"),
        incident(2, caller="key:a+b & c"),
        incident(3, project="red", session="s"),
        incident(4, rule="other"),
    )
    found = await listed(operator, **wanted)
    assert [one["id"] for one in found] == [f"inc_{number:04}" for number in ids]


async def test_pages_lead_through_all_of_them(running):
    here, operator = running
    await put(here, *(incident(number) for number in range(25)))
    seen, cursor = [], {}
    for _ in range(3):
        page = await told(operator, "GET", PATH, params={"limit": 10, **cursor})
        seen += [one["id"] for one in page["incidents"]]
        cursor = {"cursor": page["next"]}
    assert page["next"] is None
    assert seen == [f"inc_{number:04}" for number in reversed(range(25))]


@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("?state=opne&limit=0&since=yesterday&color=red", ["color", "limit", "since", "state"]),
        ("?limit=501", ["limit"]),
        ("?limit=ten", ["limit"]),
        ("?since=2026-11-16T00:00:00", ["since"]),
        ("?cursor=nonsense", ["cursor"]),
        ("?caller=a&caller=b", ["caller"]),
        ("/changes?after=-1", ["after"]),
        ("/changes?after=99999999999999999999", ["after"]),
    ],
    ids=["every mistake", "too many", "words", "no offset", "cursor", "twice", "below 0", "huge"],
)
async def test_wrong_parameters_are_told_by_place(running, path, places):
    _, operator = running
    error = (await told(operator, "GET", PATH + path, status=400))["error"]
    assert error["code"] == "bad_request"
    assert sorted(one["place"] for one in error["problems"]) == places


async def test_changes_tell_what_is_new_and_no_more(running):
    here, operator = running
    await put(here, incident(1))
    begin = await told(operator, "GET", f"{PATH}/changes")
    assert begin["incidents"] == []
    await loop(here)
    await first(operator, lambda one: one["refused"] == 2)
    after = {"after": begin["last"]}
    news = await told(operator, "GET", f"{PATH}/changes", params=after)
    assert [one["refused"] for one in news["incidents"]] == [2]
    after = {"after": news["last"]}
    assert await told(operator, "GET", f"{PATH}/changes", params=after) == {
        "incidents": [], "last": news["last"],
    }  # fmt: skip


async def test_whoever_followed_a_history_that_is_gone_follows_the_new_one(running):
    here, operator = running
    await put(here, incident(1))
    ahead = await told(operator, "GET", f"{PATH}/changes?after=1000000")
    await put(here, incident(2))
    news = await told(operator, "GET", f"{PATH}/changes", params={"after": ahead["last"]})
    assert [one["id"] for one in news["incidents"]] == ["inc_0002"]


async def test_a_history_that_cannot_be_read_is_503_in_words(running, monkeypatch):
    here, operator = running

    def broken(*_, **__):
        raise DatabaseError("disk I/O error")

    for name in ("incidents", "incident", "changes", "last_change"):
        monkeypatch.setattr(here.app.recorder.history, name, broken)
    for method, path, sent in (
        ("GET", PATH, None),
        ("GET", f"{PATH}/inc_1", None),
        ("GET", f"{PATH}/changes", None),
        ("GET", f"{PATH}/changes?after=1", None),
        ("POST", RELEASE, {"caller": "key:ci"}),
    ):
        error = (await told(operator, method, path, json=sent, status=503))["error"]
        assert error["code"] == "history_unavailable"
        assert "disk I/O error" in error["message"]


async def test_the_history_is_read_beside_the_loop_and_never_on_it(running, monkeypatch):
    here, operator = running
    reading, answered = asyncio.Event(), asyncio.Event()
    here_loop = asyncio.get_running_loop()
    read = here.app.recorder.history.incidents

    def slow(**wanted):
        here_loop.call_soon_threadsafe(reading.set)
        assert asyncio.run_coroutine_threadsafe(answered.wait(), here_loop).result(20)
        return read(**wanted)

    monkeypatch.setattr(here.app.recorder.history, "incidents", slow)
    listing = asyncio.ensure_future(listed(operator))
    await asyncio.wait_for(reading.wait(), 20)
    assert await loop(here, calls=1) == [200]
    answered.set()
    assert await listing == []


@pytest.mark.parametrize("by", ["caller", "incident", "both"])
async def test_a_release_lets_all_that_is_refused_pass(running, by):
    here, operator = running
    texts = ["Again?", "And again?"]
    for text in texts:
        await loop(here, text, **{"X-Looptrap-Session": "one"})
    found = await first(operator, lambda one: len(one["fingerprints"]) == 2)
    sent = {"caller": found["caller"], "incident": found["id"][:14]}
    sent = sent if by == "both" else {by: sent[by]}
    answer = await told(operator, "POST", RELEASE, json=sent)
    assert answer["released"] == 2
    assert sorted(answer["fingerprints"]) == sorted(found["fingerprints"])
    for text in texts:
        assert await loop(here, text, 1, **{"X-Looptrap-Session": "one"}) == [200]
    again = await told(operator, "POST", RELEASE, json={"caller": "key:nobody"})
    assert again == {"released": 0, "fingerprints": []}


async def test_a_release_of_a_caller_leaves_others_refused(running):
    here, operator = running
    for key in ("sk-one", "sk-two"):
        await loop(here, Authorization=f"Bearer {key}")
    await until(lambda: _refused(operator, 2))
    mine, _ = await listed(operator)
    answer = await told(operator, "POST", RELEASE, json={"caller": mine["caller"]})
    assert answer["released"] == 1
    statuses = [
        *await loop(here, calls=1, Authorization="Bearer sk-one"),
        *await loop(here, calls=1, Authorization="Bearer sk-two"),
    ]
    assert sorted(statuses) == [200, 429]


async def _refused(operator, callers):
    return [one["refused"] for one in await listed(operator)] == [2] * callers


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        ({"incident": "inc_none"}, 404, "No incident has this id"),
        ({"incident": "inc_0001", "caller": "key:other"}, 404, "No incident has this id"),
        ({}, 400, 'Send {"fingerprint": "1-…"}'),
        ({"fingerprint": "1-ab", "caller": "key:ci"}, 400, "Send "),
        ({"caller": 7}, 400, "Send "),
    ],
    ids=["unknown", "not theirs", "nothing", "two kinds", "a number"],
)
async def test_a_release_that_means_nothing_is_refused_in_words(running, sent, status, says):
    here, operator = running
    await put(here, incident(1))
    error = (await told(operator, "POST", RELEASE, json=sent, status=status))["error"]
    assert error["message"].startswith(says)


async def test_a_release_holds_for_all_instances_that_share_a_store(tmp_path):
    with server() as valkey:
        folders = [tmp_path / "a", tmp_path / "b"]
        for folder in folders:
            folder.mkdir()
        async with (
            operating(folders[0], store=valkey.url) as (here, _),
            operating(folders[1], store=valkey.url) as (there, operator),
        ):
            await loop(here)
            found = await first(operator, lambda one: one["refused"] == 2)
            assert await loop(there, calls=1) == [429]
            answer = await told(operator, "POST", RELEASE, json={"caller": found["caller"]})
            assert answer["released"] == 1
            assert await loop(here, calls=1) == [200]


async def test_only_the_holder_of_the_token_sees_them(tmp_path):
    async with operating(tmp_path, token="t0ken") as (_, operator):
        for path in (PATH, f"{PATH}/inc_1", f"{PATH}/changes", "/api/v1/alerts"):
            await told(operator, "GET", path, status=401)
        await told(operator, "GET", PATH, headers={"Authorization": "Bearer t0ken"})
