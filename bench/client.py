"""A client that sends exactly the given bytes, and reports how each request ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

CHAT = "/v1/chat/completions"

DROPPED = 0
"""The status if the connection ended before a whole answer."""
LATE = -1
"""The status if no whole answer came in time."""


class Answer(NamedTuple):
    """One answer, or why there is none."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def code(self) -> str:
        """The code of a refusal or failure; empty without one."""
        try:
            error = json.loads(self.body)["error"]
            return str(error.get("code") or error["type"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return ""


def chat(text: str, model: str = "gpt-5.3", **more: Any) -> bytes:
    """Return the body of a chat request with one message."""
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": model, "messages": messages, **more}).encode()


def request(
    body: bytes, headers: Mapping[str, str] | None = None, target: str = CHAT, method: str = "POST"
) -> bytes:
    """Return the bytes of a request."""
    lines = {"Host": "gateway", "Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


class Client:
    """One connection, which is opened again after it has ended."""

    def __init__(self, port: int, patience: float = 20.0, host: str = "127.0.0.1") -> None:
        self._host = host
        self._port = port
        self._patience = patience
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, data: bytes, pieces: int = 1, pause: float = 0.0) -> Answer:
        """Send a request, in that many pieces with a pause before each, and return its answer."""
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._patience):
                status, headers, body = await self._exchange(data, pieces, pause)
        except TimeoutError:
            self.close()
            return Answer(LATE, {}, b"", time.perf_counter() - began)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            self.close()
            return Answer(DROPPED, {}, b"", time.perf_counter() - began)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, headers, body, time.perf_counter() - began)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _exchange(
        self, data: bytes, pieces: int, pause: float
    ) -> tuple[int, dict[str, str], bytes]:
        if self._streams is None or _is_over(*self._streams):
            self.close()
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        size = -(-len(data) // pieces)
        for start in range(0, len(data), size):
            if pause:
                await asyncio.sleep(pause)
            if _is_over(reader, writer):
                break  # an answer may have come before the end of the request
            writer.write(data[start : start + size])
        status, headers = await _head(reader)
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, await _chunked(reader)
        if "content-length" in headers:
            return status, headers, await reader.readexactly(int(headers["content-length"]))
        return status, headers, await reader.read() if status != 204 else b""


def _is_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    return writer.is_closing() or reader.at_eof() or reader.exception() is not None


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
    fields = (line.partition(":") for line in lines if line)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in fields}


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    pieces = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        pieces.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return b"".join(pieces)
