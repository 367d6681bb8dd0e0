"""At which round a gateway refuses loops that are played in real time, whatever they show of it.

python -m bench.loops.live [--pace SECONDS] [--rounds N]

Starts a gateway and a provider on this machine, and plays some loops at once, each with a call
every few seconds. The same loops with their whole histories are played in the process, against a
clock that does not wait. Where a loop is refused more than three rounds later or earlier than that,
or not at all, the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from bench import rig
from bench.client import Client, request
from bench.loops import words
from bench.loops.moves import CODE_TOOLS, Move, circle, perform, work
from bench.loops.scenario import Scenario, Step, play
from bench.loops.speech import ANTHROPIC, CHAT, RESPONSES_STREAM, Agent, Dialect, Turn
from looptrap import Guard
from looptrap.dialect.stream import EVENT_STREAM, JSON
from looptrap.testing.provider import FakeProvider, Received
from looptrap.testing.reply import Gate, RenderedReply, Reply

PROMPT_S = 13.0
"""Seconds that an answer to the same prompt takes."""

GAP_S = 0.3
"""Seconds from an answer to the next request."""

MAX_DIFFERENCE = 3
"""Rounds by which a loop may be refused later, or earlier, than with its whole history."""

PERIOD = 3
"""Calls that a loop makes in turn …"""

SEGMENT = 2
"""… and those that one makes after each compaction."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop as its agent sends it, and with its whole history; each with the rounds so far."""

    name: str
    shown: Sequence[tuple[Step, int]]
    whole: Sequence[tuple[Step, int]]


class ElidingAgent(Agent):
    """Sends all of its calls, but only the latest results."""

    def _window(self) -> Sequence[Turn]:
        *old, latest = self.turns
        return [*map(_without_results, old), latest]


def _without_results(turn: Turn) -> Turn:
    return replace(turn, results=tuple((use, "[cleared]") for use, _ in turn.results))


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the loops, and print at which round each was refused."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--pace", type=float, default=4.0, help="seconds of a call")
    options.add_argument("--rounds", type=int, default=20, help="rounds of a loop at most")
    chosen = options.parse_args(arguments)
    loops = list(make_loops(chosen.pace, chosen.rounds))
    live = asyncio.run(_play_live(loops))
    print(f"{'loop':24} {'rounds, live':>13} {'rounds, whole history':>22}")
    is_off = False
    for loop, refused in zip(loops, live, strict=True):
        expected = play_at_once(loop.name, loop.whole)
        print(f"{loop.name:24} {_shown(refused):>13} {_shown(expected):>22}")
        if refused is None or expected is None or abs(refused - expected) > MAX_DIFFERENCE:
            is_off = True
    sys.exit(1 if is_off else 0)


def make_loops(pace: float, rounds: int) -> Iterable[Loop]:
    """Yield the loops: each begins with some work, and then goes in circles."""
    yield _same_prompt(rounds)
    yield _loop("trimmed to two rounds", CHAT, pace, rounds, keep=2)
    yield _loop("old results left out", ANTHROPIC, pace, rounds, kind=ElidingAgent)
    yield _loop("compacted", ANTHROPIC, pace, rounds, segment=SEGMENT)
    yield _loop("kept by the provider", RESPONSES_STREAM, pace, rounds, is_chained=True)


def _same_prompt(rounds: int) -> Loop:
    rng = Random("same prompt")
    agent = Agent(rng, CHAT, words.system(rng), pace=(PROMPT_S, PROMPT_S), gap=(GAP_S, GAP_S))
    agent.hear(words.task(rng))
    for _ in range(rounds):
        agent.say("I could not do that.")
        agent.turns.pop()
    steps = _numbered(agent.steps)
    return Loop("same prompt", steps, steps)


