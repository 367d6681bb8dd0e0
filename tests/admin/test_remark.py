"""What operators say about incidents: kept, counted, and offered as a setting of a tool."""

import pytest
from tests.admin.looping import PATH, history, incident, loop, reading
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, until
from tests.store.serving import server


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as both:
        yield both


async def looped(here, operator):
    """Have one incident; return its id."""
    await loop(here, 7)
    return (await incident(operator, lambda one: one["refused"] == 2))["id"]


async def said(operator, one, what, body, **more):
    method = "PUT" if what == "label" else "POST"
    return await told(operator, method, f"{PATH}/{one}/{what}", json=body, **more)


async def metric(operator, name):
    async with operator.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


async def test_what_is_said_is_there_after_a_restart(tmp_path):
    async with operating(tmp_path) as (here, operator):
        one = await looped(here, operator)
        await said(operator, one, "acknowledge", {})
        await said(operator, one, "notes", {"text": "A cron job that retries."})
        await said(operator, one, "notes", {"text": "Mended: <b>not</b> a loop."})
        before = await said(operator, one, "label", {"label": "confirmed"})
    async with operating(tmp_path) as (_, operator):
        after = await told(operator, "GET", f"{PATH}/{one}")
    names = ("acknowledged", "label", "notes")
    assert {name: after[name] for name in names} == {name: before[name] for name in names}
    assert after["acknowledged"]["by"] == "admin"
    assert after["label"] == "confirmed"
    assert [note["text"] for note in after["notes"]] == [
        "A cron job that retries.", "Mended: <b>not</b> a loop.",
    ]  # fmt: skip


async def test_the_beginning_of_an_id_is_enough(running):
    here, operator = running
    one = await looped(here, operator)
    assert (await said(operator, one[:12], "acknowledge", {}))["id"] == one


async def test_who_takes_care_first_is_remembered(running):
    here, operator = running
    one = await looped(here, operator)
    first = await said(operator, one, "acknowledge", {})
    assert await said(operator, one, "acknowledge", {}) | {"last": 0} == first | {"last": 0}


async def test_a_label_is_changed_and_taken_back(running):
    here, operator = running
    one = await looped(here, operator)
    for label in ("false_alarm", "confirmed", None):
        assert (await said(operator, one, "label", {"label": label}))["label"] == label


async def test_false_alarms_are_counted_each_once(running):
    here, operator = running
    one = await looped(here, operator)
    for label in ("false_alarm", "false_alarm", "confirmed", "false_alarm"):
        await said(operator, one, "label", {"label": label})
    assert await metric(operator, "looptrap_false_alarms_total") == 2


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("acknowledge", {"by": "me"}),
        ("acknowledge", []),
        ("notes", {}),
        ("notes", {"text": ""}),
        ("notes", {"text": " \n"}),
        ("notes", {"text": "x" * 2001}),
        ("notes", {"text": 7}),
        ("label", {}),
        ("label", {"label": "wrong"}),
        ("label", {"label": "false_alarm", "why": "x"}),
    ],
    ids=str,
)
async def test_what_means_nothing_is_refused_and_changes_nothing(running, what, body):
    here, operator = running
    one = await looped(here, operator)
    error = (await said(operator, one, what, body, status=400))["error"]
    assert error["code"] == "bad_request"
    shown = await told(operator, "GET", f"{PATH}/{one}")
    assert (shown["acknowledged"], shown["label"], shown["notes"]) == (None, None, [])


@pytest.mark.parametrize("what", ["acknowledge", "notes", "label"])
async def test_nothing_is_said_of_what_is_not_there(running, what):
    _, operator = running
    body = {"acknowledge": {}, "notes": {"text": "x"}, "label": {"label": None}}[what]
    error = (await said(operator, "inc_none", what, body, status=404))["error"]
    assert error["code"] == "not_found"


async def test_there_is_room_for_so_many_notes(running, monkeypatch):
    monkeypatch.setattr("looptrap.admin.incident.MAX_NOTES", 2)
    here, operator = running
    one = await looped(here, operator)
    for _ in range(2):
        await said(operator, one, "notes", {"text": "x"})
    error = (await said(operator, one, "notes", {"text": "x"}, status=409))["error"]
    assert error["code"] == "too_many_notes"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"label": "false_alarm"}, {"a"}),
        ({"label": "confirmed"}, {"b"}),
        ({"acknowledged": "true"}, {"c"}),
        ({"acknowledged": "false"}, {"a", "b"}),
        ({"q": "SESSION-B"}, {"b"}),
        ({"q": "GPT-5"}, {"a", "b", "c"}),
        ({"q": "identical-conv"}, {"a", "b", "c"}),
        ({"q": "100%"}, set()),
        ({"q": "gpt", "label": "confirmed"}, {"b"}),
    ],
    ids=["label", "other label", "acknowledged", "not", "session", "model", "rule", "no pattern",
         "both"],
)  # fmt: skip
async def test_they_are_found_by_what_was_said_and_by_pieces_of_names(running, wanted, found):
    here, operator = running
    ids = {}
    for name in ("a", "b", "c"):
        await loop(here, 7, name, **{"X-Looptrap-Session": f"session-{name}"})
        shown = await incident(operator, lambda one: one["refused"] == 2, q=f"session-{name}")
        ids[shown["id"]] = name
    by_name = {name: one for one, name in ids.items()}
    await said(operator, by_name["a"], "label", {"label": "confirmed"})
    await said(operator, by_name["a"], "label", {"label": "false_alarm"})
    await said(operator, by_name["b"], "label", {"label": "confirmed"})
    await said(operator, by_name["c"], "acknowledge", {})
    page = await told(operator, "GET", PATH, params=wanted)
    assert {ids[one["id"]] for one in page["incidents"]} == found


