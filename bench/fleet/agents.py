"""Who calls a fleet: honest callers, loops, errands with a budget, and calls that are counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from bench.client import Answer, Client, chat, request
from bench.rig import PartFailedError

PATIENCE = 20.0
MOST_CALLS = 60
"""Calls after which a loop or an errand gives up: it should have been refused."""
SLOW_EVERY = 7
"""Which honest calls the provider answers after a second; the others it answers at once. Of three
gateways that take turns, each gets some."""
ERRAND_ANSWER = 10
"""The largest answer in tokens that a call of an errand asks for."""

_ids, _honest = count(1), count(1)


@dataclass
class Load:
    """Honest calls, none like another, at a bounded rate; some are slow to be answered."""

    host: str
    port: int
    rate: float
    callers: int = 24
    answers: list[tuple[float, Answer]] = field(default_factory=list)
    """When each call ended, and its answer."""
    _is_over: bool = False
    _next: float = 0.0

    async def run(self) -> None:
        """Call until told to stop."""
        await asyncio.gather(*(self._call() for _ in range(self.callers)))

    def stop(self) -> None:
        """End after the calls in flight."""
        self._is_over = True

    def since(self, began: float) -> list[Answer]:
        """Return the answers to calls that ended after a time."""
        return [answer for at, answer in self.answers if at >= began]

    async def _call(self) -> None:
        client = Client(self.port, PATIENCE, self.host)
        while not self._is_over:
            now = time.monotonic()
            self._next = max(self._next + 1 / self.rate, now)
            await asyncio.sleep(self._next - now)
            number = next(_honest)
            speed = "slowly" if number % SLOW_EVERY == 0 else "at once"
            body = chat(f"Answer {speed}: what comes after the letter number {number}?")
            answer = await client.ask(_request(body))
            self.answers.append((time.monotonic(), answer))
        client.close()


async def loop(host: str, port: int) -> int:
    """Repeat one call until it is refused; return which call was the first to be refused."""
    body = chat(f"Please fix the build of loop {next(_ids)}.")
    return await _until(429, host, port, lambda _number: _request(body))


async def errand(host: str, port: int) -> int:
    """Make calls of one budget until it is used up; return how many passed."""
    name = f"errand-{next(_ids)}"

    def ask(number: int) -> bytes:
        body = chat(f"Step {number} of {name}: what is next?", max_tokens=ERRAND_ANSWER)
        return _request(body, {"X-Looptrap-Turn": name})

    return await _until(402, host, port, ask) - 1


async def _until(status: int, host: str, port: int, ask: Callable[[int], bytes]) -> int:
    """Return the number of the first call that is answered with a status."""
    client = Client(port, PATIENCE, host)
    answered: Counter[int] = Counter()
    try:
        for number in range(1, MOST_CALLS + 1):
            answer = await client.ask(ask(number))
            if answer.status == status:
                return number
            answered[answer.status] += 1
    finally:
        client.close()
    raise PartFailedError(f"none of {MOST_CALLS} calls got {status}, but these: {dict(answered)}")


@dataclass
class Counted:
    """Equal calls, each of whose answers says how many were counted; they are all allowed."""

    host: str
    port: int
    name: str = field(default_factory=lambda: f"counted-{next(_ids)}")
    counts: list[int] = field(default_factory=list)
    """The counts of all answers; 1 of a first call."""
    unanswered: int = 0

    async def call(self, times: int = 1, pause: float = 0.0) -> None:
        """Send that many calls, one after the other, with a pause after each."""
        client = Client(self.port, PATIENCE, self.host)
        for _ in range(times):
            asked = request(b"", _fields(), f"/v1/models/{self.name}", "GET")
            answer = await client.ask(asked)
            if answer.status == 200:
                self.counts.append(int(answer.headers.get("x-looptrap-count", 1)))
            else:
                self.unanswered += 1
            await asyncio.sleep(pause)
        client.close()


def _request(body: bytes, more: dict[str, str] | None = None) -> bytes:
    return request(body, {**_fields(), "Content-Type": "application/json", **(more or {})})


def _fields() -> dict[str, str]:
    return {"Authorization": "Bearer sk-fleet", "X-Request-Id": f"call-{next(_ids)}"}