def _loop(
    name: str,
    dialect: Dialect,
    pace: float,
    rounds: int,
    *,
    kind: type[Agent] = Agent,
    keep: int = 0,
    is_chained: bool = False,
    segment: int = 0,
) -> Loop:
    rng = Random(name)
    system, task = words.system(rng), words.task(rng)
    lead = [] if segment else work(rng, 2)
    moves = [*lead, *circle(rng, rounds - len(lead), segment or PERIOD)]
    times = {"pace": (pace, pace), "gap": (GAP_S, GAP_S)}
    agent = kind(rng, dialect, system, CODE_TOOLS, keep=keep, is_chained=is_chained, **times)
    whole = Agent(rng, dialect, system, CODE_TOOLS, **times)
    for one in (agent, whole):
        one.hear(task)
    perform(whole, moves)
    if not segment:
        perform(agent, moves)
        return Loop(name, _numbered(agent.steps), _numbered(whole.steps))
    return Loop(name, list(_compacted(agent, rng, moves, segment)), _numbered(whole.steps))


def _compacted(
    agent: Agent, rng: Random, moves: Sequence[Move], segment: int
) -> Iterable[tuple[Step, int]]:
    """Yield the requests of an agent that replaces its history by a summary now and then."""
    for number, move in enumerate(moves):
        if number and number % segment == 0:
            agent.forget()
            said = f"The conversation so far, summarized: {words.task(rng)} Nothing works yet."
            agent.hear(said)
        perform(agent, [move])
        yield agent.steps[-1], number


def _numbered(steps: Sequence[Step]) -> list[tuple[Step, int]]:
    """Return requests with the rounds that were made before each."""
    return [(step, number) for number, step in enumerate(steps)]


def play_at_once(name: str, requests: Sequence[tuple[Step, int]]) -> int | None:
    """Return after how many rounds a loop is refused, in this process."""
    scenario = Scenario(name, "live", True, [step for step, _ in requests])
    refused = play(scenario, Guard.from_preset("default", secret=b"bench")).refused
    return None if refused is None else requests[refused][1]


async def _play_live(loops: Sequence[Loop]) -> list[int | None]:
    """Play loops at once through a gateway; return after how many rounds each was refused."""
    provider = Provider(step for loop in loops for step, _ in loop.shown)
    with tempfile.TemporaryDirectory() as folder:
        async with FakeProvider(provider.answer) as server:
            port = int(server.url.rpartition(":")[2])
            gateway = rig.looptrap(Path(folder), port)
            proxy = await asyncio.to_thread(gateway.__enter__)
            try:
                return await asyncio.gather(*(_play_one(loop, proxy.port) for loop in loops))
            finally:
                await asyncio.to_thread(gateway.__exit__, None, None, None)


class Provider:
    """Answers requests as their steps say, after as many seconds."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = {_encoded(step.body): step for step in steps}

    def answer(self, received: Received) -> Reply:
        """Return the reply to a request, which waits."""
        step, gate = self._steps[received.body], Gate()
        asyncio.get_running_loop().call_later(step.takes, gate.open)
        is_stream = bool(step.body.get("stream"))
        headers = [(b"Content-Type", EVENT_STREAM if is_stream else JSON)]
        return Reply.pause(gate, Reply(RenderedReply(200, headers, [step.answer], is_stream)))


async def _play_one(loop: Loop, port: int) -> int | None:
    client = Client(port, patience=PROMPT_S + 30)
    try:
        for step, rounds in loop.shown:
            headers = {"Content-Type": "application/json", **step.headers}
            answer = await client.ask(request(_encoded(step.body), headers, step.path))
            if answer.status == 429:
                return rounds
            if answer.status != 200:
                raise RuntimeError(f"{loop.name}: status {answer.status} after {rounds} rounds")
            await asyncio.sleep(GAP_S)
    finally:
        client.close()
    return None


def _encoded(body: Mapping[str, object]) -> bytes:
    return json.dumps(body).encode()


def _shown(rounds: int | None) -> str:
    return "never" if rounds is None else str(rounds)


if __name__ == "__main__":
    main()
