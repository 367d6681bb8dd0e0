"""Attempts: what is tried again, where, how often; and what the client gets in the end."""

from contextlib import AsyncExitStack

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.gateway.serving import CHAT, JSON, chat, request, until
from tests.gateway.upstream_serving import (
    CHAIN,
    OVERLOADED,
    RETRIED,
    STREAM,
    TICKS,
    attempting,
    failing,
)

from looptrap.testing import Gate, Reply

NO_RETRY = b"x-should-retry"
OK = [Reply.text("ok")]


@pytest.fixture
async def attempt(tmp_path):
    async with AsyncExitStack() as stack:

        async def start(routes, *scripts, **options):
            named = dict(zip(("one", "two", "three"), scripts, strict=False))
            context = attempting(tmp_path, routes, scripts=named, **options)
            return await stack.enter_async_context(context)

        yield start


def code_of(answer):
    return msgspec.json.decode(answer.body)["error"]["code"]


@pytest.mark.parametrize(
    ("script", "status", "attempts", "is_final"),
    [
        pytest.param(OK, 200, 1, False, id="a success"),
        pytest.param(failing(503), 200, 2, False, id="one failure"),
        pytest.param(failing(500, 502), 200, 3, False, id="two"),
        pytest.param(failing(503, 503, 504, 500), 504, 3, True, id="three are all there are"),
        pytest.param(failing(429), 200, 2, False, id="a limit"),
        pytest.param(
            failing(429, headers={"retry-after-ms": "3"}), 200, 2, False, id="for moments"
        ),
        pytest.param(failing(429, headers={"Retry-After": "61"}), 429, 1, True, id="for long"),
        pytest.param(failing(529), 200, 2, False, id="overloaded"),
        pytest.param(failing(400), 400, 1, True, id="a bad request"),
        pytest.param(failing(401), 401, 1, True, id="not allowed"),
        pytest.param(failing(404), 404, 1, True, id="an unknown model"),
        pytest.param(failing(413), 413, 1, True, id="too large"),
        pytest.param(
            [Reply.status(429, {"error": {"code": "insufficient_quota"}}), *OK],
            429,
            1,
            True,
            id="a quota that is spent",
        ),
        pytest.param([Reply.drop(), *OK], 200, 2, False, id="a connection that is lost"),
        pytest.param(
            [Reply.drop(after_bytes=0), *OK], 200, 2, False, id="a head without a byte of its body"
        ),
        pytest.param([Reply.raw(b"SSH-2.0\r\n"), *OK], 200, 2, False, id="no HTTP"),
    ],
)
async def test_what_is_tried_again(attempt, script, status, attempts, is_final):
    here = await attempt(RETRIED, script)
    answer = await here.ask()
    assert answer.status == status
    assert here.asked() == attempts
    assert answer.headers[b"x-looptrap-attempts"] == b"%d" % attempts
    assert answer.headers[b"x-looptrap-provider"] == b"one"
    assert answer.headers.get(NO_RETRY) == (b"false" if is_final else None)
    assert here.dispatch.attempts["one"] == attempts
    assert here.dispatch.retries["one"] == attempts - 1


async def test_the_providers_own_answer_is_passed_on_in_the_end(attempt):
    body = b'{"error":{"message":"no room","type":"server_error","code":null}}'
    headers = {"Retry-After": "0", "X-Own": "kept", "x-should-retry": "true"}
    here = await attempt(RETRIED, [Reply.status(503, body, headers)])
    answer = await here.ask()
    assert (answer.status, answer.body) == (503, body)
    assert answer.headers[b"retry-after"] == b"0"
    assert answer.headers[b"x-own"] == b"kept"
    assert answer.headers[NO_RETRY] == b"false"
    assert here.asked() == 3


async def test_what_the_provider_says_of_retries_does_not_stand_beside_what_we_say(attempt):
    here = await attempt(RETRIED, [Reply.status(400, headers={"X-Should-Retry": "true"})])
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=chat()))
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert head.lower().count(NO_RETRY) == 1
    assert here.asked() == 3


