"""The gateway as a whole: keys, request ids, calls held back, the access log."""

import asyncio
import io
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from tests.gateway.serving import CHAT, JSON, chat, request
from tests.wire.fake_client import until

from looptrap.errors import ConfigError
from looptrap.gateway import keys
from looptrap.gateway.handler import MAX_DELAYED_CALLS
from looptrap.testing import Gate, Reply

MESSAGES, GEMINI = "/v1/messages", "/v1beta/models/gemini-3.1-pro:generateContent"

KEYED = """
[[providers]]
name = "openai"
base_url = "{url}/v1"
api_key_env = "OPENAI_API_KEY"

[[providers]]
name = "anthropic"
base_url = "{url}"
api_key_env = "ANTHROPIC_API_KEY"
auth = "x-api-key"

[[providers]]
name = "gemini"
base_url = "{url}"
api_key_env = "GEMINI_API_KEY"
auth = "x-goog-api-key"
"""
ENV = {
    "OPENAI_API_KEY": "sk-openai",
    "ANTHROPIC_API_KEY": "sk-anthropic",
    "GEMINI_API_KEY": "goog-key",
}
CREDENTIALS = {"authorization", "x-api-key", "api-key", "x-goog-api-key", "x-looptrap-key"}


def contents(text="Again?"):
    return msgspec.json.encode({"contents": [{"role": "user", "parts": [{"text": text}]}]})


# Keys


@pytest.mark.parametrize(
    ("target", "body", "sent_as", "injected"),
    [
        pytest.param(CHAT, chat(), "Bearer", ("authorization", "Bearer sk-openai"), id="openai"),
        pytest.param(CHAT, chat(), "api-key", ("authorization", "Bearer sk-openai"), id="azure"),
        pytest.param(MESSAGES, chat(), "x-api-key", ("x-api-key", "sk-anthropic"), id="anthropic"),
        pytest.param(MESSAGES, chat(), "Bearer", ("x-api-key", "sk-anthropic"), id="its bearer"),
        pytest.param(
            GEMINI, contents(), "x-goog-api-key", ("x-goog-api-key", "goog-key"), id="gemini"
        ),
        pytest.param(GEMINI, contents(), "?key=", ("x-goog-api-key", "goog-key"), id="its query"),
    ],
)
async def test_a_gateway_key_is_replaced_by_the_providers(serve, target, body, sent_as, injected):
    here = await serve(KEYED, env=ENV, upstream=None)
    key = here.add_key()
    headers = dict(JSON)
    if sent_as == "Bearer":
        headers["Authorization"] = f"Bearer {key}"
    elif sent_as == "?key=":
        target += f"?alt=json&key={key}&x=1"
    else:
        headers[sent_as] = key
    answer = await here.ask(target=target, headers=headers, body=body)
    assert answer.status == 200
    (received,) = here.provider.requests
    assert {n: v for n, v in received.headers.items() if n in CREDENTIALS} == dict([injected])
    assert key not in received.target
    assert key not in str(received.headers)
    if sent_as == "?key=":
        assert received.target == f"{GEMINI}?alt=json&x=1"


@pytest.mark.parametrize(
    ("target", "headers", "own"),
    [
        (CHAT, {"Authorization": "Bearer sk-own"}, "Bearer sk-own"),
        (MESSAGES, {"x-api-key": "sk-own"}, "sk-own"),
        (f"{GEMINI}?key=own", {}, "own"),
    ],
    ids=["bearer", "x-api-key", "?key="],
)
async def test_beside_an_own_credential_the_key_only_says_who_calls(serve, target, headers, own):
    here = await serve(KEYED, env=ENV, upstream=None)
    body = contents() if "key=" in target else chat()
    sent = JSON | headers | {"X-Looptrap-Key": here.add_key()}
    assert (await here.ask(target=target, headers=sent, body=body)).status == 200
    (received,) = here.provider.requests
    assert received.target == target
    expected = {name.lower(): own for name in headers}
    assert {n: v for n, v in received.headers.items() if n in CREDENTIALS} == expected


