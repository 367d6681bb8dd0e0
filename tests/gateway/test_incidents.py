"""Incidents of a running gateway: kept, told once, shared, and not lost when it is killed."""

import asyncio
import json
import signal
import sqlite3
from contextlib import closing

import msgspec
import pytest
from standardwebhooks import Webhook
from tests.cli.serving import run
from tests.gateway.serving import JSON, chat, request, serving, until
from tests.incident.alert.receiving import Receiver, status

from looptrap.incident.model import Annotation
from looptrap.testing import FakeProvider

SECRET = "whsec_bG9vcHRyYXAtbG9vcHRyYXAtbG9vcHRyYXAtMTIz"
PROMPT = "Return the invoice of Miss Marple as JSON"
CHANNEL = """
[incidents]
quiet = {quiet}

[[channels]]
url = "{hook}"
secret_env = "HOOK_SECRET"
allow_private = true
allow_http = true
"""
ENV = {"HOOK_SECRET": SECRET}


@pytest.fixture
async def receiver():
    async with Receiver.running() as receiver:
        yield receiver


def telling(receiver, quiet=300):
    return CHANNEL.replace("{hook}", receiver.url).replace("{quiet}", str(quiet))


async def loop(here, times, body=None):
    """Send the same prompt so often; return the last answer."""
    client = await here.connect()
    answer = None
    for _ in range(times):
        await client.send(request(headers=JSON, body=body or chat(PROMPT)))
        answer = await client.answer()
    return answer


def incidents(here, state="all"):
    return here.app.recorder.history.incidents(state=state).items


async def kept(here, **expected):
    """Wait until the only incident has these values; return it."""

    def is_so():
        found = incidents(here)
        return len(found) == 1 and all(
            getattr(found[0], name) == value for name, value in expected.items()
        )

    await until(is_so)
    return incidents(here)[0]


def heard(receiver):
    """Return what arrived, every event once: names and data."""
    seen = {}
    for got in receiver.got:
        seen.setdefault(got.id, json.loads(got.body))
    return [(event["event"], event["data"].get("stage", "")) for event in seen.values()]


async def test_a_loop_is_one_incident_with_all_that_is_known_of_it(serve):
    here = await serve()
    await loop(here, 9)
    one = await kept(here, refused=4)
    assert (one.rule, one.signal, one.action) == ("identical-conversation", "conversation", "block")
    assert (one.calls, one.before, one.count, one.threshold) == (4, 5, 9, 6)
    assert (one.model, one.dialect, one.closed) == ("gpt-5.3", "openai_chat", None)
    assert one.caller == "addr:127.0.0.1"
    assert one.session.startswith("~")
    assert one.fingerprints == [one.fingerprint]
    assert one.saved_tokens > 0


async def test_a_prompt_that_grows_with_every_try_is_one_incident(serve):
    here = await serve()
    prompt = "Return the invoice below as JSON with the fields date, total and currency: Oslo 12 kr"
    for _ in range(10):
        await here.ask(headers=JSON, body=chat(prompt))
        prompt = f"That was not valid JSON. Try again: {prompt}"
    one = await kept(here, refused=4)
    assert one.signal == "similar_prompt"


async def test_what_is_simply_allowed_leaves_nothing(serve):
    here = await serve()
    for n in range(5):
        await here.ask(headers=JSON, body=chat(f"What is {n} + {n}?"))
    await here.app.stop()
    assert here.app.recorder.writer.written == 0


async def test_no_prompt_text_is_kept_or_told(serve, receiver, tmp_path):
    here = await serve(telling(receiver), env=ENV)
    await loop(here, 8)
    await until(lambda: receiver.got)
    await here.app.recorder.stop()
    files = b"".join(path.read_bytes() for path in tmp_path.glob("history.db*"))
    for text in (b"Marple", b"invoice"):
        assert text not in files
        assert text not in receiver.got[0].body


async def test_people_hear_of_a_loop_once_and_again_as_it_grows(serve, receiver):
    here = await serve(telling(receiver, quiet=3), env=ENV)
    await loop(here, 650)
    expected = [
        ("loop.detected", "detected"),
        ("loop.escalated", "2x"),
        ("loop.escalated", "10x"),
        ("loop.escalated", "100x"),
        ("loop.resolved", "resolved"),
    ]
    await until(lambda: len(heard(receiver)) >= len(expected))
    assert sorted(heard(receiver)) == sorted(expected)
    assert [one.closed is not None for one in incidents(here)] == [True]


async def test_the_last_alert_links_to_the_incident_and_says_who_acknowledged_it(serve, receiver):
    toml = 'public_url = "https://looptrap.example.com/"\n' + telling(receiver, quiet=1)
    here = await serve(toml, env=ENV)
    await loop(here, 6)
    one = await kept(here, refused=1)
    acknowledged = Annotation(
        id="1", incident=one.id, time=one.opened, by="ada", kind="acknowledge"
    )
    await here.app.recorder.annotate([acknowledged])
    await until(lambda: len(receiver.got) == 2)
    opened, over = (json.loads(got.body)["data"] for got in receiver.got)
    assert opened["url"] == over["url"] == f"https://looptrap.example.com/#/incidents/{one.id}"
    assert "acknowledged_by" not in opened
    assert (over["acknowledged_by"], over["acknowledged_at"]) == ("ada", one.opened)
    assert over["duration_seconds"] == pytest.approx(over["last_seen"] - over["first_seen"], abs=1)