async def test_a_failed_answer_too_long_to_be_kept_is_passed_on_whole(attempt):
    body = b"x" * 300_000
    here = await attempt(RETRIED, [Reply.status(400, body)])
    answer = await here.ask()
    assert (answer.status, answer.body) == (400, body)
    assert here.asked() == 1


async def test_a_provider_that_never_answers_is_a_502_in_our_words(attempt):
    here = await attempt(RETRIED, [Reply.drop()])
    answer = await here.ask()
    assert (answer.status, code_of(answer)) == (502, "upstream_reset")
    assert b"one: dropped" in answer.body
    assert answer.headers[NO_RETRY] == b"false"
    assert (here.asked(), answer.headers[b"x-looptrap-attempts"]) == (3, b"3")
    await until(lambda: here.gateway.app.tally.statuses[0] == 1)


async def test_the_next_provider_gets_the_call_with_its_own_model(attempt):
    here = await attempt(CHAIN, failing(503), OK)
    answer = await here.ask(chat("about \"model\": 'x'", temperature=0))
    assert answer.status == 200
    assert answer.headers[b"x-looptrap-provider"] == b"two"
    assert answer.headers[b"x-looptrap-attempts"] == b"2"
    (first,), (second,) = here.providers["one"].requests, here.providers["two"].requests
    assert first.body == chat("about \"model\": 'x'", temperature=0)
    assert second.body == first.body.replace(b'"gpt-5.3"', b'"model-two"')
    assert here.dispatch.failovers == {"one": 0, "two": 1}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_permanent_error_goes_nowhere_else(attempt, status):
    here = await attempt(CHAIN, failing(status), OK)
    answer = await here.ask()
    assert answer.status == status
    assert answer.headers[NO_RETRY] == b"false"
    assert here.asked("two") == 0


async def test_without_attempts_or_a_second_link_there_is_one_attempt(attempt):
    here = await attempt('[[routes]]\nprovider = "one"\n', failing(503))
    answer = await here.ask()
    assert answer.status == 503
    assert here.asked() == 1
    assert answer.headers[b"x-looptrap-provider"] == b"one"
    assert NO_RETRY not in answer.headers
    assert b"x-looptrap-attempts" not in answer.headers


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [("GET", "/v1/models", b""), ("POST", "/v1/files", b"{}")],
    ids=["a list of models", "a file"],
)
async def test_what_asks_no_model_goes_to_the_first_place_once(attempt, method, target, body):
    here = await attempt(CHAIN, lambda _: Reply.status(503), OK)
    answer = await here.gateway.ask(method, target, JSON, body)
    assert answer.status == 503
    assert (here.asked("one"), here.asked("two")) == (1, 0)


@pytest.mark.parametrize(
    ("target", "body"),
    [
        pytest.param("/v1/embeddings", {"model": "m", "input": "x"}, id="embeddings"),
        pytest.param(
            "/v1/responses",
            {"model": "m", "input": "x", "previous_response_id": "resp_1"},
            id="a history that one provider has",
        ),
    ],
)
async def test_what_only_one_provider_can_answer_stays_there(attempt, target, body):
    chain = CHAIN.replace('["one"', '["one/other"')
    here = await attempt(chain + "attempts = 2\n", lambda _: Reply.status(503), OK)
    answer = await here.ask(msgspec.json.encode(body), target)
    assert answer.status == 503
    assert (here.asked("one"), here.asked("two")) == (2, 0)
    model = here.providers["one"].requests[0].json()["model"]
    assert model == ("m" if "embeddings" in target else "other")


# Streams


