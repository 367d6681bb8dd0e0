"""Many incidents at once: grouped, acknowledged, closed and exported."""

import asyncio
import csv
import io
import json
from contextlib import suppress

import pytest
from tests.admin.listening import listening
from tests.admin.operating import operating, told
from tests.admin.test_incidents import BASE, PATH, incident, listed, loop, moment, put
from tests.gateway.serving import until
from tests.store.serving import server

ACKNOWLEDGE, CLOSE = f"{PATH}/bulk/acknowledge", f"{PATH}/bulk/close"


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as both:
        yield both


@pytest.fixture
async def many(running):
    """Twelve open incidents of two callers and two rules, and three that are closed."""
    here, operator = running
    await put(
        here,
        *(
            incident(n, caller=f"key:{'ab'[n % 2]}", rule=f"rule-{n % 3 % 2}", cost=10**9, priced=1)
            for n in range(12)
        ),
        *(incident(n, caller="key:a", closed=BASE + 99) for n in range(12, 15)),
    )
    return here, operator


async def text(operator, path, **wanted):
    async with operator.get(path, params=wanted) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text(), answer.headers


async def test_incidents_are_grouped(many):
    _, operator = many
    found = await told(operator, "GET", PATH, params={"group": "caller", "order": "count"})
    assert found["incidents"] == []
    assert [(one["by"]["caller"], one["incidents"]) for one in found["groups"]] == [
        ("key:a", 6),
        ("key:b", 6),
    ]
    assert found["groups"][0]["spent_usd"] == 6
    asked = {"group": "caller,rule,model", "state": "all", "limit": 2}
    first = await told(operator, "GET", PATH, params=asked)
    rest = await told(operator, "GET", PATH, params={**asked, "cursor": first["next"], "limit": 9})
    assert len(first["groups"]) == 2
    assert rest["next"] is None
    assert sum(one["incidents"] for one in first["groups"] + rest["groups"]) == 15


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ({"group": "session"}, "group"),
        ({"group": ""}, "group"),
        ({"order": "last"}, "order"),
        ({"until": "tomorrow"}, "until"),
        ({"until": "99999-01-01T00:00:00Z"}, "until"),
        ({"limit": "1e9"}, "limit"),
        ({"group": "rule", "cursor": "-5"}, "cursor"),
        ({"group": "rule", "cursor": "9" * 40}, "cursor"),
        ({"order": "cost", "cursor": f"{'9' * 40}~x"}, "cursor"),
        ({"order": "cost", "cursor": "0.5~x"}, "cursor"),
    ],
)
async def test_a_wrong_question_is_answered_with_its_mistake(many, wanted, place):
    _, operator = many
    error = (await told(operator, "GET", PATH, params=wanted, status=400))["error"]
    assert [one["place"] for one in error["problems"]] == [place]


async def test_a_dry_run_says_what_would_be_changed_and_changes_nothing(many):
    _, operator = many
    sent = {"filter": {"caller": "key:a"}, "dry_run": True}
    for path in (ACKNOWLEDGE, CLOSE):
        answer = await told(operator, "POST", path, json=sent)
        assert answer == {"matching": 6, "callers": 1, "changed": 0}
    assert len(await listed(operator, acknowledged="false")) == 12
    assert (await told(operator, "GET", "/api/v1/audit"))["entries"] == []


async def test_all_that_match_a_filter_are_acknowledged_once_and_audited_once(many):
    _, operator = many
    sent = {"filter": {"caller": "key:b", "until": moment(BASE + 6)}}
    answer = await told(operator, "POST", ACKNOWLEDGE, json=sent)
    assert answer == {"matching": 3, "callers": 1, "changed": 3}
    seen = await listed(operator, acknowledged="true")
    assert [one["id"] for one in seen] == ["inc_0005", "inc_0003", "inc_0001"]
    again = await told(operator, "POST", ACKNOWLEDGE, json=sent)
    assert again == {"matching": 0, "callers": 0, "changed": 0}
    [entry] = (await told(operator, "GET", "/api/v1/audit"))["entries"]
    assert (entry["what"], entry["target"]) == ("incident.acknowledge", "3 incidents")
    assert entry["after"]["filter"]["caller"] == "key:b"
    assert sorted(entry["after"]["ids"]) == ["inc_0001", "inc_0003", "inc_0005"]


async def test_those_that_are_chosen_are_closed(many):
    _, operator = many
    sent = {"ids": ["inc_0001", "inc_0002", "inc_0013", "inc_none"]}
    async with listening(operator) as ear:
        answer = await told(operator, "POST", CLOSE, json=sent)
        heard = await ear.hear("incident", lambda one: one["id"] == "inc_0002")
    assert answer["changed"] == 2, "one is closed already, and one unknown"
    assert heard["state"] == "closed"
    assert len(await listed(operator)) == 10
    shown = await told(operator, "GET", f"{PATH}/inc_0001")
    assert (shown["state"], shown["steps"][-1]["what"]) == ("closed", "closed")
    [entry] = (await told(operator, "GET", "/api/v1/audit"))["entries"]
    assert entry["what"] == "incident.close"


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "with a store"])
async def test_a_loop_that_goes_on_after_it_was_closed_is_another_incident(tmp_path, shared):
    with server() as store:
        options = {"store": store.url} if shared else {}
        async with operating(tmp_path, **options) as (here, operator):
            await loop(here)
            await until(lambda: here.app.recorder.history.incidents(state="open").items)
            [before] = await listed(operator)
            await told(operator, "POST", CLOSE, json={"filter": {}})
            await until(lambda: here.app.recorder.tracker.open == 0)
            assert await listed(operator) == []
            await loop(here, calls=1)
            await until(lambda: here.app.recorder.history.incidents(state="open").items)
            [after] = await listed(operator)
            assert after["id"] != before["id"]


