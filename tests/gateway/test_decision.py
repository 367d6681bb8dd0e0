"""Decision mode: a proxy asks, Looptrap says yes or no, and nothing is forwarded by us."""

import asyncio

import msgspec
import pytest
from tests.gateway.serving import CHAT, JSON, chat, request
from tests.wire.fake_client import feed

from looptrap.errors import ConfigError

ASK = "/looptrap/decision"

FAIRVISOR = 'preset = "fairvisor"'
READS = """
[[policies]]
name = "reads"
select = { methods = ["GET", "POST", "DELETE"] }
  [[policies.rules]]
  name = "same-request"
  watch = "request"
  threshold = 4
  retry_after = 60
"""


async def statuses(here, times=4, **asked):
    return [(await here.ask(**asked)).status for _ in range(times)]


def original(method, uri, **more):
    return {"X-Original-Method": method, "X-Original-URI": uri, **more}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(
            {"method": "GET", "target": ASK, "headers": original("DELETE", "/jobs/7?now=1")},
            id="nginx: named in headers",
        ),
        pytest.param(
            {"method": "DELETE", "target": f"{ASK}/jobs/7?now=1"}, id="envoy: in the path"
        ),
        pytest.param(
            {"target": f"{ASK}/jobs", "body": b'{"a":1}', "headers": JSON}, id="with its body"
        ),
        pytest.param(
            {
                "method": "GET",
                "target": ASK,
                "headers": original("POST", "/jobs", **{"X-Original-Content-Length": "0"}),
            },
            id="a POST that has no body",
        ),
    ],
)
async def test_the_fourth_equal_request_is_refused_and_none_is_forwarded(serve, asked):
    here = await serve(FAIRVISOR)
    assert await statuses(here, 3, **asked) == [200, 200, 200]
    refused = await here.ask(**asked)
    assert refused.status == 429
    assert refused.headers[b"x-looptrap-status"] == b"429"
    assert refused.headers[b"x-looptrap-verdict"] == b"block"
    assert refused.headers[b"x-looptrap-rule"] == b"loop-detection"
    assert refused.headers[b"x-should-retry"] == b"false"
    assert refused.headers[b"retry-after"] == b"60"
    assert msgspec.json.decode(refused.body)["detail"]["error"] == "recursive_loop_detected"
    assert here.provider.requests == []
    assert here.app.tally.verdicts == {"allow": 3, "block": 1}
    assert not here.app.tally.statuses, "what the proxy forwards is not ours to count"


async def test_both_ways_of_asking_mean_the_same_request(serve):
    here = await serve(FAIRVISOR)
    nginx = {"method": "GET", "target": ASK, "headers": original("DELETE", "/jobs/7")}
    envoy = {"method": "DELETE", "target": f"{ASK}/jobs/7"}
    answers = [(await here.ask(**asked)).status for asked in (nginx, envoy, nginx, envoy)]
    assert answers == [200, 200, 200, 429]


async def test_a_path_cannot_be_replaced_by_a_header_of_the_client(serve):
    here = await serve(FAIRVISOR)
    for number in range(4):
        headers = {"X-Original-URI": f"/other/{number}"}
        answer = await here.ask("DELETE", f"{ASK}/jobs/7", headers)
    assert answer.status == 429


@pytest.mark.parametrize("toml", ["", FAIRVISOR], ids=["conversations", "requests"])
async def test_rules_that_need_a_body_abstain_without_it(serve, toml):
    here = await serve(toml)
    asked = {"method": "GET", "target": ASK, "headers": original("POST", CHAT)}
    assert await statuses(here, 8, **asked) == [200] * 8


async def test_conversations_are_judged_when_the_body_comes_along(serve):
    here = await serve()
    asked = {"target": f"{ASK}{CHAT}", "headers": JSON, "body": chat()}
    assert await statuses(here, 6, **asked) == [200] * 5 + [429]


async def test_one_status_for_proxies_that_know_few(serve):
    here = await serve(f"{FAIRVISOR}\n[gateway]\ndecision_status = 403")
    asked = {"method": "DELETE", "target": f"{ASK}/jobs/7"}
    assert await statuses(here, 4, **asked) == [200, 200, 200, 403]
    assert (await here.ask(**asked)).headers[b"x-looptrap-status"] == b"429"