ANTHROPIC = msgspec.json.encode(
    {
        "model": "c",
        "max_tokens": 9,
        "stream": True,
        "messages": [{"role": "user", "content": "x"}],
    }
)
RESPONSES = msgspec.json.encode({"model": "m", "input": "x", "stream": True})
GEMINI = msgspec.json.encode({"contents": [{"role": "user", "parts": [{"text": "x"}]}]})
START = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m"}}\n\n'
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
CREATED = (
    b'event: response.created\ndata: {"type":"response.created","response":{"error":null}}\n\n'
)
FAILED = {"type": "response.failed", "response": {"error": {"code": "server_error"}}}
TARGETS = {
    "chat": (CHAT, STREAM),
    "messages": ("/v1/messages", ANTHROPIC),
    "responses": ("/v1/responses", RESPONSES),
    "gemini": ("/v1/models/g:streamGenerateContent?alt=sse", GEMINI),
    "gemini array": ("/v1/models/g:streamGenerateContent", GEMINI),
}


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        pytest.param("chat", Reply.sse({"error": {"message": "x", "code": 503}}), id="chat"),
        pytest.param(
            "chat", Reply.sse(b": processing\n\n", {"error": {"code": 502}}), id="comment"
        ),
        pytest.param("messages", Reply.sse(OVERLOADED), id="messages at once"),
        pytest.param("messages", Reply.sse(START, PING, OVERLOADED), id="messages after openings"),
        pytest.param("messages", Reply.sse(START[:20], START[20:], OVERLOADED), id="in pieces"),
        pytest.param("responses", Reply.sse(CREATED, FAILED), id="responses"),
        pytest.param("responses", Reply.sse({"type": "error", "code": "server_error"}), id="error"),
        pytest.param(
            "gemini", Reply.sse({"error": {"code": 503, "status": "UNAVAILABLE"}}), id="gemini"
        ),
        pytest.param(
            "gemini array", Reply.sse(b'[{"error": {"code": 503}}\n]'), id="gemini in an array"
        ),
        pytest.param("chat", Reply.drop(Reply.sse(*TICKS), after_chunks=0), id="a head alone"),
        pytest.param(
            "messages", Reply.drop(Reply.sse(START), after_chunks=1), id="an opening alone"
        ),
    ],
)
async def test_a_stream_that_fails_before_it_says_anything_is_asked_for_again(attempt, kind, bad):
    target, body = TARGETS[kind]
    here = await attempt(RETRIED, [bad, Reply.text("fine")])
    answer = await here.ask(body, target)
    assert answer.status == 200
    assert b"fine" in answer.body
    assert b"error" not in answer.body.replace(b'"error":null', b"")
    assert here.asked() == 2


async def test_a_stream_that_fails_for_good_is_passed_on_as_it_is(attempt):
    events = [START, b"event: error\ndata: " + msgspec.json.encode(OVERLOADED) + b"\n\n"]
    here = await attempt(RETRIED, [Reply.sse(*events)])
    answer = await here.ask(ANTHROPIC, "/v1/messages")
    assert (answer.status, answer.body) == (200, b"".join(events))
    assert answer.headers[NO_RETRY] == b"false"
    assert here.asked() == 3


async def test_a_permanent_error_in_a_stream_is_not_asked_for_again(attempt):
    event = {"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}
    here = await attempt(CHAIN, [Reply.sse(event)], OK)
    answer = await here.ask(ANTHROPIC, "/v1/messages")
    assert b"invalid_request_error" in answer.body
    assert (here.asked("one"), here.asked("two")) == (1, 0)


async def test_a_good_stream_is_passed_on_chunk_by_chunk(attempt):
    gate = Gate()
    here = await attempt(RETRIED, [Reply.sse(TICKS[0], gate, *TICKS[1:])])
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=STREAM))
    assert (await client.head())[0] == 200
    chunks = client.chunks()
    assert await anext(chunks) == TICKS[0]
    gate.open()
    assert b"".join([chunk async for chunk in chunks]) == b"".join(TICKS[1:])