async def test_another_instance_closes_it_too(tmp_path):
    with server() as store:
        one, two = tmp_path / "one", tmp_path / "two"
        one.mkdir()
        two.mkdir()
        async with (
            operating(one, store=store.url) as (here, operator),
            operating(two, store=store.url) as (there, _),
        ):
            await loop(here, calls=4)
            await loop(there, calls=4)
            histories = [each.app.recorder.history for each in (here, there)]
            await until(lambda: all(each.incidents(state="open").items for each in histories))
            await told(operator, "POST", CLOSE, json={"filter": {}})
            await until(lambda: not any(each.incidents(state="open").items for each in histories))
            assert there.app.recorder.tracker.open == 0


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"ids": ["inc_0001"], "filter": {}},
        {"ids": "inc_0001"},
        {"ids": [1]},
        {"ids": ["x"] * 5_001},
        {"filter": {"state": "broken"}},
        {"filter": {"limit": 5}},
        {"filter": []},
        {"filter": {}, "dry_run": "yes"},
        {"filter": {}, "force": True},
        [],
    ],
    ids=str,
)
async def test_a_change_that_cannot_be_read_changes_nothing(many, sent):
    _, operator = many
    await told(operator, "POST", CLOSE, json=sent, status=400)
    assert len(await listed(operator)) == 12


async def test_the_read_token_may_export_and_not_change(tmp_path):
    tokens = {"token": "write", "read_token": "look"}
    async with operating(tmp_path, **tokens) as (_, operator):
        headers = {"Authorization": "Bearer look"}
        await told(operator, "POST", CLOSE, json={"filter": {}}, headers=headers, status=403)
        async with operator.get(f"{PATH}/export.csv", headers=headers) as answer:
            assert answer.status == 200


async def test_incidents_are_exported_as_listed(many):
    _, operator = many
    found, headers = await text(operator, f"{PATH}/export.json", caller="key:a", state="all")
    assert headers["Content-Disposition"] == 'attachment; filename="incidents.json"'
    assert json.loads(found) == await listed(operator, caller="key:a", state="all")
    found, headers = await text(operator, f"{PATH}/export.csv", caller="key:a", state="all")
    assert headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(found)))
    assert len(rows) == 9
    assert (rows[-1]["id"], rows[-1]["state"], rows[-1]["spent_usd"]) == ("inc_0000", "open", "1.0")


async def test_an_export_of_nothing_is_well_formed(running):
    _, operator = running
    assert json.loads((await text(operator, f"{PATH}/export.json"))[0]) == []
    found, _ = await text(operator, f"{PATH}/export.csv")
    assert found.startswith("id,state,opened,")
    assert found.count("\n") == 1


async def test_an_export_goes_on_over_many_pages(running, monkeypatch):
    here, operator = running
    await put(here, *(incident(n) for n in range(1_203)))
    found = json.loads((await text(operator, f"{PATH}/export.json"))[0])
    assert [one["id"] for one in found] == [f"inc_{n:04}" for n in reversed(range(1_203))]
    monkeypatch.setattr("looptrap.admin.incident.MAX_EXPORTED", 1_202)
    error = (await told(operator, "GET", f"{PATH}/export.json", status=422))["error"]
    assert error["code"] == "too_many"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "\n=", "＝"])
async def test_no_name_is_a_formula_in_a_spreadsheet(running, start):
    here, operator = running
    named = f'{start}HYPERLINK("http://example.com","look")'
    await put(here, incident(1, session=named, model=named, message=named))
    found, _ = await text(operator, f"{PATH}/export.csv")
    [row] = csv.DictReader(io.StringIO(found, newline=""))
    assert row["session"] == row["model"] == row["message"] == f"'{named}"


async def test_a_client_that_does_not_read_an_export_is_cut_off(running, monkeypatch):
    here, operator = running
    monkeypatch.setattr("looptrap.admin.incident.WRITE_TIMEOUT_S", 0.05)
    await put(here, *(incident(n, message="m" * 4_000) for n in range(5_000)))
    url = operator._base_url
    reader, writer = await asyncio.open_connection(url.host, url.port, limit=1_024)
    writer.write(b"GET %b/export.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % PATH.encode())
    await asyncio.sleep(0.5)  # long enough for the listener to give up on it
    read = b""
    with suppress(ConnectionError):
        while chunk := await reader.read(1 << 16):
            read += chunk
    assert not read.endswith(b"0\r\n\r\n")
    writer.close()