async def test_without_a_key_for_the_provider_the_caller_is_told_so(serve):
    here = await serve(KEYED, env={}, upstream=None)
    headers = JSON | {"Authorization": f"Bearer {here.add_key()}"}
    answer = await here.ask(headers=headers, body=chat())
    assert answer.status == 401
    error = msgspec.json.decode(answer.body)["error"]
    assert error["code"] == "missing_provider_key"
    assert "no key for openai" in error["message"]
    assert here.provider.requests == []


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        (CHAT, {"type": "invalid_request_error", "code": "invalid_api_key"}),
        (MESSAGES, {"type": "authentication_error"}),
        (GEMINI, {"code": 401, "status": "UNAUTHENTICATED"}),
    ],
    ids=["openai", "anthropic", "gemini"],
)
async def test_an_unknown_key_is_refused_in_the_dialect(serve, target, shape):
    here = await serve(KEYED, env=ENV, upstream=None)
    here.add_key()
    headers = JSON | {"Authorization": "Bearer lt-00000000-wrong", "X-Request-Id": "mine"}
    answer = await here.ask(target=target, headers=headers, body=chat())
    assert answer.status == 401
    assert answer.headers[b"x-request-id"] == b"mine"
    error = msgspec.json.decode(answer.body)["error"]
    assert {name: error[name] for name in shape} == shape
    assert "wrong" not in answer.body.decode()
    assert here.provider.requests == []


async def test_who_may_not_call_is_told_before_sending_a_body(serve):
    here = await serve(KEYED, env=ENV, upstream=None)
    here.add_key()
    client = await here.connect()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    await client.send(head.encode())
    assert (await client.answer()).status == 401


async def test_a_key_added_while_running_is_known_within_two_seconds(serve):
    here = await serve(KEYED, env=ENV, upstream=None)
    assert (await here.ask(headers=JSON, body=chat())).status == 200  # open so far
    generation = here.app.ring.generation
    _, key = keys.add(here.state, "late", now=datetime.now(UTC))
    async with asyncio.timeout(2):
        while here.app.ring.generation == generation:
            await asyncio.sleep(0.01)
    assert (await here.ask(headers=JSON, body=chat())).status == 401
    headers = JSON | {"Authorization": f"Bearer {key}"}
    assert (await here.ask(headers=headers, body=chat())).status == 200


PROJECTS = """
[[projects]]
name = "strict"
threshold = 2

[[projects]]
name = "watched"
detection = "shadow"
threshold = 2
"""


@pytest.mark.parametrize(
    ("project", "statuses", "shadow"),
    [
        pytest.param("", [200, 200, 200], None, id="no project: the preset's six"),
        pytest.param("strict", [200, 429, 429], None, id="a threshold of its own"),
        pytest.param("watched", [200, 200, 200], b"block", id="in shadow"),
    ],
)
async def test_the_settings_of_a_keys_project_apply(serve, project, statuses, shadow):
    here = await serve(KEYED + PROJECTS, env=ENV, upstream=None)
    headers = JSON | {"Authorization": f"Bearer {here.add_key(project=project)}"}
    answers = [await here.ask(headers=headers, body=chat()) for _ in range(3)]
    assert [answer.status for answer in answers] == statuses
    assert answers[-1].headers.get(b"x-looptrap-shadow") == shadow


async def test_callers_do_not_share_counts(serve):
    here = await serve(KEYED, env=ENV, upstream=None)
    texts = [here.add_key(name) for name in ("one", "two", "three")]
    for _ in range(5):
        for key in texts:
            headers = JSON | {"Authorization": f"Bearer {key}"}
            assert (await here.ask(headers=headers, body=chat())).status == 200


# Request ids


async def test_the_clients_request_id_is_kept_and_missing_ones_are_made(serve):
    here = await serve()
    own = await here.ask(headers=JSON | {"X-Request-Id": "mine"}, body=chat("a"))
    made = [await here.ask(headers=JSON, body=chat(text)) for text in ("b", "c")]
    assert own.headers[b"x-request-id"] == b"mine"
    assert here.provider.requests[0].headers["x-request-id"] == "mine"
    assert len({answer.headers[b"x-request-id"] for answer in made} - {b""}) == 2


# Calls held back

