"""Identity never crosses: what a caller sends its own provider, no other one gets to see."""

from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.gateway.serving import CHAT, JSON, chat
from tests.gateway.upstream_serving import CHAIN, KEYS, attempting, failing

from looptrap.testing import Reply

PLANTED = "sk-planted-caller-secret"
OK = [Reply.text("ok")]
MESSAGES = msgspec.json.encode(
    {"model": "c", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
)


@pytest.fixture
async def attempt(tmp_path):
    async with AsyncExitStack() as stack:

        async def start(routes=CHAIN, one=None, two=None, **options):
            scripts = {"one": one or (lambda _: Reply.status(503)), "two": two or OK}
            context = attempting(tmp_path, routes, scripts=scripts, **options)
            return await stack.enter_async_context(context)

        yield start


def everything(received):
    """Return all that a provider saw of a request."""
    return f"{received.target} {received.headers} {received.body!r}"


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"Authorization": f"Bearer {PLANTED}"}, ""),
        ({"authorization": f"bearer {PLANTED}"}, ""),
        ({"x-api-key": PLANTED}, ""),
        ({"api-key": PLANTED}, ""),
        ({"x-goog-api-key": PLANTED}, ""),
        ({}, f"?key={PLANTED}"),
        ({}, f"?alt=sse&k%65y={PLANTED}"),
        ({}, f"?api_key={PLANTED}"),
        ({"Cookie": f"session={PLANTED}"}, ""),
        ({"X-Auth-Token": PLANTED}, ""),
        ({"OpenAI-Organization": PLANTED, "OpenAI-Project": PLANTED}, ""),
        ({"x-goog-user-project": PLANTED}, ""),
        ({"X-Amz-Security-Token": PLANTED}, ""),
    ],
)
async def test_what_a_caller_sends_its_provider_never_arrives_at_another(attempt, headers, query):
    here = await attempt()
    answer = await here.ask(chat(), CHAT + query, headers)
    assert answer.status == 200
    (first,), (second,) = here.providers["one"].requests, here.providers["two"].requests
    assert PLANTED in everything(first)
    assert PLANTED not in everything(second)
    assert second.headers["authorization"] == f"Bearer {KEYS['KEY_TWO']}"
    assert KEYS["KEY_ONE"] not in everything(first) + everything(second)
    assert second.target == CHAT + ("?alt=sse" if "alt" in query else "")


async def test_a_key_of_the_gateways_opens_the_operators_at_each_provider(attempt):
    here = await attempt()
    key = here.gateway.add_key()
    assert (await here.ask(headers={"Authorization": f"Bearer {key}"})).status == 200
    (first,), (second,) = here.providers["one"].requests, here.providers["two"].requests
    assert first.headers["authorization"] == f"Bearer {KEYS['KEY_ONE']}"
    assert second.headers["authorization"] == f"Bearer {KEYS['KEY_TWO']}"
    assert key not in everything(first) + everything(second)


async def test_a_callers_own_key_beside_the_gateways_stays_at_its_provider(attempt):
    here = await attempt()
    headers = {"X-Looptrap-Key": here.gateway.add_key(), "Authorization": f"Bearer {PLANTED}"}
    assert (await here.ask(headers=headers)).status == 200
    (first,), (second,) = here.providers["one"].requests, here.providers["two"].requests
    assert first.headers["authorization"] == f"Bearer {PLANTED}"
    assert PLANTED not in everything(second)
    assert second.headers["authorization"] == f"Bearer {KEYS['KEY_TWO']}"


async def test_a_provider_without_a_key_is_skipped(attempt):
    here = await attempt(one=[Reply.drop()], env={"KEY_ONE": "k"})
    answer = await here.ask(headers={"Authorization": f"Bearer {PLANTED}"})
    assert answer.status == 502
    assert b"two/model-two: missing_provider_key" in answer.body
    assert (here.asked("one"), here.asked("two")) == (1, 0)


async def test_without_any_key_nobody_is_asked(attempt):
    here = await attempt(env={})
    key = here.gateway.add_key()
    answer = await here.ask(headers={"Authorization": f"Bearer {key}"})
    assert answer.status == 401
    assert msgspec.json.decode(answer.body)["error"]["code"] == "missing_provider_key"
    assert (here.asked("one"), here.asked("two")) == (0, 0)


async def test_strangers_do_not_spend_the_operators_keys(attempt):
    # A provider that is down must not make the next one free for all.
    here = await attempt(listen="0.0.0.0:0", allow_anonymous=True)
    answer = await here.ask(headers={"Authorization": "Bearer made-up"})
    assert answer.status == 503
    assert here.asked("two") == 0


CARRIED = {
    "Accept": "application/json",
    "User-Agent": "agent/1",
    "X-Request-Id": "r-1",
    "baggage": "looptrap.turn=t1",
    "X-Looptrap-Turn": "t1",
}


async def test_what_says_nothing_of_the_caller_goes_along(attempt):
    here = await attempt()
    await here.ask(headers=CARRIED)
    (first,), (second,) = here.providers["one"].requests, here.providers["two"].requests
    for name, value in (JSON | CARRIED).items():
        assert first.headers[name.lower()] == value
        assert second.headers[name.lower()] == value


async def test_headers_without_which_a_dialect_is_not_the_same_go_along_in_it(attempt):
    sent = {"anthropic-version": "2023-06-01", "anthropic-beta": "b"}
    here = await attempt()
    await here.ask(MESSAGES, "/v1/messages", sent)
    await here.ask(chat(), CHAT, sent)
    messages, completion = here.providers["two"].requests
    assert messages.headers["anthropic-version"] == "2023-06-01"
    assert messages.headers["anthropic-beta"] == "b"
    assert "anthropic-version" not in completion.headers


# Several URLs and keys of one provider

SEVERAL = """
[[providers]]
name = "both"
base_url = ["{one}/a/v1", "{two}/b/v1"]
api_key_env = ["KEY_ONE", "KEY_TWO", "KEY_MISSING"]
[[routes]]
provider = "both"
"""


async def keys_used(here, headers=None):
    headers = headers or {"Authorization": f"Bearer {here.gateway.add_key()}"}
    answer = await here.ask(headers=headers)
    used = [
        (name, received.headers.get("authorization", "")[-3:])
        for name, provider in here.providers.items()
        for received in provider.requests
    ]
    return answer, used


async def test_a_limit_of_one_key_leads_to_the_next(attempt):
    here = await attempt(SEVERAL, one=failing(429), two=OK)
    answer, used = await keys_used(here)
    assert answer.status == 200
    assert answer.headers[b"x-looptrap-provider"] == b"both"
    assert used == [("one", "one"), ("one", "two")]


async def test_a_url_that_is_down_leads_to_the_next_without_trying_its_other_keys(attempt):
    here = await attempt(SEVERAL, one=failing(503), two=OK)
    answer, used = await keys_used(here)
    assert answer.status == 200
    assert used == [("one", "one"), ("two", "one")]
    assert here.providers["two"].requests[0].target == "/b/v1/chat/completions"


async def test_a_callers_own_key_goes_to_every_url_of_its_provider_once(attempt):
    here = await attempt(SEVERAL, one=failing(429, 429), two=failing(429))
    answer, used = await keys_used(here, {"Authorization": "Bearer own"})
    assert answer.status == 429
    assert used == [("one", "own"), ("two", "own")]
