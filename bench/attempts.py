"""Attempts to exhaust a gateway through its sockets; each says how its own requests ended.

python -m bench.attempts NAME PORT TIMES SECONDS

It runs in a process of its own, so that it does not disturb the measurement of its effects.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from bench.client import CHAT, Client, chat, request

Endings = Counter[str]
Attempt = Callable[[int, int, float], Awaitable[Endings]]
"""Takes the port, the number of times, and the maximum of seconds."""

CONNECTIONS = 32
FEW = 4
"""Connections for requests that are slow by themselves."""


async def _each(port: int, requests: Iterator[bytes], seconds: float, number: int) -> Endings:
    """Send requests over some connections until there are no more, or the time is over."""
    endings: Endings = Counter()
    end = asyncio.get_running_loop().time() + seconds

    async def work() -> None:
        client = Client(port)
        for data in requests:
            answer = await client.ask(data)
            endings[f"{answer.status} {answer.code}".strip()] += 1
            if asyncio.get_running_loop().time() > end:
                break
        client.close()

    await asyncio.gather(*(work() for _ in range(number)))
    return endings


def flood(make: Callable[[int], bytes], connections: int = CONNECTIONS) -> Attempt:
    """Return the attempt to send different requests."""

    async def attempt(port: int, times: int, seconds: float) -> Endings:
        return await _each(port, (make(number) for number in range(times)), seconds, connections)

    return attempt


def held(begin: bytes, more: bytes, every: float = 1.0) -> Attempt:
    """Return the attempt to hold connections by sending a little, and a little more each second."""

    async def attempt(port: int, times: int, seconds: float) -> Endings:
        endings: Endings = Counter()
        end = asyncio.get_running_loop().time() + seconds

        async def hold() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begin)
            answer = b""
            while not answer and asyncio.get_running_loop().time() < end:
                try:
                    async with asyncio.timeout(every):
                        answer = await reader.read(12) or b"HTTP/1.1 cut"
                except TimeoutError:
                    writer.write(more)
                except OSError:
                    answer = b"HTTP/1.1 cut"
            endings[answer[9:12].decode() or "held"] += 1
            writer.close()

        await asyncio.gather(*(hold() for _ in range(times)))
        return endings

    return attempt


def unread(data: bytes) -> Attempt:
    """Return the attempt to request an answer and not read it."""

    async def attempt(port: int, times: int, seconds: float) -> Endings:
        connections = []
        for _ in range(times):
            # A small window, so that little of the answer can be on its way.
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(data)
            connections.append(writer)
        await asyncio.sleep(seconds)
        for writer in connections:
            writer.transport.abort()
        return Counter({"not read": times})

    return attempt


def listening(path: str) -> Attempt:
    """Return the attempt to subscribe to all events, as often as possible."""

    async def attempt(port: int, times: int, seconds: float) -> Endings:
        endings: Endings = Counter()
        asked = request(b"", {"Host": "127.0.0.1", "Accept": "text/event-stream"}, path, "GET")

        async def listen() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked)
            try:
                async with asyncio.timeout(seconds):
                    endings[(await reader.readuntil(b"\r\n"))[9:12].decode()] += 1
                    await reader.read()
            except (TimeoutError, OSError, EOFError):
                pass
            writer.close()

        await asyncio.gather(*(listen() for _ in range(times)))
        return endings

    return attempt


# What requests are made of


def stuck(number: int, tool: str = "read_log", rounds: int = 7, **more: Any) -> bytes:
    """Return a history with a loop; each is a new incident."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Check plant {number}."}]
    for at in range(rounds):
        call = {"id": f"c{at}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": "ERROR: timed out"})
    return json.dumps({"model": "gpt-5.3", "messages": messages, **more}).encode()


def named(number: int) -> bytes:
    """Return a call with new names for everything that has one."""
    tool = {"type": "function", "function": {"name": f"tool_{number}", "parameters": {}}}
    body = chat(f"Question {number}", f"model-{number}", tools=[tool], user=f"user-{number}")
    headers = {"Authorization": f"Bearer sk-{number}", "X-Session-Id": f"run-{number}"}
    return request(body, headers | {f"X-Odd-{number}": "1"}, f"/v1/{number}/chat/completions")


def long_named(number: int) -> bytes:
    """Return a call of a loop with long and new names."""
    model, tool = "m" * 200_000 + str(number), "t" * 20_000 + str(number)
    headers = {"Authorization": f"Bearer sk-{number}", "X-Session-Id": "s" * 25_000 + str(number)}
    return request(stuck(number, tool, user="u" * 200_000, model=model), headers)