THROTTLE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  action = "throttle"
"""


async def repeat_silently(here, times):
    """Raise the count of a call without sending it anywhere: the delay grows with it."""
    client = await here.connect()
    for _ in range(times):
        await client.send(request(target=f"/looptrap/decision{CHAT}", headers=JSON, body=chat()))
        assert (await client.answer()).status == 200


async def test_no_more_than_256_calls_are_held_back_the_next_is_refused(serve):
    here = await serve(THROTTLE)
    await repeat_silently(here, 60)
    sleepers = [await here.connect() for _ in range(MAX_DELAYED_CALLS)]
    for client in sleepers:
        await client.send(request(headers=JSON, body=chat()))
    await until(lambda: len(here.app.gateway._delayed) == MAX_DELAYED_CALLS)
    answer = await here.ask(headers=JSON, body=chat())
    assert answer.status == 429
    assert answer.headers[b"x-looptrap-verdict"] == b"block"
    assert answer.headers[b"x-should-retry"] == b"false"
    assert here.provider.calls == 0
    for client in sleepers:
        client.close()
    await until(lambda: not here.app.gateway._delayed)
    assert here.app.tally.verdicts["block"] == 1


async def test_a_call_whose_client_leaves_while_held_back_is_never_sent(serve):
    here = await serve(THROTTLE)
    await repeat_silently(here, 60)
    client = await here.connect()
    await client.send(request(headers=JSON, body=chat()))
    await until(lambda: here.app.gateway._delayed)
    (relay,) = here.app.gateway._delayed
    before = here.app.tally.verdicts["throttle"]
    client.close()
    await until(lambda: not here.app.gateway._delayed)
    assert relay.timer is None
    assert here.provider.requests == []
    assert here.app.tally.verdicts["throttle"] == before + 1, "it was judged, so it counts"


async def test_stopping_wakes_who_is_held_back(serve):
    here = await serve(THROTTLE)
    await repeat_silently(here, 60)
    client = await here.connect()
    await client.send(request(headers=JSON, body=chat()))
    await until(lambda: here.app.gateway._delayed)
    stopping = asyncio.ensure_future(here.app.stop())
    assert (await client.answer()).status == 200
    await stopping


# Stopping


async def test_stopping_lets_answers_in_flight_finish(serve):
    gate = Gate()
    here = await serve(script=[Reply.pause(gate)])
    client = await here.connect()
    await client.send(request(headers=JSON, body=chat()))
    await gate.reached.wait()
    stopping = asyncio.ensure_future(here.app.stop())
    await until(lambda: here.app.server.draining)
    with pytest.raises(OSError):
        await here.connect()
    gate.open()
    answer = await client.answer()
    assert answer.status == 200
    assert answer.headers[b"connection"] == b"close"
    await stopping


async def test_new_calls_are_accepted_while_load_balancers_notice_the_end(serve):
    here = await serve("[gateway]\nstop_delay = 600")
    waiting = await here.connect()
    stopping = asyncio.ensure_future(here.app.stop())
    await until(lambda: here.app.server.draining)
    for client in (waiting, await here.connect()):
        await client.send(request(headers=JSON, body=chat()))
        answer = await client.answer()
        assert (answer.status, answer.headers[b"connection"]) == (200, b"close")
        assert await client.rest() == b""
    assert not stopping.done()
    stopping.cancel()
    here.app.config = replace(
        here.app.config, gateway=replace(here.app.config.gateway, stop_delay=0)
    )


async def test_two_gateways_cannot_listen_at_one_address(serve):
    here = await serve()
    with pytest.raises(ConfigError, match=rf"cannot listen at 127.0.0.1:{here.port}: .*in use"):
        await serve(listen=f"127.0.0.1:{here.port}")


async def test_a_file_of_authorities_that_is_missing_is_found_out_at_the_start(serve):
    with pytest.raises(ConfigError, match=r"upstream_ca: nowhere\.pem: no such file"):
        await serve("[gateway]\nupstream_ca = 'nowhere.pem'")


# The access log


@pytest.mark.parametrize("form", ["text", "json"])
async def test_the_log_says_what_became_of_a_call_and_nothing_of_its_content(serve, capsys, form):
    here = await serve(access_log=form)
    headers = JSON | {"Authorization": "Bearer sk-secret-credential", "X-Request-Id": "r 1"}
    target = f"{CHAT}?key=secret-query"
    for _ in range(6):
        await here.ask(target=target, headers=headers, body=chat("my secret prompt"))
    await here.app.stop()
    printed = capsys.readouterr().out
    assert "secret" not in printed
    lines = printed.splitlines()
    assert len(lines) == 6
    if form == "json":
        last = json.loads(lines[-1])
    else:
        assert 'request_id="r 1"' in lines[-1]
        last = dict(pair.split("=", 1) for pair in lines[-1].replace("r 1", "r_1").split(" "))
    assert last["path"] == CHAT
    assert (last["method"], str(last["status"]), last["verdict"]) == ("POST", "429", "block")
    assert (last["rule"], str(last["count"])) == ("identical-conversation", "6")
    assert last["model"] == "gpt-5.3"
    assert last["caller"].startswith("cred:")


async def test_the_log_is_off_by_default(serve, capsys):
    here = await serve()
    await here.ask(headers=JSON, body=chat())
    await here.app.stop()
    assert capsys.readouterr().out == ""


async def test_a_log_that_nobody_reads_harms_no_call(serve, monkeypatch):
    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    here = await serve(access_log="text")
    unhandled = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    monkeypatch.setattr(sys, "stdout", Broken())
    client = await here.connect()
    statuses = []
    for _ in range(6):
        await client.send(request(headers=JSON, body=chat()))
        statuses.append((await client.answer()).status)
    assert statuses == [200] * 5 + [429]
    assert here.app.server.handler_errors == 0
    assert unhandled == []
