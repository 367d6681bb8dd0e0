"""The audit for operators: every change, who made it, and what was there before."""

import pytest
from tests.admin.looping import PATH as INCIDENTS
from tests.admin.looping import incident, loop
from tests.admin.operating import operating, told

from looptrap.errors import DatabaseError

PATH = "/api/v1/audit"


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as both:
        yield both


async def entries(operator):
    return (await told(operator, "GET", PATH))["entries"]


async def test_a_change_is_there_with_what_was_before(running):
    _, operator = running
    for threshold in (9, 12):
        await told(operator, "PUT", "/api/v1/projects/x", json={"threshold": threshold})
    await told(operator, "DELETE", "/api/v1/projects/x")
    found = await entries(operator)
    assert [(one["what"], one["before"], one["after"]) for one in found] == [
        ("project.delete", {"threshold": 12}, None),
        ("project.put", {"threshold": 9}, {"threshold": 12}),
        ("project.put", None, {"threshold": 9}),
    ]
    assert {(one["by"], one["source"], one["target"]) for one in found} == {
        ("admin", "127.0.0.1", "x")
    }


async def test_every_kind_of_change_is_there(running):
    here, operator = running
    await loop(here, 7)
    one = (await incident(operator, lambda shown: shown["refused"] == 2))["id"]
    await told(operator, "PUT", "/api/v1/tools/ls", json={"exempt": True})
    await told(operator, "DELETE", "/api/v1/tools/ls")
    match = {"match": {"caller": "key:x"}}
    switch = await told(operator, "POST", "/api/v1/kill-switches", json=match, status=201)
    await told(operator, "DELETE", f"/api/v1/kill-switches/{switch['id']}")
    await told(operator, "POST", f"{INCIDENTS}/{one}/acknowledge", json={})
    await told(operator, "POST", f"{INCIDENTS}/{one}/notes", json={"text": "so"})
    await told(operator, "PUT", f"{INCIDENTS}/{one}/label", json={"label": "confirmed"})
    shown = await told(operator, "GET", f"{INCIDENTS}/{one}")
    longer = {"fingerprint": shown["fingerprint"], "seconds": 60}
    await told(operator, "POST", "/api/v1/cooldowns", json=longer)
    await told(operator, "POST", "/api/v1/release", json={"incident": one})
    await told(operator, "POST", "/api/v1/alerts/test", json={})
    await told(operator, "POST", "/api/v1/alerts/resend", json={"state": "dead"})
    found = await entries(operator)
    assert [(each["what"], each["target"]) for each in reversed(found)] == [
        ("tool.put", "ls"),
        ("tool.delete", "ls"),
        ("kill_switch.set", switch["id"]),
        ("kill_switch.end", switch["id"]),
        ("incident.acknowledge", one),
        ("incident.note", one),
        ("incident.label", one),
        ("cooldown.extend", shown["fingerprint"]),
        ("release", f"incident={one}"),
        ("alert.test", ""),
        ("alert.resend", ""),
    ]


async def test_what_was_refused_or_changed_nothing_is_not_there(running):
    _, operator = running
    await told(operator, "PUT", "/api/v1/projects/x", json={"threshold": 1}, status=400)
    await told(operator, "DELETE", "/api/v1/projects/x")
    await told(operator, "DELETE", "/api/v1/kill-switches/none", status=404)
    await told(operator, "POST", "/api/v1/release", json={"incident": "none"}, status=404)
    assert await entries(operator) == []


async def test_pages_lead_through_all_of_it(running):
    _, operator = running
    for number in range(5):
        await told(operator, "PUT", f"/api/v1/tools/t{number}", json={"exempt": True})
    seen, cursor = [], {}
    for _ in range(3):
        page = await told(operator, "GET", PATH, params={"limit": 2, **cursor})
        seen += [one["target"] for one in page["entries"]]
        cursor = {"cursor": page["next"]}
    assert (seen, page["next"]) == (["t4", "t3", "t2", "t1", "t0"], None)
    for wrong in ("cursor=x", "limit=0", "colour=red"):
        await told(operator, "GET", f"{PATH}?{wrong}", status=400)


async def test_it_is_there_after_a_restart(tmp_path):
    async with operating(tmp_path) as (_, operator):
        await told(operator, "PUT", "/api/v1/tools/ls", json={"exempt": True})
        before = await entries(operator)
    async with operating(tmp_path) as (_, operator):
        assert await entries(operator) == before


async def test_where_it_cannot_be_written_the_change_is_made_and_the_log_says_so(
    running, monkeypatch, caplog
):
    here, operator = running

    def broken(*_, **__):
        raise DatabaseError("disk I/O error")

    monkeypatch.setattr(here.app.recorder.history.audit, "add", broken)
    made = await told(operator, "PUT", "/api/v1/tools/ls", json={"exempt": True})
    assert made["effective"] == {"exempt": True}
    assert "the audit lacks a tool.put: disk I/O error" in caplog.text
