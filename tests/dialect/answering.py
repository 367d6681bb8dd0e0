"""Real SDKs, and a little HTTP server that answers them with what the gateway would answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anthropic
import openai
from google import genai

from looptrap.dialect.answer import Answer
from looptrap.dialect.model import Call, Request
from looptrap.dialect.registry import read

STRICT = {"api_key": "k", "_strict_response_validation": True}
"""Makes the SDKs check every field of an answer, which they leave undone by default."""


@dataclass
class Answering:
    """Where it listens, and the calls it has received."""

    url: str
    calls: list[Call] = field(default_factory=list)


@asynccontextmanager
async def answering(respond: Callable[[Call], Answer]) -> AsyncIterator[Answering]:
    """Serve on loopback; every request is read into a call and given to `respond`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                call = read(await _request(reader))
                here.calls.append(call)
                writer.write(_encoded(respond(call)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    here = Answering(f"http://{host}:{port}")
    async with server:
        yield here


async def _request(reader: asyncio.StreamReader) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n\r\n")[0].split(b"\r\n")
    method, target, _ = first.decode().split(" ")
    headers = [
        (name.lower(), value.strip()) for name, _, value in (n.partition(b":") for n in lines)
    ]
    length = int(dict(headers).get(b"content-length", b"0"))
    path, _, query = target.partition("?")
    body = await reader.readexactly(length)
    return Request(method=method, path=path, query=query, headers=headers, body=body)


def _encoded(answer: Answer) -> bytes:
    fields = [*answer.headers, (b"Content-Length", b"%d" % len(answer.body))]
    lines = [b"HTTP/1.1 %d Answer" % answer.status, *(b"%b: %b" % field for field in fields)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + answer.body


@asynccontextmanager
async def openai_at(respond):
    """Yield OpenAI's SDK, and the server that answers it."""
    async with (
        answering(respond) as server,
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", **STRICT) as client,
    ):
        yield client, server


@asynccontextmanager
async def anthropic_at(respond):
    """Yield Anthropic's SDK, and the server that answers it."""
    async with (
        answering(respond) as server,
        anthropic.AsyncAnthropic(base_url=server.url, **STRICT) as client,
    ):
        yield client, server


@asynccontextmanager
async def google_at(respond):
    """Yield Google's SDK, and the server that answers it."""
    async with answering(respond) as server:
        client = genai.Client(api_key="k", http_options={"base_url": server.url})
        async with client.aio as aio:
            yield aio, server
        client.close()
