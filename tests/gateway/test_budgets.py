"""Budgets through a running gateway: reserved before a call, settled after it, in stages."""

import asyncio

import msgspec
import pytest
from tests.gateway.serving import JSON, chat, request, until
from tests.store.serving import free_port

from looptrap.testing import Gate, Reply, Tokens

PRICES = """
[prices."gpt-5.3"]
input = 1_000
output = 1_000
"""
"""A tenth of a cent a token, so that a call is worth counting."""

DOLLAR = f"""
policies = [{{ name = "none", rules = [], rates = [{{ name = "far", rps = 100_000 }}] }}]
[[budgets]]
name = "purse"
by = ["session"]
limit_usd = 1
{PRICES}
"""
"""A dollar a session, and no rule against loops."""

LOOPS = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  cooldown = 30
"""

SMALL = Reply.text("Yes.", tokens=Tokens(10, 10))
"""Two cents."""


def asked(text, most=10, **more):
    """Return a call that reserves about `len / 3 + most` tokens."""
    return chat(text, max_tokens=most, **more)


def in_session(name="run-1", **more):
    return {**JSON, "X-Looptrap-Session": name, **more}


def code_of(answer):
    return msgspec.json.decode(answer.body)["error"]["code"]


async def account_of(one, name="run-1"):
    """Return what is used of the session's dollar, in cents, by asking for next to nothing."""
    answer = await one.ask(headers=in_session(name), body=asked("?", 100_000))
    told = msgspec.json.decode(answer.body)["error"]["message"]
    assert answer.status == 402
    return round(float(told.split("$")[1].split(" ")[0]) * 100)


async def test_what_a_call_cost_stands_in_its_head(serve):
    one = await serve(DOLLAR, script=[Reply.text("Yes.", tokens=Tokens(1200, 34))])
    answer = await one.ask(headers=in_session(), body=asked("How much is this?"))
    assert answer.headers[b"x-looptrap-cost-usd"] == b"1.234"


async def test_a_model_without_a_price_is_unpriced_and_never_free(serve):
    one = await serve(script=[SMALL])
    body = chat("How much is this?").replace(b"gpt-5.3", b"my-own-finetune-7")
    answer = await one.ask(headers=JSON, body=body)
    assert answer.headers[b"x-looptrap-cost-usd"] == b"unpriced"


async def test_the_head_of_a_stream_does_not_wait_for_its_cost(serve):
    gate = Gate()
    one = await serve(DOLLAR, script=[Reply.pause(gate, SMALL, after_chunks=1)])
    client = await one.connect()
    await client.send(request(headers=in_session(), body=asked("Stream", stream=True)))
    status, headers = await client.head()
    assert (status, b"x-looptrap-cost-usd" in headers) == (200, False)
    gate.open()


async def test_a_cost_that_is_only_guessed_is_not_told(serve):
    unsaid = Reply.status(200, {"choices": []})
    one = await serve(DOLLAR, script=[unsaid])
    answer = await one.ask(headers=in_session(), body=asked("How much is this?"))
    assert b"x-looptrap-cost-usd" not in answer.headers


async def test_a_refusal_costs_nothing_and_says_so(serve):
    one = await serve(LOOPS + PRICES)
    await one.ask(headers=JSON, body=chat("Again?"))
    answer = await one.ask(headers=JSON, body=chat("Again?"))
    assert (answer.status, answer.headers[b"x-looptrap-cost-usd"]) == (429, b"0")


async def test_a_price_at_one_provider_counts_there(serve):
    toml = DOLLAR.replace('"gpt-5.3"', '"one/*"') + ATTEMPTS.partition("attempts")[0]
    reply = Reply.text("Yes.", tokens=Tokens(600, 0))
    one = await serve(toml, script=[reply] * 3, upstream=None)
    body = asked("How much?").replace(b"gpt-5.3", b"my-own-finetune-7")
    answers = [await one.ask(headers=in_session(), body=body) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 402]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_usage_beyond_all_numbers_neither_hangs_the_client_nor_counts(serve, stream):
    unsaid = b'{"choices":[],"usage":{"prompt_tokens":1%b,"completion_tokens":1}}' % (b"0" * 400)
    reply = Reply.sse(unsaid) if stream else Reply.status(200, unsaid)
    one = await serve(DOLLAR, script=[reply, SMALL])
    answer = await one.ask(headers=in_session(), body=asked("How much?", stream=stream))
    assert answer.status == 200
    assert 0 < await account_of(one) < 50


