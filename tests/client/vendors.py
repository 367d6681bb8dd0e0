"""Every way to ask a model with a vendor's SDK: sync and async, in one piece and streamed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

import looptrap
import looptrap.anthropic
import looptrap.openai

CLAUDE = {"model": "claude-opus-4-7", "max_tokens": 64}


def said(text):
    return [{"role": "user", "content": text}]


def chat(client, text, **more):
    return client.chat.completions.create(model="gpt-5.3", messages=said(text), **more)


def response(client, text, **more):
    return client.responses.create(model="gpt-5.3", input=text, **more)


def message(client, text, **more):
    return client.messages.create(**CLAUDE, messages=said(text), **more)


async def whole(make, read, client, text, **more):
    answer = make(client, text, **more)
    return read(await answer if isinstance(answer, Awaitable) else answer)


async def streamed(make, read, client, text, **more):
    answer = make(client, text, stream=True, **more)
    if isinstance(answer, Awaitable):
        return "".join([read(part) async for part in await answer])
    return "".join(read(part) for part in answer)


def chunk_text(chunk):
    return "".join(choice.delta.content or "" for choice in chunk.choices)


def event_text(event):
    if event.type == "response.output_text.delta":
        return event.delta
    delta = getattr(event, "delta", None)
    return getattr(delta, "text", None) or ""


@dataclass(frozen=True)
class Way:
    """One way to ask; `ask` returns what the model says."""

    name: str
    vendor: Any
    how: Callable[..., Awaitable[str]]
    make: Callable[..., Any]
    read: Callable[[Any], str]
    is_async: bool

    @property
    def door(self) -> type:
        """Our client of a gateway."""
        if self.vendor is openai:
            return looptrap.openai.AsyncOpenAI if self.is_async else looptrap.openai.OpenAI
        return looptrap.anthropic.AsyncAnthropic if self.is_async else looptrap.anthropic.Anthropic

    @property
    def plain(self) -> type:
        """The vendor's own client."""
        return getattr(self.vendor, self.door.__name__)

    def base_url(self, root: str) -> str:
        """The address as the vendor wants it."""
        return f"{root}/v1" if self.vendor is openai else root

    async def ask(self, client, text="Again?", **more) -> str:
        return await self.how(self.make, self.read, client, text, **more)


WAYS = [
    Way(f"{name}{', async' if is_async else ''}", vendor, how, make, read, is_async)
    for is_async in (False, True)
    for name, vendor, how, make, read in [
        ("chat", openai, whole, chat, lambda one: one.choices[0].message.content),
        ("chat stream", openai, streamed, chat, chunk_text),
        ("responses", openai, whole, response, lambda one: one.output_text),
        ("responses stream", openai, streamed, response, event_text),
        ("messages", anthropic, whole, message, lambda one: one.content[0].text),
        ("messages stream", anthropic, streamed, message, event_text),
    ]
]


WAY = {way.name: way for way in WAYS}
EVERY_WAY = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
ONE_OF_EACH = pytest.mark.parametrize(
    "way",
    [WAY[name] for name in ("chat", "chat, async", "messages", "messages, async")],
    ids=lambda way: way.name,
)
STREAMS = pytest.mark.parametrize(
    "way", [way for way in WAYS if "stream" in way.name], ids=lambda way: way.name
)

RULE = """
[[policies]]
name = "p"
mode = "{mode}"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  action = "{action}"
"""


def rule(action="block", mode="enforce"):
    """Return a policy that acts on the second equal call."""
    return RULE.format(action=action, mode=mode)


async def refusal(way, client, text="Again?", **more):
    """Return what a call raises."""
    with pytest.raises(looptrap.RefusedError) as caught:
        await way.ask(client, text, **more)
    return caught.value


async def close(client):
    """Close a client of either kind."""
    closing = client.close()
    if isinstance(closing, Awaitable):
        await closing
