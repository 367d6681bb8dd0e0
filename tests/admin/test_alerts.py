"""Alerts for operators: which channels there are, whether they work, and what got stuck."""

import asyncio
import json
import time

import msgspec
import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat, until
from tests.incident.alert.receiving import Receiver, hangs, status

from looptrap.admin import alert
from looptrap.incident.history import OutgoingEvent
from looptrap.incident.model import AlertEvent

PATH = "/api/v1/alerts"

TWO = """
[[channels]]
name = "ops"
url = "{hook}"
allow_http = true
allow_private = true

[[channels]]
name = "team"
kind = "slack"
url_env = "TEAM_URL"
events = ["loop.*"]
projects = ["red"]
allow_http = true
allow_private = true
"""

GONE = status(410)


@pytest.fixture
async def receiver():
    async with Receiver.running() as receiver:
        yield receiver


@pytest.fixture
async def running(tmp_path, receiver):
    toml = TWO.replace("{hook}", receiver.url)
    async with operating(tmp_path, toml, env={"TEAM_URL": receiver.url}) as (here, operator):
        yield here, operator


def event(number=1, **changes):
    given = {"id": f"evt_{number}", "name": "loop.detected", "time": time.time(), "title": "Loop"}
    return AlertEvent(**{**given, **changes})


async def put(here, *events, channels=("ops",)):
    outgoing = [OutgoingEvent(one, channels) for one in events]
    await asyncio.to_thread(here.app.recorder.history.put, [], outgoing)
    here.app.recorder.deliverer.wake()


async def letters(operator, **wanted):
    return (await told(operator, "GET", f"{PATH}/letters", params=wanted))["letters"]


async def wait_for(operator, number, **wanted):
    """Wait until there are so many letters; return them."""
    found = []

    async def are_there():
        found[:] = await letters(operator, **wanted)
        return len(found) == number

    await until(are_there)
    return found


async def test_channels_are_listed_without_what_may_be_secret(running, receiver):
    _, operator = running
    found = await told(operator, "GET", PATH)
    counts = {"pending": 0, "delivered": 0, "dead": 0}
    none = {**counts, "attempts": 0}
    assert found == {
        "channels": [
            {"name": "ops", "kind": "webhook", "to": "127.0.0.1", "events": ["*"],
             "projects": [], **none},
            {"name": "team", "kind": "slack", "to": "$TEAM_URL", "events": ["loop.*"],
             "projects": ["red"], **none},
        ],
        "letters": counts,
    }  # fmt: skip
    assert "secret" in receiver.url
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("settings", "to"),
    [
        ({"url": "https://user:pass@ops.example.com:8443/a?b=c"}, "ops.example.com"),
        ({"url": "https://[2001:db8::1]/a"}, "2001:db8::1"),
        ({"kind": "slack", "url": "https://hooks.slack.com/services/T/B/X"}, "hooks.slack.com"),
        ({"kind": "apprise", "url": "discord://4174216298/JHMHI8qBe7bk2"}, "discord"),
        ({"url_env": "HOOK"}, "$HOOK"),
    ],
    ids=["credentials", "IPv6", "slack", "apprise", "variable"],
)
def test_of_where_a_channel_leads_only_the_host_is_shown(settings, to):
    shown = alert.channel_settings_view(alert.ChannelSettings(name="x", **settings))
    assert shown["to"] == to


async def test_a_loop_is_delivered_and_counted(running, receiver):
    here, operator = running
    for _ in range(7):
        await here.ask(headers=JSON, body=chat())
    [letter] = await wait_for(operator, 1, state="delivered")
    assert (letter["name"], letter["channel"], letter["attempts"]) == ("loop.detected", "ops", 1)
    assert receiver.heard == [letter["event"]]
    assert await told(operator, "GET", f"/api/v1/incidents/{letter['incident']}")
    found = await told(operator, "GET", PATH)
    ops = found["channels"][0]
    assert (ops["delivered"], ops["attempts"], found["letters"]["delivered"]) == (1, 1, 1)


async def test_every_channel_is_tried_at_once(running, receiver):
    _, operator = running
    found = await told(operator, "POST", f"{PATH}/test", json={})
    assert found["channels"] == [
        {"channel": "ops", "ok": True, "error": None},
        {"channel": "team", "ok": True, "error": None},
    ]
    webhook, slack = sorted(receiver.got, key=lambda got: "webhook-id" not in got.headers)
    sent = msgspec.json.decode(webhook.body)
    assert (sent["data"]["test"], sent["data"]["channel"]) == (True, "ops")
    assert "blocks" in msgspec.json.decode(slack.body)
    assert await letters(operator) == []


async def test_one_channel_is_tried_and_what_is_wrong_is_said_in_words(running, receiver):
    _, operator = running
    receiver.always = status(500)
    found = await told(operator, "POST", f"{PATH}/test", json={"channel": "ops"})
    [one] = found["channels"]
    assert (one["channel"], one["ok"]) == ("ops", False)
    assert one["error"] == f"http://127.0.0.1:{receiver.port} answered 500"
    assert len(receiver.got) == 1