@pytest.mark.parametrize(
    "most",
    [b"1" + b"0" * 400, b"1" * 4_301, b"1e308", b"-1", b'"many"'],
    ids=["401 digits", "4,301 digits", "a float", "negative", "a word"],
)
async def test_a_limit_that_none_can_mean_reserves_what_a_call_without_one_does(serve, most):
    one = await serve(DOLLAR.replace("limit_usd = 1\n", "limit_usd = 9\n"), script=[SMALL])
    body = asked("How much?", 7_777).replace(b"7777", most)
    assert (await one.ask(headers=in_session(), body=body)).status == 200


async def test_calls_are_refused_with_402_when_the_budget_is_used_up(serve):
    one = await serve(DOLLAR, script=[Reply.text("Yes.", tokens=Tokens(400, 90))] * 2)
    for turn in range(2):
        answer = await one.ask(headers=in_session(), body=asked(f"Question {turn}"))
        assert answer.status == 200
    refused = await one.ask(headers=in_session(), body=asked("One more question"))
    assert (refused.status, code_of(refused)) == (402, "budget_exceeded")
    assert refused.headers[b"x-should-retry"] == b"false"
    assert b"retry-after" not in refused.headers
    assert len(one.provider.requests) == 2
    other = await one.ask(headers=in_session("run-2"), body=asked("Another session's question"))
    assert other.status == 200


@pytest.mark.parametrize(
    ("used", "verdict"),
    [(700, b"allow"), (800, b"warn"), (880, b"warn"), (930, b"throttle")],
    ids=["little", "80 %", "88 %", "95 %"],
)
async def test_a_budget_acts_in_stages(serve, used, verdict):
    toml = DOLLAR.replace("limit_usd = 1\n", "limit_usd = 1\ndelay = 0.01\n")
    one = await serve(toml, script=[Reply.text("Yes.", tokens=Tokens(used, 0)), SMALL])
    await one.ask(headers=in_session(), body=asked("First question"))
    answer = await one.ask(headers=in_session(), body=asked("Next", 1))
    assert answer.status == 200
    assert answer.headers[b"x-looptrap-verdict"] == verdict
    if verdict != b"allow":
        assert answer.headers[b"x-looptrap-reason"] == b"budget_threshold"
        assert answer.headers[b"x-looptrap-rule"] == b"purse"


@pytest.mark.parametrize(
    ("limit", "status"),
    [("0.01", 402), ("0.5", 200), ("500", 200)],
    ids=["lowered", "still enough", "never raised"],
)
async def test_a_client_may_lower_what_its_session_costs(serve, limit, status):
    one = await serve(DOLLAR, script=[SMALL])
    headers = in_session(**{"X-Looptrap-Session-Limit-Usd": limit})
    assert (await one.ask(headers=headers, body=asked("Cheap?"))).status == status
    if limit == "500":
        over = await one.ask(headers=headers, body=asked("Dear!", 2000))
        assert (over.status, code_of(over)) == (402, "budget_exceeded")


async def test_a_client_may_limit_its_session_where_nobody_else_does(serve):
    one = await serve(PRICES, script=[SMALL])
    headers = in_session(**{"X-Looptrap-Session-Limit-Usd": "0.05"})
    assert (await one.ask(headers=headers, body=asked("Dear!", 200))).status == 402
    assert (await one.ask(headers=in_session(), body=asked("Dear!", 200))).status == 200


@pytest.mark.parametrize("limit", ["five", "-1", "0", "0.00", "1e9", "nan", "1,5", "9" * 30])
async def test_a_limit_that_is_none_is_refused_in_words(serve, limit):
    one = await serve(DOLLAR)
    headers = in_session(**{"X-Looptrap-Session-Limit-Usd": limit})
    answer = await one.ask(headers=headers, body=asked("How much?"))
    assert (answer.status, code_of(answer)) == (400, "invalid_session_limit")
    assert one.provider.requests == []


async def test_a_loop_that_is_refused_gives_its_reservation_back_at_once(serve):
    toml = DOLLAR.partition("\n")[2].partition("\n")[2]
    one = await serve(LOOPS + toml, script=[SMALL])
    same = asked("Again and again?", 300)
    await one.ask(headers=in_session(), body=same)
    for _ in range(5):
        assert (await one.ask(headers=in_session(), body=same)).status == 429
    assert await account_of(one) == 2


