"""`bench/loops`: laws of its scenarios, and what its report says of them."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from bench.loops import across
from bench.loops.__main__ import main
from bench.loops.live import MAX_DIFFERENCE, make_loops, play_at_once

from looptrap.dialect.body import read_body

DIALECTS = {
    "/v1/chat/completions": "openai_chat",
    "/v1/messages": "anthropic",
    "/v1/responses": "openai_responses",
    "/v1beta/models/gemini-2.5-pro:generateContent": "gemini",
}


@pytest.fixture(scope="module")
def scenarios():
    return across.scenarios(0)


@pytest.fixture(scope="module")
def calls(scenarios):
    """The requests of each scenario, as the dialects read them."""
    return [
        (one, [read_body(json.dumps(step.body).encode(), step.path) for step in one.steps])
        for one in scenarios
    ]


def test_a_seed_gives_the_same_scenarios_each_time(scenarios):
    assert across.scenarios(0) == scenarios


def test_another_seed_gives_the_same_kinds_with_other_texts(scenarios):
    others = across.scenarios(1)
    assert [one.name for one in others] == [one.name for one in scenarios]
    for one, other in zip(scenarios, others, strict=True):
        assert one.steps[0].body != other.steps[0].body, one.name
    assert [len(one.steps) for one in others] != [len(one.steps) for one in scenarios]


def test_no_two_scenarios_have_the_same_name(scenarios):
    assert len({one.name for one in scenarios}) == len(scenarios)


@pytest.mark.parametrize("kind", across.KINDS)
def test_every_kind_has_loops_and_twins_of_several_harnesses(scenarios, kind):
    loops = [one for one in scenarios if one.kind == kind and one.is_loop]
    twins = [one for one in scenarios if one.kind == kind and not one.is_loop]
    assert (len(loops) >= 6, len(twins) >= 8) == (True, True)
    assert len({one.harness for one in loops}) >= 3
    assert len({one.harness for one in twins}) >= 3


def test_every_body_is_read_as_its_dialect(calls):
    for one, read in calls:
        for step, call in zip(one.steps, read, strict=True):
            assert (call.dialect, call.is_opaque) == (DIALECTS[step.path], False), one.name
            assert call.messages, one.name


def test_a_model_calls_only_tools_that_are_offered(calls):
    for one, read in calls:
        offered = {tool for call in read for tool in call.tools}
        used = {use.name for call in read for message in call.messages for use in message.calls}
        assert used <= offered, one.name


def test_every_result_follows_its_call(calls):
    """No provider takes a result without its call; the kept histories have the calls there."""
    for one, read in calls:
        for call in read:
            called = set()
            for message in call.messages if one.kind != "kept" else ():
                assert {result.call_id for result in message.results} <= called, one.name
                called |= {use.id for use in message.calls}


def test_a_kept_history_is_named_after_an_answer_that_came_before(scenarios):
    chains = 0
    for one in scenarios:
        answered = {}
        for step in one.steps:
            if previous := step.body.get("previous_response_id"):
                assert answered[previous] <= step.at, one.name
                chains += 1
            if found := re.search(rb'"id": "(resp_\w+)"', step.answer):
                answered[found[1].decode()] = step.at + step.takes
    assert chains > 100


def test_steps_are_in_the_order_of_time_and_at_a_human_pace(scenarios):
    for one in scenarios:
        assert all(a.at <= b.at for a, b in pairwise(one.steps)), one.name
        assert all(2 <= step.takes <= 20 for step in one.steps), one.name


def test_a_loop_begins_within_its_steps_and_goes_on_for_long(scenarios):
    for one in scenarios:
        if one.is_loop:
            assert 30 <= len(one.steps) <= 125, one.name
            assert 0 < one.begins <= len(one.steps) // 2, one.name
        else:
            assert (18 <= len(one.steps) <= 70, one.begins) == (True, 0), one.name


def result_of(call):
    """What came of the answer before this request, without times and ids."""
    last = call.messages[-1]
    results = [result.text for result in last.results]
    if not results and last.text.startswith("<returncode>"):
        results = [last.text]
    return [re.sub(r"[0-9a-f-]{8,}|\d+", "0", text) for text in results]


def test_nothing_new_comes_of_a_loop_from_where_it_begins(calls):
    for one, read in calls:
        known = set()
        for index, call in enumerate(read[1:] if one.is_loop else ()):
            for result in result_of(call):
                assert index < one.begins or result in known, (one.name, index)
                known.add(result)


def test_every_step_is_answered_as_its_body_asks(scenarios):
    for one in scenarios:
        for step in one.steps:
            if step.body.get("stream"):
                assert re.match(rb"(event|data): ", step.answer), one.name
            else:
                assert json.loads(step.answer), one.name


@pytest.fixture
def report(scenarios, monkeypatch, capsys):
    """Play a caught loop under both labels, and an honest run under both."""
    loop = next(one for one in scenarios if one.name == "elided-00-swe-agent-loop")
    honest = next(one for one in scenarios if one.name == "kept-01-responses-sdk-twin1")
    told = [
        loop,
        replace(loop, name="called-honest", is_loop=False),
        honest,
        replace(honest, name="called-loop", is_loop=True),
    ]
    module = SimpleNamespace(scenarios=lambda seed: told)
    monkeypatch.setattr("bench.loops.__main__.MODULES", (module,))

    def run(*arguments):
        main(arguments)
        return capsys.readouterr().out.splitlines()

    return run


def test_the_report_counts_by_kind_and_names_what_went_wrong(report):
    head, *lines = report()
    rows = {line.split()[0]: line.replace("|", "").split()[1:] for line in lines[:2]}
    assert head.replace("|", "").split()[1:] == (
        "loops refused warned calls after honest refused warned".split()
    )
    elided, kept = rows["elided"], rows["kept"]
    assert (elided[:3], elided[4:]) == (["1", "1", "1"], ["1", "1", "1"])
    assert kept == ["1", "0", "0", "-", "1", "0", "0"]
    refused, missed = lines[2:]
    assert refused.startswith("honest refused: called-honest at ")
    assert "Blocked" in refused
    assert missed.startswith("loop missed: called-loop ")


def test_the_report_is_of_one_kind_on_demand(report):
    assert [line.split()[0] for line in report("--kind", "kept")] == ["kind", "kept", "loop"]


def test_the_report_lists_the_scenarios_without_playing_them(report):
    listed = report("--list")
    assert [line.split()[1] for line in listed] == ["loop", "honest", "honest", "loop"]


@pytest.mark.parametrize("pace", [0.5, 4.0, 60.0])
def test_the_loops_that_are_played_live_are_refused_like_those_with_whole_histories(pace):
    for loop in make_loops(pace, 20):
        expected = play_at_once(loop.name, loop.whole)
        refused = play_at_once(loop.name, loop.shown)
        assert abs(refused - expected) <= MAX_DIFFERENCE, loop.name
