"""`looptrap.guard` with the real SDKs: the gateway's judgement, in the client's own process."""

import asyncio
import pickle

import openai
import pytest
from tests.client.vendors import (
    EVERY_WAY,
    ONE_OF_EACH,
    WAY,
    chat,
    refusal,
    rule,
    said,
)

import looptrap
from looptrap.testing import Gate, Reply, Tokens


@EVERY_WAY
async def test_the_sixth_equal_call_never_leaves(way, provider, guarded):
    client = guarded(way)
    for _ in range(5):
        assert await way.ask(client) == "All done."
    error = await refusal(way, client)
    assert provider.calls == 5
    assert isinstance(error, looptrap.LoopDetectedError)
    assert isinstance(error, way.vendor.RateLimitError)
    assert (error.hit_count, error.cooldown_seconds) == (6, 30)
    assert error.rule == "identical-conversation"
    assert [one.signal for one in error.evidence] == ["conversation"]
    assert error.status_code == 429
    assert error.request_id.startswith("lt-")
    assert error.response.headers["x-should-retry"] == "false"
    assert error.response.headers["x-looptrap-verdict"] == "block"
    assert pickle.loads(pickle.dumps(error)).hit_count == 6


@EVERY_WAY
async def test_an_honest_run_is_never_held_up(way, provider, guarded):
    client = guarded(way)
    for number in range(20):
        assert await way.ask(client, f"Question {number}: how many pumps?") == "All done."
    assert provider.calls == 20


TOOL = {"type": "function", "function": {"name": "read_log", "parameters": {}}}


def stuck(rounds, result):
    """Return the history of an agent that reads one log after the other."""
    messages = said("Which pump is broken?")
    for number in range(rounds):
        arguments = f'{{"pump": {result(number)[0]}}}'
        made = {"id": f"c{number}", "type": "function"}
        made["function"] = {"name": "read_log", "arguments": arguments}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result(number)[1]},
        ]
    return messages


def test_what_the_history_shows_is_judged_too(provider, guarded):
    client = guarded(WAY["chat"])

    def go(rounds, result):
        client.chat.completions.create(
            model="gpt-5.3", messages=stuck(rounds, result), tools=[TOOL]
        )

    for rounds in range(9):
        go(rounds, lambda number: (number, f"pump {number}: pressure normal"))

    def go_in_circles():
        for rounds in range(9):
            go(rounds, lambda _number: (5, "ERROR: the log server timed out"))

    with pytest.raises(looptrap.LoopDetectedError) as caught:
        go_in_circles()
    assert caught.value.evidence[0].ago > 0
    assert "read_log" in caught.value.message


@ONE_OF_EACH
async def test_the_status_of_refusals_can_be_another(way, guarded, config):
    client = guarded(way, config=config(rule()), block_status=403)
    await way.ask(client)
    error = await refusal(way, client)
    assert error.status_code == 403
    assert isinstance(error, way.vendor.RateLimitError)


@EVERY_WAY
async def test_a_stop_ends_the_run_with_a_final_message(way, provider, guarded, config):
    client = guarded(way, config=config(rule("stop")))
    await way.ask(client)
    assert "Looptrap ended this run" in await way.ask(client)
    assert provider.calls == 1


@ONE_OF_EACH
async def test_a_nudge_is_added_at_the_end(way, provider, guarded, config):
    client = guarded(way, config=config(rule("nudge")))
    await way.ask(client)
    await way.ask(client)
    plain, nudged = provider.requests
    assert "different strategy" not in str(plain.json())
    assert "different strategy" in str(nudged.json()["messages"][-1])
    assert nudged.headers["authorization"] == plain.headers["authorization"]


