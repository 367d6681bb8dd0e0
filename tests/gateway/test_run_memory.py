"""Gateways remember runs in the store they share: what that costs, and what a fault of it does."""

import json
import signal
from itertools import cycle, islice
from random import Random

import pytest
from bench.loops.speech import CHAT, RESPONSES, RESPONSES_STREAM
from tests.engine.agents import EDIT, FAIL, READ, Agent, Move, elided, trimmed, whole
from tests.gateway.serving import JSON, is_degraded, until

from looptrap.store.model import Note
from looptrap.testing.reply import RenderedReply, Reply

RULES = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "stuck"
  watch = "repeat"
  threshold = 5
  [[policies.rules]]
  name = "cycle"
  watch = "cycle"
  threshold = 3
  [[policies.rules]]
  name = "stagnation"
  watch = "stagnation"
  threshold = 8
"""
"""Rules that only read histories: tests send faster than any agent."""

CYCLE = list(islice(cycle([READ, FAIL, EDIT]), 15))
REFUSED_AFTER = 9
"""Rounds of that cycle: three times three."""


def work(count, start=0):
    """Return honest moves."""
    return [
        Move("read_file", f"src/part_{number}.py", f"def part_{number}(): return {number * 7}")
        for number in range(start, start + count)
    ]


class Answers(dict):
    """What a provider answers to each body."""

    def __call__(self, received):
        return self.get(received.body)


class RemoteAgent:
    """An agent that sends its requests through gateways, to one after the other."""

    def __init__(self, gateways, answers, dialect=CHAT, **options):
        self.agent = Agent(None, dialect, **options)
        self.gateways, self.answers, self.sent = gateways, answers, 0

    async def do(self, move):
        """Send a request, which is answered with a call, and perform it; return the status."""
        turn, body = self.agent.turn_of(move), json.dumps(self.agent.body()).encode()
        kind = b"text/event-stream" if self.agent.dialect.asks_stream else b"application/json"
        rendered = RenderedReply(200, [(b"Content-Type", kind)], [self.agent.written(turn)])
        self.answers[body] = Reply(rendered)
        gateway = self.gateways[self.sent % len(self.gateways)]
        self.sent += 1
        answer = await gateway.ask(target=self.agent.dialect.path, headers=JSON, body=body)
        self.agent.perform(turn, move)
        return answer.status

    async def play(self, moves):
        return [await self.do(move) for move in moves]


@pytest.fixture
def start(instances):
    """Start gateways with an agent before them: `await start(2, view=…)`."""

    async def begin(count=1, *, flags=None, **options):
        answers = Answers()
        # On a busy machine a call may wait longer for the store than it does by default.
        settings = {"store_timeout": 5.0, **(flags or {})}
        gateways = await instances(count, RULES, script=answers, **settings)
        return gateways, RemoteAgent(gateways, answers, **options)

    return begin


VIEWS = {"whole": whole, "trimmed": trimmed(2), "elided": elided(1)}


class TestInstances:
    @pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
    async def test_a_run_spread_over_instances_is_one_run(self, start, view):
        _, agent = await start(2, view=view)
        before = len(work(3))
        statuses = await agent.play([*work(3), *CYCLE])
        assert statuses.index(429) == before + REFUSED_AFTER

    @pytest.mark.parametrize("kept", ["response", "conversation"])
    @pytest.mark.parametrize("dialect", [RESPONSES, RESPONSES_STREAM], ids=["whole", "streamed"])
    async def test_so_is_one_that_the_provider_keeps(self, start, kept, dialect):
        _, agent = await start(2, dialect=dialect, kept=kept)
        assert (await agent.play([*work(3), *CYCLE])).index(429) == 3 + REFUSED_AFTER

    @pytest.mark.parametrize(
        ("dialect", "options"),
        [(CHAT, {"view": trimmed(2)}), (RESPONSES_STREAM, {"kept": "response"})],
        ids=["trimmed", "kept by the provider"],
    )
    async def test_a_gateway_without_a_shared_store_remembers_too(self, serve, dialect, options):
        answers = Answers()
        here = await serve(RULES, script=answers)
        agent = RemoteAgent([here], answers, dialect, **options)
        assert (await agent.play([*work(3), *CYCLE])).index(429) == 3 + REFUSED_AFTER


class TestRoundTrips:
    """How often a call waits for the shared store."""

    @staticmethod
    async def asked(gateways, agent, moves):
        """Return how often the store was asked for each call, and the statuses."""
        (gateway,) = gateways
        times, statuses = [], []
        for move in moves:
            before = gateway.app.store.asked
            statuses.append(await agent.do(move))
            times.append(gateway.app.store.asked - before)
        return times, statuses

    async def test_a_call_that_shows_its_whole_history_waits_once(self, start):
        gateways, agent = await start()
        times, statuses = await self.asked(gateways, agent, [*work(12), READ, READ, READ])
        assert {*statuses} == {200}
        # The first one has no rounds; nothing is known of the second one's run yet.
        assert times == [0] + [1] * 14

    async def test_a_call_that_shows_less_waits_once_more(self, start):
        gateways, agent = await start(view=trimmed(2))
        times, statuses = await self.asked(gateways, agent, [*work(12), READ, READ, READ])
        assert {*statuses} == {200}
        assert max(times) == 2

    async def test_a_refusal_waits_once_more(self, start):
        gateways, agent = await start(view=trimmed(2))
        times, statuses = await self.asked(gateways, agent, CYCLE)
        refused = statuses.index(429)
        assert {*times[:refused]} <= {0, 1, 2}
        assert {*times[refused:]} == {3}

    @pytest.mark.parametrize("kept", ["response", "conversation"])
    async def test_a_call_whose_history_the_provider_keeps_waits_twice(self, start, kept):
        gateways, agent = await start(dialect=RESPONSES, kept=kept)
        times, _ = await self.asked(gateways, agent, work(12))
        assert times == [0] + [2] * 11


STORE_FAULTS = ("killed", "frozen", "emptied")


class TestFaults:
    """The store fails in the middle of a run: nothing else does."""

    @staticmethod
    async def fault(name, valkey, gateways, agent, moves):
        """Let an agent work on while the store is away; return the statuses meanwhile."""
        match name:
            case "killed":
                valkey.kill()
            case "frozen":
                valkey.send(signal.SIGSTOP)
            case "emptied":
                valkey.empty()
        meanwhile = await agent.play(moves)
        if name == "killed":
            valkey.start()
        elif name == "frozen":
            valkey.send(signal.SIGCONT)
        await until(lambda: not any(map(is_degraded, gateways)))
        return meanwhile

    @pytest.mark.slow
    @pytest.mark.parametrize("fault", STORE_FAULTS)
    async def test_a_loop_is_refused_again_after_a_fault(self, start, valkey, fault):
        gateways, agent = await start(2, view=trimmed(2), flags={"store_timeout": 0.5})
        assert {*await agent.play([*work(3), *CYCLE[:6]])} == {200}
        meanwhile = await self.fault(fault, valkey, gateways, agent, CYCLE[:4])
        assert {*meanwhile} <= {200, 429}
        # On a busy machine the store may seem to be away once more.
        statuses = await agent.play(2 * CYCLE)
        assert {*statuses} <= {200, 429}
        assert 429 in statuses

    @pytest.mark.slow
    @pytest.mark.parametrize("fault", STORE_FAULTS)
    @pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
    async def test_an_honest_run_goes_on_through_a_fault(self, start, valkey, fault, view):
        gateways, agent = await start(2, view=view, flags={"store_timeout": 0.5})
        statuses = await agent.play(work(6))
        statuses += await self.fault(fault, valkey, gateways, agent, work(6, 10))
        statuses += await agent.play(work(20, 20))
        assert {*statuses} == {200}

    async def test_anything_that_the_store_remembers_is_taken(self, start, monkeypatch):
        (gateway,), agent = await start(view=trimmed(2))
        remember, random = gateway.app.store.remember, Random(1)

        def forge(notes, now):
            forged = [random.choice([b"x", note.value, random.randbytes(99)]) for note in notes]
            pairs = zip(notes, forged, strict=True)
            remember([Note(note.key, value, note.limit) for note, value in pairs], now)

        monkeypatch.setattr(gateway.app.store, "remember", forge)
        assert {*await agent.play(work(40, 10))} == {200}
