"""Clients that people hand to `call`: their asynchronous functions do not look like such."""

import inspect

import openai
import pytest
from tests.store.serving import free_port

from looptrap.errors import GiveUp
from looptrap.retry import Turn, testing
from looptrap.testing import FakeProvider


@pytest.fixture(scope="module")
def provider():
    with FakeProvider.running() as provider:
        yield provider


QUESTION = {"model": "gpt-5.4-mini", "messages": [{"role": "user", "content": "hello"}]}


async def test_the_asynchronous_client_of_openai_is_awaited(provider):
    url = f"{provider.url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="sk-test", max_retries=0) as client:
        create = client.chat.completions.create
        assert not inspect.iscoroutinefunction(create)
        async with Turn() as turn:
            answer = await turn.call(create, **QUESTION)
    assert answer.choices[0].message.content


def test_a_client_that_reaches_nobody_is_tried_three_times():
    url = f"http://127.0.0.1:{free_port()}/v1"
    client = openai.OpenAI(base_url=url, api_key="sk-test", max_retries=0)
    with client, testing() as rehearsal, pytest.raises(GiveUp) as raised, Turn() as turn:
        turn.call(client.chat.completions.create, **QUESTION)
    assert raised.value.marker.attempts == 3
    assert len(rehearsal.waits) == 2