async def test_an_alert_says_what_the_documentation_says_and_is_signed(serve, receiver):
    here = await serve(telling(receiver), env=ENV)
    refused = await loop(here, 6)
    await until(lambda: receiver.got)
    got = receiver.got[0]
    told = Webhook(SECRET).verify(got.body, got.headers)
    assert told["event"] == "loop.detected"
    assert told["request_id"] == refused.headers[b"x-request-id"].decode()
    detail = json.loads(refused.body)["detail"]
    for name in ("fingerprint", "hit_count", "cooldown_seconds", "rule"):
        assert told["data"][name] == detail[name]
    assert told["data"]["model"] == "gpt-5.3"


def failing(number):
    """Return a call of an agent whose first tool has just failed."""
    use = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": f"Sum up file {number}."},
        {"role": "assistant", "tool_calls": [use]},
        {"role": "tool", "tool_call_id": "c", "content": "error: the disk cannot be read"},
    ]
    return msgspec.json.encode({"model": "gpt-5.3", "messages": messages})


async def test_what_comes_before_an_incident_is_told_too(serve, receiver):
    here = await serve(telling(receiver) + "[indicators]\nwindow = 10\n", env=ENV)
    for number in range(20):
        assert (await here.ask(headers=JSON, body=failing(number))).status == 200
    await until(lambda: receiver.got)
    told = json.loads(receiver.got[0].body)
    assert (told["event"], told["data"]["indicator"]) == ("indicator.fired", "tool_errors")
    assert told["data"]["value"] == 1.0
    assert incidents(here) == []


async def test_shadow_mode_is_told_as_such(serve, receiver):
    toml = """
[[policies]]
name = "p"
mode = "shadow"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 3
"""
    here = await serve(telling(receiver) + toml, env=ENV)
    answer = await loop(here, 4)
    assert answer.status == 200
    one = await kept(here, calls=2)
    assert (one.mode, one.action, one.refused) == ("shadow", "block", 0)
    await until(lambda: receiver.got)
    data = json.loads(receiver.got[0].body)["data"]
    assert data["mode"] == "shadow"
    said = "Would have been refused (recursive_loop_detected): identical request sent {} times"
    assert data["message"] == f"{said.format(3)} in 60 seconds."
    assert one.message == f"{said.format(4)} in 60 seconds."


async def test_a_restart_goes_on_with_an_open_incident(tmp_path, receiver):
    for refused in (2, 4):
        async with serving(tmp_path, telling(receiver), env=ENV) as here:
            await loop(here, 7)
            one = await kept(here, refused=refused)
            await until(lambda: receiver.heard)
    assert one.calls == 4
    assert heard(receiver)[0] == ("loop.detected", "detected")
    assert [name for name, _ in heard(receiver)].count("loop.detected") == 1


class TestInstances:
    async def test_one_loop_over_two_instances_is_one_incident_told_once(self, instances, receiver):
        gateways = await instances(2, telling(receiver), env=ENV)
        for n in range(10):
            await gateways[n % 2].ask(headers=JSON, body=chat(PROMPT))
        for here in gateways:
            one = await kept(here, calls=5, refused=5)
        assert len(one.instance.split(", ")) == 2
        await until(lambda: receiver.got)
        await asyncio.gather(*(here.app.recorder.stop() for here in gateways))
        assert heard(receiver) == [("loop.detected", "detected")]

    async def test_one_that_starts_later_sees_what_was_before(self, instances):
        (first,) = await instances(1)
        await loop(first, 7)
        await kept(first, refused=2)
        (second,) = await instances(1)
        await kept(second, refused=2)

    async def test_a_store_that_is_away_is_told(self, instances, valkey, receiver):
        (here,) = await instances(1, telling(receiver), env=ENV)
        valkey.kill()
        await here.ask(headers=JSON, body=chat("Hello"))
        await until(lambda: receiver.got)
        assert heard(receiver) == [("store.degraded", "")]

    async def test_while_the_store_is_away_incidents_are_kept_and_told(
        self, instances, valkey, receiver
    ):
        (here,) = await instances(1, telling(receiver), env=ENV)
        valkey.kill()
        await loop(here, 7)
        await kept(here, refused=2)
        await until(lambda: ("loop.detected", "detected") in heard(receiver))


def waits_for_another_try(history):
    """Say whether an alert was accepted, tried, and not delivered."""
    with closing(sqlite3.connect(history)) as connection:
        tried = "SELECT 1 FROM letter WHERE attempts > 0 AND owner = '' AND state = 'pending'"
        return connection.execute(tried).fetchall()


class TestKilled:
    @pytest.mark.slow
    async def test_kill_9_loses_neither_the_incident_nor_the_alert(self, tmp_path, receiver):
        receiver.always = status(503)
        (tmp_path / "looptrap.toml").write_text(telling(receiver))
        flags = ("--config", "looptrap.toml", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        async with FakeProvider() as provider:
            flags += ("--upstream", provider.url)
            async with run(tmp_path, *flags, env=ENV) as gateway:
                gateway.url = (await gateway.hears(r"guards (https?://\S+)"))[1]
                for _ in range(6):
                    await gateway.ask(chat(PROMPT))
                await until(lambda: waits_for_another_try(tmp_path / "looptrap.db"))
                gateway.send(signal.SIGKILL)
                await gateway.ended()
            with closing(sqlite3.connect(tmp_path / "looptrap.db")) as connection:
                assert len(connection.execute("SELECT id FROM part").fetchall()) == 1
            receiver.always = None
            async with run(tmp_path, *flags, env=ENV):
                await until(lambda: receiver.heard)
        assert len(receiver.heard) == 1
        assert len({got.id for got in receiver.got}) == 1
        assert heard(receiver) == [("loop.detected", "detected")]
