"""Answers of a guarded client that are streamed: heard, cut, left early."""

import asyncio

import pytest
from tests.client.vendors import (
    CLAUDE,
    STREAMS,
    WAY,
    refusal,
    rule,
    said,
)

import looptrap
from looptrap import Guard
from looptrap.testing import Gate, Reply

CHANT = "I cannot find that file. Let me try once more. "


def chanting(action):
    toml = rule(action).replace("conversation", "chant")
    return toml.replace("threshold = 2", "threshold = 6")


@STREAMS
async def test_an_answer_that_chants_is_cut(way, provider, guarded, config):
    provider._script = [Reply.text(CHANT * 2_000)]
    text = await way.ask(guarded(way, config=config(chanting("stop"))))
    assert (CHANT * 2_000).startswith(text)
    assert 1_600 < len(text) < 20_000
    error = await refusal(way, guarded(way, config=config(chanting("block"))))
    assert isinstance(error, looptrap.LoopDetectedError)
    assert isinstance(error, way.vendor.RateLimitError)
    assert error.evidence[0].signal == "chant"
    assert error.status_code == 200


def chat_helper(client):
    with client.chat.completions.stream(model="gpt-5.3", messages=said("Again?")) as stream:
        return stream.get_final_completion().choices[0].message.content


def response_helper(client):
    with client.responses.stream(model="gpt-5.3", input="Again?") as stream:
        return stream.get_final_response().output_text


def message_helper(client):
    with client.messages.stream(**CLAUDE, messages=said("Again?")) as stream:
        return stream.get_final_text()


@pytest.mark.parametrize("ask", [chat_helper, response_helper, message_helper])
def test_the_sdks_own_helpers_for_streams_see_the_same(ask, provider, guarded, config):
    way = WAY["messages" if ask is message_helper else "chat"]
    client = guarded(way, config=config(rule()))
    assert ask(client) == "All done."
    with pytest.raises(looptrap.LoopDetectedError) as caught:
        ask(client)
    assert isinstance(caught.value, way.vendor.RateLimitError)
    assert caught.value.status_code == 429
    provider._script = [Reply.text(CHANT * 2_000)]
    with pytest.raises(looptrap.LoopDetectedError) as caught:
        ask(guarded(way, config=config(chanting("block"))))
    assert isinstance(caught.value, way.vendor.RateLimitError)
    assert caught.value.status_code == 200


def test_a_stream_is_not_held_back(provider, guarded):
    gate = Gate()
    provider._script = [Reply.pause(gate, Reply.text("One two three."), after_chunks=2)]
    stream = guarded(WAY["chat"]).chat.completions.create(
        model="gpt-5.3", messages=said("Count."), stream=True
    )
    first = next(stream)
    gate.reached.wait_blocking()
    assert first.choices
    gate.open()
    assert len(list(stream)) > 0


@STREAMS
async def test_a_stream_that_is_left_early_is_settled_once(way, provider, guarded):
    guard = Guard.from_preset("default")
    provider._script = [Reply.hang(Reply.text("One two three."), after_chunks=2)]
    client = guarded(way, guard)
    stream = way.make(client, "Count.", stream=True)
    if way.is_async:
        stream = await stream
        await stream.__anext__()
        await stream.close()
    else:
        next(stream)
        stream.close()
    assert sum(count for [count] in guard.tally.requests.values()) == 1


async def test_a_task_that_is_cancelled_settles_its_call(provider, guarded):
    guard = Guard.from_preset("default")
    gate = Gate()
    provider._script = [Reply.pause(gate)]
    task = asyncio.ensure_future(WAY["chat, async"].ask(guarded(WAY["chat, async"], guard)))
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sum(count for [count] in guard.tally.requests.values()) == 1
