"""Try it: a pasted conversation, step by step, and what every rule makes of it."""

import itertools
import json
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.captured import DIALECTS
from tests.replay.capturing import Capturing
from tests.replay.recorded import honest, line, openai_round, stuck

from looptrap.detect.signals.chant import Chant
from looptrap.policy import preset
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule, ToolRule
from looptrap.replay.judge import judge_requests
from looptrap.replay.recorded_run import read_run
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.try_it import MAX_SUMMARY_CHARS, TryItRequest, judge_transcript

DEFAULT = preset.load("default")


def tried(text, policies=DEFAULT, clock=monotonic, **more):
    text = text if isinstance(text, str) else json.dumps(text)
    rules = Ruleset(policies=policies, **more)
    return judge_transcript(TryItRequest(text=text, rules=rules.plain()), clock)


def counts(steps, rule):
    """Return how often a rule saw something at each step; 0 where it saw nothing."""
    return [sum(one.count for one in step.opinions if one.rule == rule) for step in steps]


def ruled(watch, tools=None, **thresholds):
    ladder = Ladder({Action(name): count for name, count in thresholds.items()})
    rule = Rule(name="it", watch=watch, ladder=ladder, cooldown=30)
    return {"policies": (Policy(name="p", rules=(rule,)),), "tools": tools or {}}


def test_a_loop_is_seen_coming_step_by_step():
    told = tried(stuck(6))
    assert (told.dialect, told.model) == ("openai_chat", "unknown")
    assert [one.role for one in told.steps] == ["user", *["assistant"] * 6]
    assert [one.messages for one in told.steps] == [1, 3, 5, 7, 9, 11, 13]
    assert counts(told.steps, "no-progress") == [0, 0, 2, 3, 4, 5, 6]
    assert counts(told.steps, "same-error") == [0, 1, 2, 3, 4, 5, 6]
    assert counts(told.steps, "only-failures") == [0, 1, 2, 3, 4, 5, 6]
    assert counts(told.steps, "turn-budget") == [0, 1, 2, 3, 4, 5, 6]
    assert [one.verdict.action.value for one in told.steps] == [
        *["allow"] * 4, "warn", "block", "block",
    ]  # fmt: skip
    assert (told.at, told.verdict.action, told.verdict.rule) == (5, Action.BLOCK, "no-progress")
    assert told.limits == []


def test_a_step_tells_what_came_before_it():
    said, round_ = tried(stuck(1)).steps
    assert (said.summary, said.tools, said.strip_id) == ("Make the tests pass.", (), None)
    assert round_.summary == 'read_file({"path":"a.py"})'
    assert (round_.result, round_.tools, round_.is_error) == ("no such file", ("read_file",), True)


def test_long_texts_are_told_shortened():
    [step] = tried([{"role": "user", "content": "word " * 10_000}]).steps
    assert len(step.summary) == MAX_SUMMARY_CHARS


def test_an_opinion_stands_beside_the_thresholds_of_its_rule():
    told = tried(stuck(4))
    [opinion] = [one for one in told.steps[-1].opinions if one.rule == "no-progress"]
    assert (opinion.policy, opinion.signal, opinion.action) == ("default", "repeat", Action.WARN)
    assert opinion.thresholds == {Action.WARN: 4, Action.BLOCK: 5}
    assert opinion.words == "read_file with the same arguments and result, 4 times in 4 rounds"
    assert [one.rule for one in told.rules] == [rule.name for rule in DEFAULT[0].rules]


def test_equal_pairs_share_a_colour():
    cycle = [one for i in range(6) for one in openai_round(i, "ab"[i % 2], f"text of {i % 2}")]
    told = tried([stuck(0)[0], *cycle])
    ids = [one.strip_id for one in told.steps]
    assert ids[0] is None
    assert ids[1:3] * 3 == ids[1:]
    assert ids[1] != ids[2]
    assert [cell.id for cell in told.strip] == ids[1:]
    assert all(cell.repeats for cell in told.strip)


def test_the_strip_goes_on_where_a_person_speaks():
    again = [*stuck(2), {"role": "user", "content": "Look at the other file."}, *stuck(2)[1:]]
    told = tried(again)
    assert [one.strip_id is None for one in told.steps] == [True, False, True, False, False]
    assert len({one.strip_id for one in told.steps}) == 2
    assert counts(told.steps, "turn-budget") == [0, 1, 0, 1, 2]


def test_honest_work_is_allowed_all_the_way():
    told = tried(honest(20))
    assert (told.verdict.action, told.at) == (Action.ALLOW, None)
    assert len(told.steps) == 21
    assert len({cell.id for cell in told.strip}) == 20


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_judged(dialect):
    _, write = DIALECTS[dialect]
    told = tried(write(7))
    assert told.dialect == dialect
    if dialect != "openai_completions":
        assert told.verdict.action is Action.BLOCK
        assert len(told.steps) == 8
        assert len({cell.id for cell in told.strip}) == 1


