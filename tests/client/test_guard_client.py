"""A guarded client is still the client it was; and whatever fails, its calls go out."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import anthropic
import httpx
import openai
import pytest
from tests.client.vendors import (
    ONE_OF_EACH,
    STREAMS,
    WAY,
    chat,
    close,
    message,
    refusal,
    response,
    whole,
)

import looptrap
from looptrap import Guard
from looptrap.testing import Gate, Reply


@ONE_OF_EACH
async def test_the_client_stays_as_it_is(way, provider):
    own = way.plain(base_url=way.base_url(provider.url), api_key="k", max_retries=0)
    client = looptrap.guard(own)
    for _ in range(8):
        await way.ask(own)
    for _ in range(5):
        await way.ask(client)
    assert isinstance(await refusal(way, client), looptrap.LoopDetectedError)
    assert type(own) is way.plain
    assert isinstance(client, way.plain)
    assert (str(client.base_url), client.api_key) == (str(own.base_url), own.api_key)
    assert client.max_retries == 0
    assert client.timeout == own.timeout
    await close(client)
    assert own.is_closed()  # as with a copy of the SDK's own


@ONE_OF_EACH
async def test_copies_of_a_guarded_client_are_guarded(way, provider, guarded):
    client = guarded(way, session="run-1")
    for number in range(5):
        await way.ask(client.with_options(max_retries=number))
    error = await refusal(way, client.copy(timeout=9))
    assert isinstance(error, looptrap.LoopDetectedError)
    assert await way.ask(client.with_options(session="run-2")) == "All done."


@ONE_OF_EACH
async def test_what_is_ours_does_not_leave(way, provider, guarded):
    client = guarded(way, session="run-1")
    await way.ask(client, extra_headers={"X-Looptrap-Progress": "2", "X-Session-Id": "mine"})
    await way.ask(client, extra_headers={"X-Looptrap-Turn": "t1", "X-Team": "blue"})
    first, second = (one.headers for one in provider.requests)
    assert not [name for name in first if name.startswith("x-looptrap-")]
    assert first["x-session-id"] == "mine"
    assert second["x-looptrap-turn"] == "t1"
    assert second["x-team"] == "blue"


@ONE_OF_EACH
async def test_sessions_are_counted_apart(way, provider, guarded):
    client = guarded(way)
    for name in ("run-1", "run-2"):
        with looptrap.session(name):
            for _ in range(5):
                await way.ask(client)
    with looptrap.session("run-1"):
        assert isinstance(await refusal(way, client), looptrap.LoopDetectedError)
    assert provider.calls == 10


async def test_retries_of_the_sdk_are_no_repeats(provider, guarded, monkeypatch):
    way = WAY["chat"]
    url = way.base_url(provider.url)
    own = openai.OpenAI(base_url=url, api_key="k", max_retries=2)
    monkeypatch.setattr("openai._base_client.time.sleep", lambda _seconds: None)
    provider._script = [Reply.status(500), Reply.status(500), Reply.text("Done.")] * 3
    client = guarded(way, client=own, config=None)
    for _ in range(2):
        assert await way.ask(client) == "Done."
        provider._used = 0
    assert provider.calls == 6


RATE = """
[[policies]]
name = "p"
  [[policies.rates]]
  name = "slowly"
  rps = 0.001
  burst = 1