THROTTLED = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  action = "throttle"
"""


@ONE_OF_EACH
async def test_a_throttled_call_waits(way, provider, guarded, config, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("looptrap.client.guard.time.sleep", slept.append)
    monkeypatch.setattr("anyio.sleep", sleep)
    client = guarded(way, config=config(THROTTLED))
    await way.ask(client)
    assert slept == []
    await way.ask(client)
    assert slept == [0.2]
    assert provider.calls == 2


@ONE_OF_EACH
async def test_in_shadow_mode_everything_passes(way, provider, guarded, config):
    client = guarded(way, config=config(rule(mode="shadow")))
    for _ in range(2):
        asked = client.chat.completions if way.vendor is openai else client.messages
        ask = asked.with_raw_response.create
        more = {} if way.vendor is openai else {"max_tokens": 9}
        answer = ask(model="m", messages=said("Again?"), **more)
        answer = await answer if way.is_async else answer
    assert provider.calls == 2
    assert answer.headers["x-looptrap-verdict"] == "allow"
    assert answer.headers["x-looptrap-shadow"] == "block"


async def test_answers_say_what_was_decided_and_what_they_cost(provider, guarded):
    client = guarded(WAY["chat"])
    provider._script = [Reply.text("Fine.", tokens=Tokens(1000, 100))]
    ask = client.chat.completions.with_raw_response.create
    answer = ask(model="gpt-4o", messages=said("How is it?"))
    assert answer.headers["x-looptrap-verdict"] == "allow"
    assert float(answer.headers["x-looptrap-cost-usd"]) == pytest.approx(0.0035)
    answer = ask(model="nobody-knows", messages=said("How is it?"))
    assert answer.headers["x-looptrap-cost-usd"] == "unpriced"


BUDGET = """
[[budgets]]
name = "a-cent"
by = ["session"]
limit_usd = 0.01
"""


@EVERY_WAY
async def test_a_budget_counts_what_answers_used(way, provider, guarded, config):
    provider._script = [Reply.text("Done.", tokens=Tokens(20, 2_000))]
    client = guarded(way, config=config(BUDGET), session="run-1")
    more = {}
    if way.vendor is openai:
        limit = "max_completion_tokens" if way.make is chat else "max_output_tokens"
        more = {limit: 64}
    if way.name.startswith("chat stream"):
        more["stream_options"] = {"include_usage": True}
    model = {"extra_body": {"model": "gpt-4o" if way.vendor is openai else "claude-sonnet-4-5"}}
    await way.ask(client, "One.", **model, **more)
    error = await refusal(way, client, "Two.", **model, **more)
    assert isinstance(error, looptrap.BudgetExceededError)
    assert isinstance(error, way.vendor.APIStatusError)
    assert error.status_code == 402
    assert error.budget == "a-cent"
    assert error.percent >= 100
    assert provider.calls == 1
    with looptrap.session("run-2"):
        await way.ask(client, "Two.", **model, **more)


WHOLE_CHATS = pytest.mark.parametrize(
    "way", [WAY["chat"], WAY["chat, async"]], ids=lambda w: w.name
)


@WHOLE_CHATS
async def test_a_loop_of_time_outs_uses_its_budget_up(way, provider, guarded, config):
    provider._script = lambda _: Reply.hang()
    client = guarded(way, config=config(BUDGET), session="run-1").with_options(timeout=0.05)
    asked = {"extra_body": {"model": "gpt-4o"}, "max_completion_tokens": 100}
    errors = []
    for number in range(50):
        try:
            await way.ask(client, f"Question {number}.", **asked)
        except openai.OpenAIError as error:
            errors.append(type(error))
            if isinstance(error, looptrap.BudgetExceededError):
                break
    assert 5 < provider.calls < 12
    assert errors[:-1] == [openai.APITimeoutError] * provider.calls
    assert issubclass(errors[-1], looptrap.BudgetExceededError)


async def test_a_cancelled_task_is_paid_for(provider, guarded, config):
    way, gate = WAY["chat, async"], Gate()
    provider._script = [Reply.pause(gate), Reply.text("Done.")]
    client = guarded(way, config=config(BUDGET), session="run-1")
    asked = {"extra_body": {"model": "gpt-4o"}, "max_completion_tokens": 600}
    task = asyncio.ensure_future(way.ask(client, "One.", **asked))
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(await refusal(way, client, "Two.", **asked), looptrap.BudgetExceededError)


async def test_what_failed_is_given_back(provider, guarded, config):
    way = WAY["chat"]
    provider._script = [Reply.status(500), Reply.drop(), Reply.text("Done.")]
    client = guarded(way, config=config(BUDGET), session="run-1")
    # Each reserves most of the cent: were it kept, the next would be refused.
    more = {"max_completion_tokens": 900, "extra_body": {"model": "gpt-4o"}}
    with pytest.raises(openai.InternalServerError):
        await way.ask(client, "One.", **more)
    with pytest.raises(openai.APIConnectionError):
        await way.ask(client, "Two.", **more)
    assert await way.ask(client, "Three.", **more) == "Done."