async def test_an_opening_that_nothing_follows_is_not_held_back_for_long(attempt, monkeypatch):
    monkeypatch.setattr("looptrap.gateway.upstream.routed_request.PEEK_TIMEOUT_S", 0.01)
    gate = Gate()
    here = await attempt(RETRIED, [Reply.sse(START, gate, PING)])
    client = await here.gateway.connect()
    await client.send(request(target="/v1/messages", headers=JSON, body=ANTHROPIC))
    await client.head()
    chunks = client.chunks()
    assert await anext(chunks) == START
    gate.open()
    assert [chunk async for chunk in chunks] == [PING]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        pytest.param("chat", b'data: {"error":', id="chat"),
        pytest.param("messages", b"event: error\ndata: ", id="messages"),
        pytest.param("responses", b"event: error\ndata: ", id="responses"),
        pytest.param("gemini", b'data: {"error":', id="gemini"),
    ],
)
@pytest.mark.parametrize(
    "routes", [RETRIED, '[[routes]]\nprovider = "one"\n'], ids=["plan", "plain"]
)
async def test_a_stream_that_breaks_off_ends_with_an_error_and_is_never_replayed(
    attempt, kind, told, routes
):
    target, body = TARGETS[kind]
    dropped = Reply.drop(Reply.text("never to be finished"), after_chunks=3)
    here = await attempt(routes, [dropped, *OK])
    answer = await here.ask(body, target)
    assert answer.status == 200
    sent, found, error = answer.body.partition(told)
    assert sent.endswith(b"\n\n")
    assert found
    assert b"upstream_reset" in error or b"UPSTREAM_RESET" in error
    assert here.asked() == 1
    await until(lambda: here.gateway.app.tally.statuses[200] == 1)


async def test_a_stream_that_breaks_off_inside_an_event_is_cut(attempt):
    here = await attempt(RETRIED, [Reply.drop(Reply.sse(*TICKS), after_bytes=len(TICKS[0]) + 9)])
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=STREAM))
    await client.head()
    rest = await client.rest()
    assert TICKS[1][:9] in rest
    assert not rest.endswith(b"0\r\n\r\n")
    assert here.asked() == 1


async def test_a_stream_whose_last_event_came_is_complete(attempt):
    events = [*TICKS, b"data: [DONE]\n\n"]
    here = await attempt(RETRIED, [Reply.drop(Reply.sse(*events), after_chunks=4)])
    answer = await here.ask(STREAM)
    assert answer.body == b"".join(events)


async def test_a_plain_answer_that_breaks_off_is_cut_and_not_replayed(attempt):
    here = await attempt(RETRIED, [Reply.drop(after_bytes=20), *OK])
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=chat()))
    _, headers = await client.head()
    assert len(await client.rest()) < int(headers[b"content-length"])
    assert here.asked() == 1


# Time


async def test_an_attempt_that_hangs_is_given_up_and_made_once_more(attempt):
    here = await attempt(RETRIED + "attempt_timeout = 0.05\n", [Reply.hang(), *OK])
    assert (await here.ask()).status == 200
    assert here.asked() == 2
    await until(lambda: here.providers["one"].disconnects == 1)
    (pool,) = here.gateway.app.pools
    assert pool.opened == 2


async def test_a_provider_that_always_hangs_is_asked_twice_and_is_a_504(attempt):
    here = await attempt(RETRIED + "attempt_timeout = 0.03\n", lambda _: Reply.hang())
    answer = await here.ask()
    assert (answer.status, code_of(answer)) == (504, "upstream_first_byte_timeout")
    assert here.asked() == 2


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(lambda _: Reply.hang(), id="a provider that hangs"),
        pytest.param(
            [Reply.status(503, headers={"retry-after-ms": "20"}), Reply.hang()],
            id="and fails before",
        ),
    ],
)
@pytest.mark.parametrize(
    ("target", "body", "type_of"),
    [
        pytest.param(CHAT, chat(), lambda error: error["code"], id="openai"),
        pytest.param(
            "/v1/messages",
            ANTHROPIC,
            lambda error: error["details"]["error_code"],
            id="anthropic",
        ),
    ],
)
async def test_the_deadline_is_a_504_in_the_dialect(attempt, script, target, body, type_of):
    here = await attempt(RETRIED + "deadline = 1\n", script)
    answer = await here.ask(body, target)
    assert answer.status == 504
    assert type_of(msgspec.json.decode(answer.body)["error"]) == "deadline_exceeded"
    assert answer.headers[NO_RETRY] == b"false"
    await until(lambda: here.providers["one"].disconnects == 1)
    assert not here.dispatch.waiting


async def test_a_wait_past_the_deadline_is_not_begun(attempt):
    here = await attempt(
        RETRIED + "deadline = 5\n", [Reply.status(429, headers={"Retry-After": "30"})]
    )
    answer = await here.ask()
    assert (answer.status, answer.headers[b"retry-after"]) == (429, b"30")
    assert answer.headers[NO_RETRY] == b"false"
    assert here.asked() == 1