async def test_a_channel_that_hangs_holds_nobody_up_for_long(running, receiver, monkeypatch):
    _, operator = running
    monkeypatch.setattr(alert, "TEST_TIMEOUT_S", 0.05)
    receiver.always = hangs
    found = await told(operator, "POST", f"{PATH}/test", json={"channel": None})
    assert [one["error"] for one in found["channels"]] == ["no answer in 0.05 s"] * 2


async def test_a_mistake_inside_a_channel_fails_that_channel_alone(running, receiver, monkeypatch):
    here, operator = running

    async def broken(_event):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(here.app.recorder.channels[0], "send", broken)
    found = await told(operator, "POST", f"{PATH}/test", json={})
    assert [one["error"] for one in found["channels"]] == ["internal error (RuntimeError)", None]


@pytest.mark.parametrize(
    ("path", "sent", "code", "says"),
    [
        ("test", {"channel": "opps"}, 404, "No channel is called opps; there are ops and team."),
        ("test", {"channel": 7}, 400, "channel: is 7"),
        ("test", {"chanel": "ops"}, 400, "did you mean channel?"),
        ("test", ["ops"], 400, "is a list, must be a table"),
        ("resend", {}, 400, 'Send {"event": "evt_…"} or {"state": "dead"}.'),
        ("resend", {"event": "evt_1", "state": "dead"}, 400, "Send "),
        ("resend", {"state": "delivered"}, 400, 'must be "dead"'),
    ],
    ids=["unknown", "a number", "misspelt", "a list", "nothing", "both", "not dead"],
)
async def test_mistakes_are_told_in_words(running, path, sent, code, says):
    _, operator = running
    error = (await told(operator, "POST", f"{PATH}/{path}", json=sent, status=code))["error"]
    assert says in error["message"]


@pytest.mark.parametrize("query", ["state=lost", "limit=0", "cursor=x", f"cursor=-{10**30}"])
async def test_wrong_parameters_are_told_by_place(running, query):
    _, operator = running
    error = (await told(operator, "GET", f"{PATH}/letters?{query}", status=400))["error"]
    assert [one["place"] for one in error["problems"]] == [query.partition("=")[0]]


async def test_dead_letters_are_listed_with_the_reason_and_sent_again(running, receiver):
    here, operator = running
    receiver.always = GONE
    used_up = event(2, name="budget.exceeded", data={"breach_id": "bud_1"})
    await put(here, event(1, incident="inc_1"), used_up)
    second, first = await wait_for(operator, 2, state="dead")
    assert (first["event"], first["incident"], second["incident"]) == ("evt_1", "inc_1", None)
    assert [one["breach"] for one in (first, second)] == [None, "bud_1"]
    assert first["error"] == f"http://127.0.0.1:{receiver.port} answered 410"
    assert (first["due"], first["state"]) == (None, "dead")
    receiver.always = None
    answer = await told(operator, "POST", f"{PATH}/resend", json={"event": "evt_1"})
    assert answer == {"resent": 1}
    await wait_for(operator, 1, state="delivered")
    assert receiver.heard == ["evt_1"]
    answer = await told(operator, "POST", f"{PATH}/resend", json={"state": "dead"})
    assert answer == {"resent": 1}
    await wait_for(operator, 2, state="delivered")
    assert receiver.heard == ["evt_1", "evt_2"]
    answer = await told(operator, "POST", f"{PATH}/resend", json={"state": "dead"})
    assert answer == {"resent": 0}


async def test_what_was_delivered_is_not_told_again_with_what_was_not(running, receiver):
    here, operator = running
    await put(here, event(1), channels=("ops",))
    await wait_for(operator, 1, state="delivered")
    receiver.always = GONE
    await put(here, event(1), channels=("team",))
    await wait_for(operator, 1, state="dead")
    receiver.always = None
    for channel, resent in (("ops", 0), ("team", 1)):
        sent = {"event": "evt_1", "channel": channel}
        assert await told(operator, "POST", f"{PATH}/resend", json=sent) == {"resent": resent}
    await wait_for(operator, 2, state="delivered")
    assert receiver.heard.count("evt_1") == 1


async def test_pages_lead_through_all_letters(running):
    here, operator = running
    await put(here, *(event(number) for number in range(25)))
    await wait_for(operator, 25, state="delivered")
    seen, cursor = [], {}
    for _ in range(3):
        page = await told(operator, "GET", f"{PATH}/letters", params={"limit": 10, **cursor})
        seen += [one["event"] for one in page["letters"]]
        cursor = {"cursor": page["next"]}
    assert page["next"] is None
    assert seen == [f"evt_{number}" for number in reversed(range(25))]


async def test_without_channels_there_is_nothing_to_test(tmp_path):
    async with operating(tmp_path) as (_, operator):
        assert await told(operator, "POST", f"{PATH}/test", json={}) == {"channels": []}
        error = await told(operator, "POST", f"{PATH}/test", json={"channel": "x"}, status=404)
        assert "none is set" in error["error"]["message"]
