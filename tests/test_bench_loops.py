"""`bench/loops`: laws of its scenarios, and what its report says of them."""

import json
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import pytest
from bench.loops import across, prompts, visible
from bench.loops.__main__ import main
from bench.loops.live import MAX_DIFFERENCE, make_loops, play_at_once
from bench.loops.scenario import play
from bench.loops.services import MISSING

from looptrap import Guard
from looptrap.dialect.body import read_body

pytestmark = pytest.mark.slow

DIALECTS = {
    "/v1/chat/completions": "openai_chat",
    "/v1/messages": "anthropic",
    "/v1/responses": "openai_responses",
    "/v1beta/models/gemini-2.5-pro:generateContent": "gemini",
}
MODULES = {"across": across, "visible": visible}
LENGTHS = {"across": ((30, 125), (18, 70)), "visible": ((25, 60), (15, 50))}
"""How many requests a loop has, and an honest run."""


@cache
def made(module):
    return MODULES[module].scenarios(0)


@pytest.fixture(scope="module", params=MODULES)
def module(request):
    return request.param


@pytest.fixture(scope="module")
def scenarios(module):
    return made(module)


@pytest.fixture(scope="module")
def calls(scenarios):
    """The requests of each scenario, as the dialects read them.

    Where the last request has the whole history, some of those before it are enough.
    """
    return [(one, [read(step) for step in chosen(one)]) for one in scenarios]


