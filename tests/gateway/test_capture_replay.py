"""What the gateway captures is judged in a replay as it was judged by the gateway."""

import asyncio
import json

import msgspec
import pytest
from tests.detect.forgetful import ForgetfulAgent
from tests.detect.runs import Use, bash
from tests.gateway.serving import CHAT, JSON, chat
from tests.wire.fake_client import Clock

from looptrap.config import load
from looptrap.policy.action import Action
from looptrap.replay.judge import FirstActions
from looptrap.replay.replay import Replay
from looptrap.replay.ruleset import Ruleset
from looptrap.testing import Reply

ANSWER_S = 12.0
"""Seconds that a provider takes to answer."""

RESPONSES = "/v1/responses"
READ = Use("read_file", {"path": "a.py"}, "def a(): ...\n" * 30)
TEST = bash("make test", "2 failed")
LIST = bash("ls", "a.py b.py")

DEFAULT = ""
WARNING = """
[[policies]]
name = "lenient"
  [[policies.rules]]
  name = "repeats"
  watch = "repeat"
  threshold = 3
  action = "warn"
"""
STRICTER = """
[[policies]]
name = "strict"
  [[policies.rules]]
  name = "repeats"
  watch = "repeat"
  thresholds = { warn = 2, block = 3 }
  [[policies.rules]]
  name = "cycles"
  watch = "cycle"
  threshold = 2
  [[policies.rules]]
  name = "compactions"
  watch = "compaction"
  threshold = 2
  [[policies.rules]]
  name = "equal"
  watch = "conversation"
  threshold = 3
  window = 10
  window_kind = "streak"
"""


def bodies_of(uses, compacts_after=0, **options):
    """Yield the bodies of an agent's requests, each with the target."""
    agent = ForgetfulAgent(**options)
    for number, use in enumerate(uses, 1):
        agent.use(use)
        yield CHAT, msgspec.json.encode(agent.body())
        if compacts_after and not number % compacts_after:
            agent.compact()


async def play(here, requests, session="0f3b6a1c"):
    headers = JSON | {"X-Claude-Code-Session-Id": session}
    for target, body in requests:
        await here.ask(target=target, headers=headers, body=body)


async def play_two(here):
    """Play two agents side by side, each in the session that it names."""
    agents = [bodies_of([LIST, READ, TEST] * 5, compacts_after=3, task=task) for task in "ab"]
    for requests in zip(*agents, strict=True):
        for session, request in zip("ab", requests, strict=True):
            await play(here, [request], session)


async def play_kept(here, rounds=9):
    """Play an agent whose history the provider keeps, and that goes on after a refusal."""
    sent = {"model": "gpt-5.3", "input": "Fix a.py.", "tools": [{"type": "function", "name": "r"}]}
    for _ in range(rounds):
        told = await here.ask(target=RESPONSES, headers=JSON, body=msgspec.json.encode(sent))
        answer = msgspec.json.decode(told.body)
        if told.status != 200:
            continue
        results = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": "no such file"}
            for item in answer["output"]
            if item["type"] == "function_call"
        ]
        sent = {**sent, "previous_response_id": answer["id"], "input": results}


AGENTS = {
    "trimmed": lambda here: play(here, bodies_of([READ] * 9, keeps=2)),
    "trimmed, in a cycle": lambda here: play(here, bodies_of([READ, TEST] * 7, keeps=3)),
    "elided": lambda here: play(here, bodies_of([READ, TEST, LIST] * 5, results=2)),
    "elided at once": lambda here: play(here, bodies_of([READ, TEST, LIST] * 5, results=1)),
    "compacted": lambda here: play(here, bodies_of([LIST, READ, TEST] * 5, compacts_after=3)),
    "two side by side": play_two,
    "whole": lambda here: play(here, bodies_of([READ, TEST] * 5)),
    "kept by the provider": play_kept,
    "the same over and over": lambda here: play(here, [(CHAT, chat())] * 8),
}


async def capture(serve, folder, form, toml, agent):
    """Have an agent go through a gateway; return the first actions of its verdicts, by run."""
    clock = Clock()

    def answer(received):
        clock.now += ANSWER_S
        is_kept = received.target == RESPONSES
        return Reply.tool_call("r", {"path": "a.py"}) if is_kept else Reply.text("I will do that.")

    here = await serve(
        toml, script=answer, clock=clock, capture=form, capture_dir=str(folder / "calls")
    )
    await agent(here)
    await asyncio.to_thread(here.app.capture.stop)
    lines = [json.loads(one) for file in files(folder) for one in file.read_text().splitlines()]
    runs = {}
    for line in (line for line in lines if "answers" not in line):
        runs.setdefault(line["run"], []).append(line.get("verdict", {}).get("action", "allow"))
    return {run: first_of(actions) for run, actions in runs.items()}


def first_of(actions):
    taken = set(actions) - {"allow"}
    return FirstActions(**{action: actions.index(action) for action in taken})


def files(folder):
    return sorted((folder / "calls").iterdir())


def replay(folder, toml):
    """Return the first actions on the runs in a capture."""
    (folder / "rules.toml").write_text(toml)
    config = load(folder / "rules.toml", env={}, flags={})
    playing = Replay(Ruleset(config.policies, tools=config.tools))
    for file in files(folder):
        for step in playing.play_file(file):
            assert not step.problem
    return {result.id: result.first for result in playing.finish()}


every_agent = pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
both_forms = pytest.mark.parametrize("form", ["content", "digests"])


@both_forms
@every_agent
@pytest.mark.parametrize("rules", [DEFAULT, STRICTER], ids=["default", "stricter"])
async def test_a_replay_judges_as_the_gateway_did(serve, tmp_path, form, agent, rules):
    judged = await capture(serve, tmp_path, form, rules, agent)
    assert any(first.refusal() is not None for first in judged.values())
    assert replay(tmp_path, rules) == judged


@both_forms
@every_agent
async def test_other_rules_find_what_a_gateway_with_them_finds(serve, tmp_path, form, agent):
    lenient, strict = tmp_path / "lenient", tmp_path / "strict"
    await capture(serve, lenient, form, WARNING, agent)
    judged = await capture(serve, strict, form, STRICTER, agent)
    found = replay(lenient, STRICTER)
    for one, other in zip(found.values(), judged.values(), strict=True):
        assert one.at_least(Action.WARN) == other.at_least(Action.WARN)
        assert one.refusal() == other.refusal()