@pytest.mark.parametrize(
    ("reply", "cents"),
    [
        (Reply.status(500), 0),
        (Reply.status(429), 0),
        (Reply.drop(), 0),
        (Reply.text("Yes.", tokens=Tokens(20, 30)), 5),
    ],
    ids=["failed", "limited by the provider", "never answered", "answered"],
)
async def test_what_a_call_did_not_use_is_given_back(serve, reply, cents):
    one = await serve(DOLLAR, script=[reply])
    await one.ask(headers=in_session(), body=asked("A question", 500))
    assert await account_of(one) == cents


async def leave(one, gate, body):
    """Ask, and leave before the answer; return the status of what is answered at once."""
    client = await one.connect()
    await client.send(request(headers=in_session(), body=body))
    answer = asyncio.ensure_future(client.answer(b"POST"))
    reached = asyncio.ensure_future(gate.reached.wait())
    await asyncio.wait((answer, reached), return_when=asyncio.FIRST_COMPLETED)
    if answer.done():
        reached.cancel()
        return answer.result().status
    answer.cancel()
    client.writer.close()
    await gate.abandoned.wait()
    return 0


@pytest.mark.parametrize(
    ("body", "cents"),
    [
        pytest.param(asked("A question", 500), 52, id="a whole answer is written to its end"),
        pytest.param(asked("A question", 100, n=3), 32, id="every choice of it"),
        pytest.param(asked("A question", 500, stream=True), 3, id="a stream has read its input"),
    ],
)
async def test_what_a_client_did_not_wait_for_is_paid_for(serve, body, cents):
    gate = Gate()
    one = await serve(DOLLAR, script=[Reply.pause(gate, SMALL)])
    await leave(one, gate, body)
    assert await account_of(one) == cents


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_loop_of_time_outs_uses_its_budget_up(serve, stream):
    gates = [Gate() for _ in range(50)]
    one = await serve(DOLLAR, script=[Reply.pause(gate, SMALL) for gate in gates])
    text = "Read all of this again, please. " * 8
    statuses = [
        await leave(one, gate, asked(f"{number} {text}", 20, stream=stream))
        for number, gate in enumerate(gates)
    ]
    passed = len(one.provider.requests)
    assert 5 < passed < 15
    assert statuses == [0] * passed + [402] * (50 - passed)


async def test_what_never_came_to_its_provider_costs_nothing(serve):
    one = await serve(DOLLAR, upstream=f"http://127.0.0.1:{free_port()}")
    answer = await one.ask(headers=in_session(), body=asked("A question", 500))
    assert answer.status == 502
    assert await account_of(one) == 0


async def test_a_client_that_leaves_before_its_call_was_sent_pays_nothing(serve):
    """The provider takes the connection, and says nothing of TLS: no request can be sent."""
    gate = Gate()

    async def accept(reader, writer):
        gate.reached.set()
        while await reader.read(1_000):
            pass
        gate.abandoned.set()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        one = await serve(DOLLAR, upstream=f"https://127.0.0.1:{port}")
        await leave(one, gate, asked("A question", 500))
        assert await account_of(one) == 0


ATTEMPTS = """
[[providers]]
name = "one"
base_url = "{url}"
[[routes]]
select = { path_prefix = "/v1/" }
provider = "one"
attempts = 2
attempt_timeout = 0.05
"""


@pytest.mark.parametrize(
    ("second", "status", "cents"),
    [(SMALL, 200, 34), (Reply.hang(), 504, 64), (Reply.status(500), 500, 32)],
    ids=["answered", "timed out again", "failed"],
)
async def test_every_attempt_that_timed_out_is_paid_for(serve, second, status, cents):
    one = await serve(DOLLAR + ATTEMPTS, script=[Reply.hang(), second], upstream=None)
    answer = await one.ask(headers=in_session(), body=asked("A question", 300))
    assert answer.status == status
    assert await account_of(one) == cents


async def test_an_attempt_that_a_client_did_not_wait_for_is_paid_for_once(serve):
    gate, toml = Gate(), ATTEMPTS.replace("0.05", "30")
    one = await serve(DOLLAR + toml, script=[Reply.pause(gate, SMALL)], upstream=None)
    await leave(one, gate, asked("A question", 300))
    assert await account_of(one) == 32


