"""`bench/loops/prompts.py`: what holds for all its scenarios."""

import json
from collections import Counter
from itertools import pairwise

import pytest
from bench.loops.prompts import scenarios
from bench.loops.speech import ANTHROPIC, CHAT, GEMINI, GEMINI_STREAM, RESPONSES

from looptrap.dialect.answer import answer_reader
from looptrap.dialect.body import read_body

DIALECTS = {
    CHAT.path: "openai_chat",
    ANTHROPIC.path: "anthropic",
    RESPONSES.path: "openai_responses",
    GEMINI.path: "gemini",
    GEMINI_STREAM.path: "gemini",
}
KINDS = (
    "slow",
    "growing",
    "sampling",
    "side_by_side",
    "named_by_agent",
    "auto_continue",
    "idle_talk",
    "delegation",
)


@pytest.fixture(scope="module")
def made():
    return scenarios(7)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_loops_and_twins_in_several_dialects(kind, made):
    own = [scenario for scenario in made if scenario.kind == kind]
    assert Counter(scenario.is_loop for scenario in own) >= Counter({True: 6, False: 8})
    assert len({step.path for scenario in own for step in scenario.steps}) >= 3


def test_no_two_scenarios_have_the_same_name(made):
    assert [name for name, times in Counter(s.name for s in made).items() if times > 1] == []


def test_steps_come_in_the_order_of_their_times(made):
    for scenario in made:
        times = [step.at for step in scenario.steps]
        assert times == sorted(times), scenario.name
        assert all(step.takes > 0 for step in scenario.steps), scenario.name


def test_a_loop_begins_after_its_first_step_and_then_goes_on(made):
    for scenario in made:
        if scenario.is_loop:
            assert 0 < scenario.begins <= len(scenario.steps) - 9, scenario.name


def test_every_body_is_read_in_its_dialect_with_the_results_of_its_own_calls(made):
    for scenario in made:
        for step in scenario.steps:
            call = read_body(step.body, step.path)
            assert call.dialect == DIALECTS[step.path], scenario.name
            assert not call.is_opaque, scenario.name
            assert call.messages, scenario.name
            asked = {use.id for message in call.messages for use in message.calls}
            given = {result.call_id for message in call.messages for result in message.results}
            if not call.chain:
                assert given <= asked, scenario.name


def _read_texts(answer, call):
    """Return the texts of an answer, read as the gateway does."""
    reader = answer_reader(call.dialect, call.stream)
    reader.feed(answer)
    reader.read()
    reader.finish()
    return [text.look() for text in reader.parser.texts.values()]


def test_every_answer_is_read_and_is_a_stream_where_the_body_asks_for_one(made):
    for scenario in made:
        for step in scenario.steps:
            call = read_body(step.body, step.path)
            assert call.stream is not step.answer.startswith(b"{"), scenario.name
            has_call = any(f'"{tool}"'.encode() in step.answer for tool in call.tools)
            assert has_call or any(_read_texts(step.answer, call)), scenario.name


def test_the_next_request_of_an_agent_has_the_ids_of_the_answer_before(made):
    scenario = next(s for s in made if s.name == "auto_continue/twin/steps-whole-responses")
    for step, later in pairwise(scenario.steps):
        for item in json.loads(step.answer)["output"]:
            if item["type"] == "function_call":
                assert item["call_id"] == later.body["input"][-1]["call_id"]


def test_no_honest_agent_that_keeps_its_history_sends_a_request_twice_in_a_row(made):
    """Timers, persons, users and samples do; those who work with tools never."""
    for scenario in made:
        if scenario.kind in ("auto_continue", "idle_talk") and not scenario.is_loop:
            bodies = [json.dumps(step.body) for step in scenario.steps]
            assert all(one != other for one, other in pairwise(bodies)), scenario.name


@pytest.mark.slow
def test_a_seed_gives_the_same_scenarios_and_another_one_others(made):
    assert scenarios(7) == made
    other = scenarios(8)
    assert [scenario.name for scenario in made] == [scenario.name for scenario in other]
    for one, two in zip(made, other, strict=True):
        assert one.steps != two.steps, one.name
    assert [len(s.steps) for s in made] != [len(s.steps) for s in other]
