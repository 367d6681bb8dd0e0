"""The agents of a chaos run: honest, looping, streaming, slow, malformed, disconnecting early."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from bench.client import DROPPED, Answer, Client, chat, request

THRESHOLD = 6
"""The equal call that the default policy refuses first …"""
REPEATS = 9
"""… of so many that a loop makes."""
STUCK_ROUNDS = 6
"""The equal round of a history that it refuses first, where failures are temporary."""
ROUNDS = 8

PLACES = ("a", "b", "chain")
"""Where the calls of an agent go: to one provider, or to the first of two that answers."""

MALFORMED = {
    "no version": b"POST /v1/chat/completions\r\n\r\n",
    "no host": b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "bad length": b"POST / HTTP/1.1\r\nHost: g\r\nContent-Length: many\r\n\r\n",
    "bad chunk": b"POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "huge body": b"POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 99999999999\r\n\r\n",
    "huge header": b"GET / HTTP/1.1\r\nHost: g\r\nX-A: " + b"a" * 40_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: g\r\n" + b"X-A: a\r\n" * 500 + b"\r\n",
    "half a head": b"POST / HTTP/1.1\r\nHost: g\r\nX-A",
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",
}


@dataclass(slots=True)
class Told:
    """One request, and how it ended."""

    id: str
    kind: str
    place: str
    who: str
    began: float
    ended: float
    answer: Answer
    number: int = 0
    """Of a loop: which of its equal calls it was."""

    @property
    def status(self) -> int:
        return self.answer.status

    @property
    def is_loop_refusal(self) -> bool:
        """Whether it was refused for a loop."""
        return self.status == 429 and self.answer.code == "recursive_loop_detected"


@dataclass
class Traffic:
    """Agents that take turns, at a bounded rate; all their answers are kept."""

    port: int
    rng: Random
    rate: float
    """Requests a second, at most."""
    agents: int = 24
    told: list[Told] = field(default_factory=list)
    in_flight: int = 0
    _ids: Any = field(default_factory=lambda: count(1))
    _next: float = 0.0

    async def run(self, seconds: float) -> None:
        """Run agents one after the other, several at a time; return when all are done."""
        end = time.monotonic() + seconds
        await asyncio.gather(*(self._work(end) for _ in range(self.agents)))

    async def _work(self, end: float) -> None:
        kinds: Mapping[str, Callable[[Client, str, str], AsyncIterator[None]]] = {
            "honest": self._honest,
            "loop": self._loop,
            "stream": self._stream,
            "tool run": self._tool_run,
            "stuck tool run": self._stuck_tool_run,
            "malformed": self._malformed,
            "slow": self._slow,
            "gone early": self._gone_early,
        }
        while time.monotonic() < end:
            kind = self.rng.choices(list(kinds), [6, 3, 3, 2, 2, 2, 1, 1])[0]
            client = Client(self.port)
            place, who = self.rng.choice(PLACES), f"agent-{next(self._ids)}"
            try:
                async for _ in kinds[kind](client, place, who):
                    await self._pace()
            finally:
                client.close()

    async def _pace(self) -> None:
        now = time.monotonic()
        self._next = max(self._next + 1 / self.rate, now)
        await asyncio.sleep(self._next - now)

    async def _ask(
        self, client: Client, kind: str, place: str, who: str, body: bytes, number: int = 0
    ) -> Told:
        name = f"{kind.replace(' ', '-')}-{next(self._ids)}"
        asking = client.ask(request(body, _headers(name, who)))
        return await self._note(asking, name, kind, place, who, number)

    async def _note(
        self, asking: Awaitable[Answer], name: str, kind: str, place: str, who: str, number: int = 0
    ) -> Told:
        began = time.monotonic()
        self.in_flight += 1
        try:
            answer = await asking
        finally:
            self.in_flight -= 1
        told = Told(name, kind, place, who, began, time.monotonic(), answer, number)
        self.told.append(told)
        return told

    # What agents do; each yields between two requests

    async def _honest(self, client: Client, place: str, who: str) -> AsyncIterator[None]:
        for number in range(4):
            yield
            body = chat(f"Question {number} of {who}: what is next?", f"{place}-1")
            await self._ask(client, "honest", place, who, body)

    async def _loop(self, client: Client, place: str, who: str) -> AsyncIterator[None]:
        body = chat(f"Please fix the build of {who}.", f"{place}-1")
        for number in range(1, REPEATS + 1):
            yield
            await self._ask(client, "loop", place, who, body, number)

    async def _stream(self, client: Client, place: str, who: str) -> AsyncIterator[None]:
        for number in range(2):
            yield
            body = chat(f"Tell story {number} of {who}.", f"{place}-1", stream=True)
            await self._ask(client, "stream", place, who, body)

    async def _tool_run(self, client: Client, place: str, who: str) -> AsyncIterator[None]:
        for rounds in range(1, ROUNDS):
            yield
            body = _history(who, place, [(n, f"pump {n}: pressure normal") for n in range(rounds)])
            await self._ask(client, "tool run", place, who, body)

    async def _stuck_tool_run(self, client: Client, place: str, who: str) -> AsyncIterator[None]:
        for rounds in range(1, ROUNDS):
            yield
            body = _history(who, place, [(5, "ERROR: the log server timed out")] * rounds)
            await self._ask(client, "stuck tool run", place, who, body, rounds)

    async def _malformed(self, client: Client, place: str, who: str) -> AsyncIterator[None]:
        yield
        which = self.rng.choice(list(MALFORMED))
        name = f"malformed-{which.replace(' ', '-')}-{next(self._ids)}"
        await self._note(client.ask(MALFORMED[which]), name, "malformed", place, who)

    async def _slow(self, client: Client, place: str, who: str) -> AsyncIterator[None]:
        yield
        name = f"slow-{next(self._ids)}"
        body = chat(f"Take your time with {who}, answer slowly.", f"{place}-1")
        sending = client.ask(request(body, _headers(name, who)), pieces=8, pause=0.15)
        await self._note(sending, name, "slow", place, who)

    async def _gone_early(self, _client: Client, place: str, who: str) -> AsyncIterator[None]:
        yield
        name = f"gone-{next(self._ids)}"
        body = chat(f"Write endlessly to {who}.", f"{place}-1", stream=True)
        leaving = Client(self.port, patience=self.rng.uniform(0.05, 0.8))
        asking = leaving.ask(request(body, _headers(name, who)))
        await self._note(asking, name, "gone early", place, who)


def _headers(name: str, who: str) -> dict[str, str]:
    return {"X-Request-Id": name, "Authorization": f"Bearer sk-{who}"}


def is_whole(told: Told) -> bool:
    """Return whether a stream is complete."""
    return told.answer.body.endswith(b"data: [DONE]\n\n")


def is_broken_off(told: Told) -> bool:
    """Return whether a stream ended with an error event, or was cut inside one."""
    return told.status == DROPPED or b'"upstream_' in told.answer.body[-600:]


def _history(who: str, place: str, rounds: list[tuple[int, str]]) -> bytes:
    """Return a request whose agent has read the logs of these pumps so far, with these results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Check the pumps of {who}."}]
    for number, (pump, result) in enumerate(rounds):
        function = {"name": "read_log", "arguments": json.dumps({"pump": pump})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return json.dumps({"model": f"{place}-1", "messages": messages}).encode()