async def test_what_works_in_the_background_is_charged_what_it_may_use(serve):
    queued = {"id": "resp_1", "object": "response", "status": "queued", "usage": None}
    one = await serve(DOLLAR, script=[Reply.status(200, queued)])
    sent = {"model": "gpt-5.3", "input": "Think.", "background": True, "max_output_tokens": 500}
    await one.ask(headers=in_session(), target="/v1/responses", body=msgspec.json.encode(sent))
    assert await account_of(one) >= 50


async def test_a_provider_that_took_too_long_is_paid_for(serve):
    one = await serve(DOLLAR + "[gateway]\nfirst_byte_timeout = 0.05\n", script=[Reply.hang()])
    answer = await one.ask(headers=in_session(), body=asked("A question", 500))
    assert answer.status == 504
    assert await account_of(one) == 52


async def test_calls_at_the_same_moment_do_not_slip_past_the_limit(serve):
    one = await serve(DOLLAR, script=[SMALL] * 100)
    calls = [one.ask(headers=in_session(), body=asked(f"Question {n}")) for n in range(100)]
    answers = await asyncio.gather(*calls)
    passed = sum(answer.status == 200 for answer in answers)
    assert {answer.status for answer in answers} == {200, 402}
    assert len(one.provider.requests) == passed
    assert passed * 2 <= 100


async def test_instances_share_a_budget(instances):
    gateways = await instances(2, DOLLAR, script=[Reply.text("Yes.", tokens=Tokens(330, 0))] * 9)
    answers = [
        await gateways[n % 2].ask(headers=in_session(), body=asked(f"Question {n}"))
        for n in range(6)
    ]
    assert [answer.status for answer in answers] == [200, 200, 200, 402, 402, 402]


async def test_a_budget_begins_anew_when_its_account_is_released(serve):
    one = await serve(DOLLAR, script=[Reply.text("Yes.", tokens=Tokens(990, 0)), SMALL])
    await one.ask(headers=in_session(), body=asked("First"))
    refused = await one.ask(headers=in_session(), body=asked("Next"))
    fingerprint = msgspec.json.decode(refused.body)["detail"]["fingerprint"]
    assert await one.app.gateway.judge.release(fingerprint, 0.0)
    assert (await one.ask(headers=in_session(), body=asked("Next"))).status == 200


async def test_a_thousand_calls_at_once_over_two_instances_stay_within_a_dollar(instances):
    """Each may need up to six cents, and comes to four."""
    four = Reply.text("Yes.", tokens=Tokens(30, 10))
    gateways = await instances(2, DOLLAR, script=[four] * 1_000)
    clients = [await gateways[n % 2].connect() for n in range(200)]

    async def ask(client, first):
        answers = []
        for n in range(first, 1_000, len(clients)):
            await client.send(request(headers=in_session(), body=asked(f"Question {n}")))
            answers.append((await client.answer(b"POST")).status)
        return answers

    asking = [ask(client, number) for number, client in enumerate(clients)]
    statuses = [status for some in await asyncio.gather(*asking) for status in some]
    assert (len(statuses), set(statuses)) == (1_000, {200, 402})

    def cents():
        return 4 * sum(len(one.provider.requests) for one in gateways)

    async def is_settled():
        return await account_of(gateways[0]) == cents()

    # Most were refused because of what others had reserved: with all settled, the rest is spent.
    status = 200
    while status == 200:
        await until(is_settled)
        answer = await gateways[1].ask(headers=in_session(), body=asked("Question last"))
        statuses.append(status := answer.status)
    assert cents() == 4 * statuses.count(200)
    assert 94 < cents() <= 100


async def test_what_was_reserved_for_a_call_that_fails_inside_the_gateway_is_given_back(
    serve, monkeypatch
):
    def fail(*_args):
        raise RuntimeError("a fault of ours")

    one = await serve(DOLLAR, script=[SMALL])
    monkeypatch.setattr("looptrap.wire.origin.ProxyEnvironment.choose", fail)
    for turn in range(3):
        answer = await one.ask(headers=in_session(), body=asked(f"Question {turn}", 500))
        assert (answer.status, code_of(answer)) == (500, "internal_error")
    monkeypatch.undo()
    assert await account_of(one) == 0