"""


@ONE_OF_EACH
async def test_a_rate_that_stays_exceeded_is_told_after_the_sdks_retries(
    way, provider, config, guarded, monkeypatch
):
    async def sleep(_seconds):
        pass

    monkeypatch.setattr(f"{way.vendor.__name__}._base_client.time.sleep", lambda _seconds: None)
    monkeypatch.setattr("anyio.sleep", sleep)
    own = way.plain(base_url=way.base_url(provider.url), api_key="k", max_retries=1)
    client = guarded(way, client=own, config=config(RATE))
    await way.ask(client, "One.")
    error = await refusal(way, client, "Two.")
    assert isinstance(error, looptrap.RateLimitedError)
    assert isinstance(error, way.vendor.RateLimitError)
    assert (error.rate, error.retry_after > 0) == ("slowly", True)
    assert error.response.request.headers["x-stainless-retry-count"] == "1"


KILL = """
[[kill_switches]]
match = { caller = "rogue" }
reason = "credential leaked"
"""


@ONE_OF_EACH
async def test_a_kill_switch_stops_a_caller(way, guarded, config):
    error = await refusal(way, guarded(way, config=config(KILL), caller="rogue"))
    assert isinstance(error, looptrap.KilledError)
    assert isinstance(error, way.vendor.PermissionDeniedError)
    assert await way.ask(guarded(way, config=config(KILL), caller="honest")) == "All done."


async def test_clients_of_one_guard_count_together(provider, guarded):
    guard = Guard.from_preset("default")
    one, other = guarded(WAY["chat"], guard), guarded(WAY["chat, async"], guard)
    for _ in range(3):
        await WAY["chat"].ask(one)
    for _ in range(2):
        await WAY["chat, async"].ask(other)
    await refusal(WAY["chat"], one)
    assert provider.calls == 5
    apart = guarded(WAY["chat"], guard, caller="another")
    assert await WAY["chat"].ask(apart) == "All done."


def test_threads_count_together_and_exactly(provider, guarded):
    client = guarded(WAY["chat"])
    turn = threading.Lock()

    def ask():
        try:
            with turn:
                return chat(client, "Again?") and "passed"
        except looptrap.LoopDetectedError:
            return "refused"

    with ThreadPoolExecutor(8) as pool:
        results = [one.result() for one in [pool.submit(ask) for _ in range(8)]]
    assert sorted(results) == ["passed"] * 5 + ["refused"] * 3
    assert provider.calls == 5


def test_calls_under_way_at_once_are_a_sample(provider, guarded):
    client = guarded(WAY["chat"])
    gate = Gate()
    provider._script = [Reply.pause(gate)]
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(chat, client, "Again?") for _ in range(8)]
        while provider.calls < 8:
            assert not any(one.done() for one in asked)
            wait(asked, 0.01)
        gate.open()
        assert all(one.result() for one in asked)


def test_azures_client_is_guarded_as_well(provider):
    own = openai.AzureOpenAI(
        azure_endpoint=provider.url, api_key="k", api_version="2026-01-01", max_retries=0
    )
    with looptrap.guard(own) as client:
        for _ in range(5):
            chat(client, "Again?")
        with pytest.raises(looptrap.LoopDetectedError):
            chat(client, "Again?")
    assert provider.requests[0].target.startswith("/openai/deployments/gpt-5.3/chat/completions")
    assert provider.calls == 5


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_an_http_client_of_httpx_is_as_good_as_one_of_httpx2(is_async, provider, guarded):
    way = WAY["chat stream, async" if is_async else "chat stream"]
    http_client = (httpx.AsyncClient if is_async else httpx.Client)(
        headers={"X-Team": "blue"}, timeout=7
    )
    own = way.plain(
        base_url=way.base_url(provider.url), api_key="k", http_client=http_client, max_retries=0
    )
    client = guarded(way, client=own)
    for _ in range(5):
        assert await way.ask(client) == "All done."
    assert isinstance(await refusal(way, client), looptrap.LoopDetectedError)
    assert provider.requests[0].headers["x-team"] == "blue"
    assert provider.calls == 5


def test_a_hook_that_has_read_the_answer_does_no_harm(provider, guarded):
    http_client = httpx.Client(event_hooks={"response": [lambda answer: answer.read()]})
    own = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k", http_client=http_client)
    guard = Guard.from_preset("default")
    client = guarded(WAY["chat"], guard, client=own)
    assert chat(client, "Hello?").choices[0].message.content == "All done."
    assert sum(count for [count] in guard.tally.requests.values()) == 1


def test_a_file_on_its_way_is_not_read_first(provider, guarded):
    provider._script = lambda _received: Reply.status(
        200, {"id": "f", "object": "file", "bytes": 1, "created_at": 1, "filename": "a",
              "purpose": "batch", "status": "processed"},
    )  # fmt: skip
    client = guarded(WAY["chat"])
    for _ in range(8):
        assert client.files.create(file=("a.jsonl", b"{}" * 9), purpose="batch").id == "f"


async def test_credentials_of_a_provider_stay_with_copies(provider, guarded):
    minted = []

    def credentials(*, force_refresh=False):
        minted.append(1)
        return anthropic.AccessToken(token="tok-1")

    own = anthropic.Anthropic(base_url=provider.url, credentials=credentials)
    client = guarded(WAY["messages"], client=own)
    message(client, "1")
    message(client.with_options(timeout=9), "2")
    assert [one.headers["authorization"] for one in provider.requests] == ["Bearer tok-1"] * 2
    assert len(minted) == 1


def test_middleware_of_the_application_stays(provider, guarded):
    seen = []

    def middleware(request, call_next):
        seen.append(request)
        return call_next(request)

    own = anthropic.Anthropic(base_url=provider.url, api_key="k", middleware=[middleware])
    client = guarded(WAY["messages"], client=own)
    for _ in range(5):
        message(client, "Again?")
    with pytest.raises(looptrap.LoopDetectedError):
        message(client, "Again?")
    assert len(seen) == 6


async def test_a_failure_of_our_own_lets_the_call_pass(provider, guarded, monkeypatch, caplog):
    guard = Guard.from_preset("default")
    client = guarded(WAY["chat"], guard)
    monkeypatch.setattr(guard, "plan", lambda *_args: 1 / 0)
    with caplog.at_level(logging.ERROR, "looptrap"):
        assert await WAY["chat"].ask(client) == "All done."
    assert "a call passes unjudged" in caplog.text
    assert "All done." not in caplog.text


@STREAMS
async def test_an_answer_that_cannot_be_read_passes(way, guarded, monkeypatch, caplog):
    monkeypatch.setattr("looptrap.engine.transaction.Transaction.on_chunk", lambda *_args: 1 / 0)
    with caplog.at_level(logging.ERROR, "looptrap"):
        assert await way.ask(guarded(way)) == "All done."
    assert "an answer passes unread" in caplog.text


@pytest.mark.parametrize(
    "client",
    [object(), httpx, "gpt-5.3", anthropic.AnthropicBedrock],
    ids=["an object", "a module", "a text", "a class"],
)
def test_what_cannot_be_guarded_is_told_what_can(client):
    with pytest.raises(TypeError, match=r"OpenAI.*Anthropic.*gateway.*Guard\.check"):
        looptrap.guard(client)


def test_rules_come_from_one_place(provider, guarded, config):
    with pytest.raises(TypeError, match="neither preset nor config"):
        guarded(WAY["chat"], Guard.from_preset("default"), preset="aisg")
    with pytest.raises(TypeError, match="guarded already"):
        guarded(WAY["chat"], client=guarded(WAY["chat"]))
    with pytest.raises(looptrap.ConfigError, match="default"):
        guarded(WAY["chat"], preset="deflaut")


async def test_a_preset_brings_its_rules(provider, guarded):
    client = guarded(WAY["responses"], preset="aisg")
    answers = []
    for _ in range(12):
        try:
            answers.append(await whole(response, lambda one: one.output_text, client, "Again?"))
        except looptrap.LoopDetectedError:
            break
    assert 0 < len(answers) < 12