def many_tools(number: int) -> bytes:
    """Return a call that offers 10,000 tools."""
    tools = [
        {"type": "function", "function": {"name": f"tool_{number}_{at}", "parameters": {}}}
        for at in range(10_000)
    ]
    return request(chat(f"Question {number}", tools=tools))


def many_messages(number: int) -> bytes:
    """Return a call with a history of 100,000 messages."""
    messages = [{"role": "user", "content": f"{number} {at}"} for at in range(100_000)]
    return request(json.dumps({"model": "gpt-5.3", "messages": messages}).encode())


def many_keys(number: int) -> bytes:
    """Return a call whose metadata has 200,000 keys."""
    metadata = {f"{number}-{at}": at for at in range(200_000)}
    return request(chat(f"Question {number}", metadata=metadata))


def deep(number: int) -> bytes:
    """Return a call whose JSON is 100,000 levels deep."""
    nested = b"[" * 100_000 + b"]" * 100_000
    return request(chat(f"Question {number}")[:-1] + b', "metadata": ' + nested + b"}")


def huge_numbers(number: int) -> bytes:
    """Return a call with numbers of a million digits."""
    digits = b"9" * 1_000_000
    begin = chat(f"Question {number}")[:-1] + b', "seed": ' + digits
    return request(begin + b', "max_tokens": ' + digits + b', "n": 1e999999999}')


@cache
def bomb(size: int = 200_000_000) -> bytes:
    """Return a call that has this size when it is decoded."""
    return request(gzip.compress(chat("A" * size)), {"Content-Encoding": "gzip"})


def too_large(number: int) -> bytes:
    """Return the beginning of a body of 50 MB, its size announced or in chunks."""
    if number % 2:
        head = b"POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n"
        return head + b"2faf080\r\n" + b"x" * 100_000
    return b"POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 50000000\r\n\r\n" + b"x" * 100_000


def many_headers(number: int) -> bytes:
    """Return a request with 10,000 headers."""
    return request(b"", {f"X-{number}-{at}": "1" for at in range(10_000)})


class Plan(NamedTuple):
    """One attempt: what it does, how often, its maximum time, and what it may cost."""

    attempt: Attempt
    times: int
    seconds: float = 60.0
    room: int = 150
    """Megabytes by which memory may grow during the attempt."""
    on_admin: bool = False


_HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: g\r\n".encode()
_SIZED = _HEAD + b"Content-Length: 1000000\r\n\r\n{"
_ENDLESS = request(chat("Write endlessly.", stream=True), {"X-Looptrap-Progress": "1"})


def _prompt(number: int) -> bytes:
    return request(chat(f"Question {number}: {number * 7919}?"))


def _storm(number: int) -> bytes:
    return request(stuck(number), {"Authorization": f"Bearer sk-storm-{number}"})


PLANS: dict[str, Plan] = {
    "distinct prompts": Plan(flood(_prompt), 60_000, room=60),
    "new names for everything": Plan(flood(named), 30_000, room=80),
    "long names in loops": Plan(flood(long_named, FEW), 300, room=300),
    "incident storm": Plan(flood(_storm), 20_000, room=120),
    "slow heads": Plan(held(_HEAD, b"X"), 1_000, 12, room=60),
    "slow bodies": Plan(held(_SIZED, b" "), 1_000, 12, room=60),
    "silent bodies": Plan(held(_SIZED, b"", 4.0), 1_000, 12, room=60),
    "answers that nobody reads": Plan(unread(_ENDLESS), 500, 10),
    "10,000 tools": Plan(flood(many_tools, FEW), 40),
    "100,000 messages": Plan(flood(many_messages, FEW), 40, room=400),
    "200,000 keys": Plan(flood(many_keys, FEW), 40, room=400),
    "JSON of 100,000 levels": Plan(flood(deep), 200),
    "numbers of a million digits": Plan(flood(huge_numbers, FEW), 40, room=400),
    "gzip bombs": Plan(flood(lambda _: bomb(), FEW), 40, room=600),
    "bodies of 50 MB": Plan(flood(too_large), 400, room=60),
    "10,000 headers": Plan(flood(many_headers), 400, room=60),
    "listeners on the admin address": Plan(listening("/api/v1/events"), 1_000, 8, on_admin=True),
}


async def main(name: str, port: int, times: int, seconds: float) -> None:
    """Make one attempt, and print how its requests ended."""
    print(json.dumps(await PLANS[name].attempt(port, times, seconds)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