async def test_allowed_answers_say_so(serve):
    here = await serve()
    answer = await here.ask("GET", ASK, original("GET", "/x", **{"X-Request-Id": "mine"}))
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers[b"x-looptrap-verdict"] == b"allow"
    assert answer.headers[b"x-request-id"] == b"mine"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(lambda i: {"X-Real-IP": f"192.0.2.{i}"}, id="by address"),
        pytest.param(lambda i: {"X-Api-Key": f"k{i}"}, id="by credential"),
    ],
)
async def test_callers_behind_one_proxy_are_told_apart(serve, headers):
    toml = READS.replace('watch = "request"', 'watch = "request"\n  by = ["caller"]')
    here = await serve(toml)
    for number in range(8):
        answer = await here.ask("GET", ASK, original("GET", "/jobs") | headers(number % 4))
        assert answer.status == 200
    again = {"method": "GET", "target": ASK, "headers": original("GET", "/jobs") | headers(1)}
    assert await statuses(here, 2, **again) == [200, 429]


async def test_a_gateway_key_is_asked_for_here_too(serve):
    here = await serve("[gateway]\ndecision_status = 403")
    key = here.add_key()
    denied = await here.ask("GET", ASK, original("GET", "/v1/messages"))
    assert denied.status == 403
    assert denied.headers[b"x-looptrap-status"] == b"401"
    for headers, uri in (({"X-Looptrap-Key": key}, "/x"), ({}, f"/x?key={key}")):
        assert (await here.ask("GET", ASK, original("GET", uri, **headers))).status == 200


async def test_a_path_that_only_begins_alike_is_no_question(serve):
    here = await serve(upstream=None)
    assert (await here.ask("GET", f"{ASK}s")).status == 404


TOKEN = "[gateway]\ndecision_token_env = 'DECISION_TOKEN'"


@pytest.mark.parametrize(
    ("toml", "headers", "status"),
    [
        pytest.param("", {}, 401, id="no token is set: loopback only"),
        pytest.param(TOKEN, {}, 401, id="none sent"),
        pytest.param(TOKEN, {"X-Looptrap-Decision-Token": "wrong"}, 401, id="a wrong one"),
        pytest.param(TOKEN, {"X-Looptrap-Decision-Token": "t0ken"}, 200, id="the right one"),
    ],
)
async def test_beyond_loopback_a_token_is_needed(serve, toml, headers, status):
    here = await serve(toml, env={"DECISION_TOKEN": "t0ken"})
    asked = request("GET", ASK, original("GET", "/x") | headers)
    transport, _, _ = feed([asked], here.app.gateway)  # comes from 192.0.2.7
    assert transport.sent.startswith(b"HTTP/1.1 %d " % status)


async def test_a_token_that_is_set_is_needed_on_loopback_too(serve):
    here = await serve(TOKEN, env={"DECISION_TOKEN": "t0ken"})
    assert (await here.ask("GET", ASK)).status == 401
    assert (await here.ask("GET", ASK, {"X-Looptrap-Decision-Token": "t0ken"})).status == 200


async def test_a_token_variable_that_is_empty_is_a_mistake(serve):
    with pytest.raises(ConfigError, match="decision_token_env: the variable DECISION_TOKEN is not"):
        await serve(TOKEN, env={})


PURSE = """
max_fingerprints = 1_000
policies = [{ name = "none", rules = [], rates = [{ name = "far", rps = 1e5, burst = 100_000 }] }]
[[budgets]]
name = "purse"
limit_tokens = 1_000
"""


async def test_made_up_credentials_have_no_used_up_budget_forgotten(serve):
    here = await serve(PURSE)
    clients = [await here.connect() for _ in range(10)]

    async def decided(credential, client, most):
        headers = JSON | {"X-Api-Key": credential}
        body = chat(credential, max_tokens=most)
        await client.send(request(target=f"{ASK}{CHAT}", headers=headers, body=body))
        return (await client.answer(b"POST")).status

    assert await decided("honest", clients[0], 900) == 200
    assert await decided("honest", clients[0], 900) == 402

    async def make_up(number):
        for i in range(300):
            most = 900 if i % 2 else 1
            assert await decided(f"made-up-{number}-{i}", clients[number], most) == 200

    await asyncio.gather(*map(make_up, range(10)))
    assert here.app.store.accounts.evicted >= 1_000
    assert await decided("honest", clients[0], 900) == 402