def chosen(one):
    if one.shows != "whole":
        return one.steps
    return [one.steps[0], one.steps[len(one.steps) // 2], one.steps[-1]]


def read(step):
    return read_body(json.dumps(step.body).encode(), step.path)


@cache
def read_whole():
    """The last requests of the visible scenarios, which have all of them."""
    return [(one, read(one.steps[-1])) for one in made("visible")]


def test_a_seed_gives_the_same_scenarios_each_time(module, scenarios):
    assert MODULES[module].scenarios(0) == scenarios


def test_another_seed_gives_the_same_kinds_with_other_texts(module, scenarios):
    others = MODULES[module].scenarios(1)
    assert [one.name for one in others] == [one.name for one in scenarios]
    for one, other in zip(scenarios, others, strict=True):
        assert one.steps[0].body != other.steps[0].body, one.name
    assert [len(one.steps) for one in others] != [len(one.steps) for one in scenarios]


def test_no_two_scenarios_have_the_same_name():
    names = [one.name for module in MODULES for one in made(module)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", across.KINDS)
def test_every_kind_has_loops_and_twins_of_several_harnesses(kind):
    loops = [one for one in made("across") if one.kind == kind and one.is_loop]
    twins = [one for one in made("across") if one.kind == kind and not one.is_loop]
    assert (len(loops) >= 6, len(twins) >= 8) == (True, True)
    assert len({one.harness for one in loops}) >= 3
    assert len({one.harness for one in twins}) >= 3


def test_every_visible_kind_has_loops_and_as_many_twins_of_several_harnesses():
    found = made("visible")
    for kind in {one.kind for one in found}:
        loops = [one for one in found if one.kind == kind and one.is_loop]
        twins = [one for one in found if one.kind == kind and not one.is_loop]
        assert 4 <= len(loops) <= len(twins), kind
        assert len({one.harness for one in loops}) >= 2, kind
    assert len({one.harness for one in found}) >= 20
    assert {one.difficulty for one in found} == {"easy", "medium", "hard"}


def test_every_body_is_read_as_its_dialect(calls):
    for one, read in calls:
        for step, call in zip(chosen(one), read, strict=True):
            assert (call.dialect, call.is_opaque) == (DIALECTS[step.path], False), one.name
            assert call.messages, one.name


def test_a_model_calls_only_tools_that_are_offered(calls):
    for one, read in calls:
        offered = {tool for call in read for tool in call.tools}
        used = {use.name for call in read for message in call.messages for use in message.calls}
        missing = {name for name in used - offered if MISSING not in name}
        if one.harness == "openai-computer-use":
            missing -= {"computer"}  # its calls have no name
        assert not missing, one.name


def test_every_result_follows_its_call(calls):
    """No provider takes a result without its call; the kept histories have the calls there."""
    for one, read in calls:
        for call in read:
            called = set()
            for message in call.messages if one.kind != "kept" else ():
                assert {result.call_id for result in message.results} <= called, one.name
                called |= {use.id for use in message.calls}


def test_a_kept_history_is_named_after_an_answer_that_came_before():
    chains = 0
    for one in made("across"):
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


def test_a_loop_begins_within_its_steps_and_goes_on_for_long(module, scenarios):
    (fewest, most), (few, many) = LENGTHS[module]
    for one in scenarios:
        if one.is_loop:
            assert fewest <= len(one.steps) <= most, one.name
            assert 0 < one.begins <= len(one.steps) * 0.6, one.name
        else:
            assert (few <= len(one.steps) <= many, one.begins) == (True, 0), one.name


ADDED = re.compile(r"\n*<(system-reminder|environment_details)>.*?</\1>|Chunk ID: \w+\n", re.DOTALL)
"""What a harness adds to results, of its own."""
TRAJECTORY = re.compile(r"observation_\d+ ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nAnswer)", re.DOTALL)
IMAGE = re.compile(r"\s*\[\w+ [0-9a-f]{16}\]")


def mask(text):
    """What came of a call, without times and ids; an image is what it is."""
    text = ADDED.sub("", text)
    if IMAGE.fullmatch(text):
        return text
    return re.sub(r"\b[0-9a-f]{6}\b|[0-9a-f-]{8,}|\d+", "0", text)


def results_in(messages):
    """All results of a history, in their order."""
    for message in messages:
        yield from (result.text for result in message.results)
        if not message.results:
            yield from results_in_text(message.text)


def results_in_text(text):
    """The results that a message of plain text has."""
    if re.match(r"<returncode>|Observation: |\[\w+ for '", text):
        return [text]
    if "[[ ## trajectory ## ]]" in text:
        return TRAJECTORY.findall(text)
    return text.split("\nObservation: ")[1:]


def results_by_round(one, read):
    """What came of each answer of a scenario; of agents that only talk, the answer itself."""
    if one.shows != "whole":
        return [list(results_in(call.messages[-1:])) for call in read[1:]]
    if one.harness == "browser-use":
        told = [step.body["messages"][-1]["content"][0]["text"] for step in one.steps[1:]]
        return [
            [text.partition("<browser_state>")[2], re.findall(r"1/1: (.*)", text)[-1]]
            for text in told
        ]
    found = [[text] for text in results_in(read[-1].messages)]
    if not found:
        said = re.compile(rb'"(?:text|content)": "(.*?)"[,}]')
        return [[said.search(step.answer)[1].decode()] for step in one.steps]
    return found


def test_nothing_new_comes_of_a_loop_from_where_it_begins(calls):
    for one, read in calls:
        known = set()
        for index, results in enumerate(results_by_round(one, read) if one.is_loop else ()):
            for result in map(mask, results):
                assert index < one.begins or result in known, (one.name, index)
                known.add(result)


def test_every_result_of_a_whole_history_is_found():
    """The law above reads results in many forms: it must not pass for want of them."""
    for one, whole in read_whole():
        found = results_by_round(one, [whole])
        assert len(found) >= len(one.steps) - 1, one.name


COUNTING = ("visible-poll", "visible-stagnation")
"""Kinds whose honest runs may show their progress by numbers only."""


def test_an_honest_run_brings_something_new_again_and_again():
    for one, whole in read_whole():
        if not one.is_loop:
            known, idle, messages = set(), 0, whole.messages
            uses = [use for message in messages for use in message.calls]
            for use, text in zip(uses, results_in(messages), strict=False):
                shown = text if one.kind in COUNTING else mask(text)
                called = (use.name, use.arguments)
                idle = idle + 1 if {called, shown} <= known else 0
                known |= {called, shown}
                assert idle < 12, one.name


def test_every_step_is_answered_as_its_body_asks(scenarios):
    for one in scenarios:
        for step in one.steps:
            if step.body.get("stream"):
                assert re.match(rb"(event|data): ", step.answer), one.name
            else:
                assert json.loads(step.answer), one.name


@pytest.fixture
def report(monkeypatch, capsys):
    """Play a caught loop under both labels, and an honest run under both."""
    scenarios = made("across")
    loop = next(one for one in scenarios if one.name == "elided-00-swe-agent-loop")
    honest = next(one for one in scenarios if one.name == "kept-01-responses-sdk-twin1")
    told = [
        loop,
        replace(loop, name="called-honest", is_loop=False),
        honest,
        replace(honest, name="called-loop", is_loop=True),
    ]
    module = SimpleNamespace(scenarios=lambda seed: told)
    monkeypatch.setattr("bench.loops.__main__.MODULES", {"dev": (module,)})

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


def test_nine_of_ten_loops_across_requests_are_refused_and_hardly_an_honest_run():
    loops = honest = refused_loops = refused_honest = 0
    for one in (*across.scenarios(0), *prompts.scenarios(0)):
        if one.kind == "restarts":
            continue  # these are only warned of
        is_refused = play(one, Guard.from_preset("default", secret=b"bench")).refused is not None
        if one.is_loop:
            loops, refused_loops = loops + 1, refused_loops + is_refused
        else:
            honest, refused_honest = honest + 1, refused_honest + is_refused
    assert refused_loops >= 0.9 * loops
    assert refused_honest <= 0.02 * honest
