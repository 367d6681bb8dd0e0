"""A provider in its own process, which can be killed at any moment without losing its count.

python -m bench.upstream PORT LOG [HOST]

Every request adds its X-Request-Id to the log before it is answered. The words of the request say
how: `slowly` after a second, `endlessly` with a stream that has no end.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

PAUSE = 0.01
"""Seconds between two events of a stream."""
EVENTS = 20
SLOW = 1.0

_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5.3",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Done."},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
}


class Upstream:
    """Answers chat requests, and logs them."""

    def __init__(self, log: int) -> None:
        self._log = log

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends."""
        try:
            while True:
                await self._answer(reader, writer)
        except (OSError, EOFError):
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        os.write(self._log, f"{fields.get('x-request-id', '-')}\n".encode())
        if b"slowly" in body:
            await asyncio.sleep(SLOW)
        if b'"stream": true' in body:
            await self._stream(writer, EVENTS if b"endlessly" not in body else sys.maxsize)
        else:
            _write(writer, json.dumps(_ANSWER).encode(), b"application/json")
            await writer.drain()

    async def _stream(self, writer: asyncio.StreamWriter, events: int) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for number in range(events):
            choice = {"index": 0, "delta": {"content": f"word {number} "}}
            event = {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
            _chunk(writer, b"data: %b\n\n" % json.dumps(event).encode())
            await writer.drain()
            await asyncio.sleep(PAUSE)
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _write(writer: asyncio.StreamWriter, body: bytes, kind: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % (kind, len(body)) + body)


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


async def main(port: int, log: str, host: str = "127.0.0.1") -> None:
    """Serve until the process is ended."""
    # One write each, in append mode: lines survive the process, and writers do not interleave.
    upstream = Upstream(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    server = await asyncio.start_server(upstream.serve, host, port, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