async def test_a_deadline_alone_makes_no_second_attempt(attempt):
    here = await attempt('[[routes]]\nprovider = "one"\ndeadline = 5\n', failing(503))
    assert (await here.ask()).status == 503
    assert here.asked() == 1


async def test_a_client_that_leaves_while_a_call_waits_ends_it(attempt):
    here = await attempt(RETRIED, [Reply.status(429, headers={"Retry-After": "50"}), *OK])
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=chat()))
    await until(lambda: here.dispatch.waiting)
    client.close()
    await until(lambda: not here.dispatch.waiting)
    await until(lambda: here.gateway.app.tally.statuses[499] == 1)
    assert here.asked() == 1


async def test_a_client_that_leaves_during_an_attempt_ends_it(attempt):
    gate = Gate()
    here = await attempt(RETRIED, [Reply.pause(gate)])
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=chat()))
    await gate.reached.wait()
    client.close()
    await gate.abandoned.wait()
    await until(lambda: here.gateway.app.tally.statuses[499] == 1)
    assert here.asked() == 1


async def test_a_gateway_that_stops_ends_waits_and_begins_none(attempt):
    here = await attempt(RETRIED, failing(429, 429, headers={"Retry-After": "50"}))
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=chat()))
    await until(lambda: here.dispatch.waiting)
    here.gateway.app.gateway.forward_delayed()
    assert (await client.answer(b"POST")).status == 200
    assert here.asked() == 3


# Whatever happens

FAULTS = {
    "answer": Reply.text("ok"),
    "500": Reply.status(500),
    "400": Reply.status(400),
    "429": Reply.status(429, headers={"retry-after-ms": "1"}),
    "429 for long": Reply.status(429, headers={"Retry-After": "99"}),
    "dropped": Reply.drop(),
    "broken off": Reply.drop(after_bytes=7),
    "error in a stream": Reply.sse({"error": {"message": "x", "code": 503}}),
    "no HTTP": Reply.raw(b"SSH-2.0\r\n\r\n"),
    "hanging": Reply.hang(),
}


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    faults=st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, max_size=8), stream=st.booleans()
)
async def test_whatever_providers_do_there_is_one_answer_and_no_attempt_too_many(
    attempt, faults, stream
):
    left = [FAULTS[name] for name in faults]

    def script(_received):
        return left.pop(0) if left else Reply.text("ok")

    routes = CHAIN + "attempts = 2\nattempt_timeout = 0.02\n"
    here = await attempt(routes, script, script)
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=chat(str(faults), stream=stream)))
    status, headers = await client.head()
    made = int(headers[b"x-looptrap-attempts"])
    asked = here.asked("one") + here.asked("two")
    stale = sum(pool.retried_stale for pool in here.gateway.app.pools)
    assert 1 <= made <= 4
    assert asked <= made + stale
    assert headers.get(NO_RETRY) == b"false" or status < 400
    assert not here.dispatch.waiting


async def test_a_stream_that_is_cut_as_it_is_passed_on_is_settled_once(attempt):
    said = b'data: {"choices":[{"delta":{"content":"I cannot find that file. Once more. "}}]}\n\n'
    rule = """
    [[policies]]
    name = "p"
      [[policies.rules]]
      name = "chanting"
      watch = "chant"
      threshold = 6
      action = "stop"
    """
    here = await attempt(RETRIED + rule, [Reply.sse(said * 400, said)])
    answer = await here.ask(STREAM)
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert here.gateway.app.tally.statuses == {200: 1}


async def test_headers_named_as_ours_are_not_passed_on_but_believed_of_a_gateway_behind(attempt):
    refused = {"X-Looptrap-Verdict": "block", "X-Looptrap-Reason": "loop_detected"}
    here = await attempt(RETRIED, [Reply.status(429, headers=refused)])
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=chat()))
    head = (await client.reader.readuntil(b"\r\n\r\n")).lower()
    assert here.asked() == 1
    assert head.count(b"x-looptrap-verdict: ") == head.count(b"x-looptrap-verdict: allow") == 1
    assert b"x-looptrap-reason" not in head
    assert b"x-looptrap-attempts: 1\r\n" in head