def test_the_same_request_again_is_counted_as_if_it_came_at_once():
    told = tried("\n".join([json.dumps({"model": "m", "messages": stuck(0)})] * 7))
    assert counts(told.steps, "identical-conversation") == [0, 2, 3, 4, 5, 6, 7]
    assert (told.at, told.verdict.rule) == (5, "identical-conversation")


def test_prompts_around_prompts_are_counted_too():
    asked = "Write the report about pumps and valves, as a table."
    prompts = [asked]
    for _ in range(6):
        prompts.append("That was not valid JSON. Try again: " + prompts[-1])
    bodies = [
        {"model": "m", "messages": [{"role": "user", "content": prompt}]} for prompt in prompts
    ]
    told = tried(json.dumps(bodies))
    seen = [one for one in told.steps[-1].opinions if one.rule == "identical-conversation"]
    assert [one.signal for one in seen] == ["similar_prompt"]
    assert told.verdict.action is Action.BLOCK


def test_tool_calls_over_mcp_are_counted():
    call = {"method": "tools/call", "params": {"name": "t", "arguments": {}}}
    bodies = [{"jsonrpc": "2.0", "id": number, **call} for number in range(4)]
    told = tried(json.dumps(bodies), **ruled("tool", warn=2, block=3))
    assert told.dialect == "mcp"
    assert counts(told.steps, "it") == [0, 2, 3, 4]
    assert [one.verdict.action.value for one in told.steps] == ["allow", "warn", "block", "block"]


@pytest.mark.parametrize(
    ("session", "thresholds"),
    [("run", {"warn": 2, "block": 3}), ("", {"warn": 20, "block": 30})],
    ids=["named", "not named"],
)
def test_sessions_are_counted_under_the_ladder_that_holds(tmp_path, session, thresholds):
    capture = Capturing(tmp_path / "calls")
    capture.run(stuck(3), session=session)
    told = tried(capture.files[0].read_text(), **ruled("session", warn=2, block=3))
    assert counts(told.steps, "it") == [0, 2, 3, 4]
    assert told.steps[-1].opinions[0].thresholds == thresholds
    assert told.steps[-1].opinions[0].action == told.verdict.action


def test_a_tool_has_its_own_thresholds():
    own = {"read_file": ToolRule(ladder=Ladder({Action.WARN: 3, Action.BLOCK: 20}))}
    told = tried(stuck(6), **ruled("repeat", own, warn=4, block=5))
    assert told.steps[-1].opinions[0].thresholds == {Action.WARN: 3, Action.BLOCK: 20}
    assert (told.verdict.action, told.at) == (Action.WARN, 3)
    exempt = tried(stuck(6), **ruled("repeat", {"read_file": ToolRule(exempt=True)}, block=5))
    assert counts(exempt.steps, "it") == [0] * 7


def test_an_answer_that_repeats_itself_is_heard():
    chant = "I will look at the file again, and then once more. " * 60
    assert Chant()(chant) is not None
    told = tried([*stuck(0), {"role": "assistant", "content": chant}])
    assert (told.verdict.action, told.verdict.rule) == (Action.STOP, "chant")
    assert counts(told.steps, "chant")[0] >= 6


def test_policies_in_shadow_mode_are_tried_as_if_they_were_enforced():
    [policy] = ruled("repeat", block=3)["policies"]
    shadow = Policy(name=policy.name, rules=policy.rules, mode="shadow")
    assert tried(stuck(4), (shadow,)).verdict.action is Action.BLOCK


def test_a_history_that_the_provider_keeps_is_said_to_be_unseen():
    told = tried({"previous_response_id": "r1", "input": [{"role": "user", "content": "Hi"}]})
    assert told.limits == ["The provider keeps the earlier history, so nothing is read from it."]


def test_when_the_time_is_up_the_steps_so_far_are_told():
    clock = itertools.count(0, 2)
    told = tried(stuck(20), clock=lambda: float(next(clock)))
    assert len(told.steps) == 4
    assert told.limits == ["The first 4 of 21 steps were judged."]


@given(
    run=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["no such file", "x = 1", "2 failed"])),
        max_size=14,
    )
)
def test_verdicts_are_those_of_a_replay(run):
    rounds = [one for i, (path, result) in enumerate(run) for one in openai_round(i, path, result)]
    text = line([*stuck(0), *rounds])
    expected = [one.action for one in judge_requests(read_run(text, ""), Ruleset(DEFAULT))]
    told = tried(text.decode())
    assert [one.verdict.action for one in told.steps] == expected
    for step in told.steps:
        loudest = max((one.action for one in step.opinions), key=lambda one: one.severity,
                      default=Action.ALLOW)  # fmt: skip
        assert loudest.severity >= step.verdict.action.severity