async def test_a_list_says_what_was_said(running):
    here, operator = running
    one = await looped(here, operator)
    await said(operator, one, "label", {"label": "confirmed"})
    await said(operator, one, "acknowledge", {})
    (listed,) = (await told(operator, "GET", PATH))["incidents"]
    assert (listed["label"], listed["acknowledged"]["by"]) == ("confirmed", "admin")


async def test_who_follows_changes_hears_of_it(running):
    here, operator = running
    one = await looped(here, operator)
    last = (await told(operator, "GET", f"{PATH}/changes"))["last"]
    await said(operator, one, "label", {"label": "confirmed"})
    news = await told(operator, "GET", f"{PATH}/changes", params={"after": last})
    assert [(each["id"], each["label"]) for each in news["incidents"]] == [(one, "confirmed")]


async def test_another_host_hears_of_it_through_the_store(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with server() as valkey:
        async with (
            operating(folders[0], store=valkey.url) as (here, mine),
            operating(folders[1], store=valkey.url) as (_, theirs),
        ):
            one = await looped(here, mine)
            await incident(theirs, lambda shown: shown["id"] == one)
            await said(theirs, one, "label", {"label": "false_alarm"})
            await said(theirs, one, "notes", {"text": "It polls."})
            shown = await incident(mine, lambda shown: shown["notes"] and shown["label"])
            assert (shown["label"], shown["notes"][0]["text"]) == ("false_alarm", "It polls.")


# A false alarm as a setting


async def test_a_false_alarm_is_offered_as_thresholds_that_would_not_have_raised_it(running):
    here, operator = running
    assert (await here.ask(headers=JSON, body=reading(7))).status == 429
    one = (await incident(operator, lambda shown: shown["tool"]))["id"]
    assert (await told(operator, "GET", f"{PATH}/{one}"))["suggestion"] is None
    suggestion = (await said(operator, one, "label", {"label": "false_alarm"}))["suggestion"]
    assert suggestion["tool"] == "read_file"
    assert suggestion["setting"] == {"thresholds": {"warn": 8, "block": 10}}
    assert "7 times" in suggestion["why"]
    await told(operator, "PUT", "/api/v1/tools/read_file", json=suggestion["setting"])
    # Of another task: what is refused stays so until its cooldown is over.
    assert (await here.ask(headers=JSON, body=reading(7, task="Another."))).status == 200
    assert (await here.ask(headers=JSON, body=reading(10, task="Another."))).status == 429
    assert (await told(operator, "GET", f"{PATH}/{one}"))["suggestion"] is None


async def test_of_very_many_rounds_the_tool_is_better_exempt(running):
    here, operator = running
    await here.ask(headers=JSON, body=reading(12))
    one = (await incident(operator, lambda shown: shown["tool"]))["id"]
    settings = {"thresholds": {"warn": 10, "block": 60}}
    await told(operator, "PUT", "/api/v1/tools/read_file", json=settings)
    suggestion = (await said(operator, one, "label", {"label": "false_alarm"}))["suggestion"]
    assert suggestion["setting"] == {"exempt": True}


async def test_that_a_refused_call_was_sent_again_does_not_hide_the_tool(running):
    here, operator = running
    for _ in range(8):
        await here.ask(headers=JSON, body=reading(7))
    shown = await incident(operator, lambda one: one["strip"] and one["calls"] == 8)
    assert {count["signal"] for count in shown["counts"]} > {"repeat"}
    shown = await said(operator, shown["id"], "label", {"label": "false_alarm"})
    assert (shown["tool"], shown["strip_unit"]) == ("read_file", "round")
    assert shown["suggestion"]["setting"] == {"thresholds": {"warn": 8, "block": 10}}


async def test_where_several_tools_go_round_none_is_blamed(running):
    here, operator = running
    rounds = [("read_file", {}, "the same as ever"), ("run_tests", {}, "1 failed, as before")] * 4
    await here.ask(headers=JSON, body=history(*rounds))
    one = (await incident(operator, lambda shown: shown["strip"]))["id"]
    shown = await said(operator, one, "label", {"label": "false_alarm"})
    assert (shown["tool"], shown["suggestion"]) == (None, None)


async def test_what_is_said_while_the_history_cannot_be_written_is_refused(running, monkeypatch):
    here, operator = running
    one = await looped(here, operator)
    await until(lambda: not here.app.recorder.writer.waiting)

    def broken(*_, **__):
        from looptrap.errors import DatabaseError

        raise DatabaseError("disk I/O error")

    monkeypatch.setattr(here.app.recorder.history, "put", broken)
    error = (await said(operator, one, "label", {"label": "confirmed"}, status=503))["error"]
    assert error["code"] == "history_unavailable"
