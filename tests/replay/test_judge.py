"""Playing a run: who would have been refused, at which turn, and what that would have saved."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.recorded import (
    ASKED,
    anthropic_round,
    honest,
    line,
    openai_round,
    policies,
    stuck,
)

from looptrap.policy import preset
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy, Selector
from looptrap.policy.rule import Rule, ToolRule
from looptrap.replay.judge import (
    BYTES_PER_TOKEN,
    FirstActions,
    first_actions,
    judge_run,
)
from looptrap.replay.recorded_run import read_run
from looptrap.replay.ruleset import Ruleset


def result_of(messages, rules, **fields):
    return judge_run(read_run(line(messages, **fields), "x"), Ruleset(rules))


@pytest.mark.parametrize("style", [openai_round, anthropic_round], ids=["OpenAI", "Anthropic"])
def test_names_the_turn_that_would_have_been_refused(style):
    # The request for turn 1 is the first to end in the round that repeats, turn 3 the third.
    result = result_of(stuck(8, style), policies(block=3))
    assert result.first == FirstActions(block=3)
    assert (result.verdict, result.rule, result.signal) == (
        Action.BLOCK,
        "same-end",
        "conversation",
    )
    assert result.evidence[0].count == 3


def test_keeps_the_first_turn_of_each_action():
    result = result_of(stuck(9), policies(warn=2, nudge=4, stop=5, block=7))
    assert result.first == FirstActions(warn=2, nudge=4, stop=5, block=7)
    assert result.verdict is Action.BLOCK


def test_spares_a_run_in_which_every_round_is_new():
    result = result_of(honest(9), policies(warn=2, block=3))
    assert (result.verdict, result.first) == (Action.ALLOW, FirstActions())
    assert (result.rule, result.signal, result.evidence) == (None, None, ())
    assert (result.saved_calls, result.saved_tokens, result.saved_usd) == (0, 0, None)


def test_a_refusal_saves_every_recorded_turn_from_it_on():
    run = read_run(line(stuck(8)), "x")
    result = judge_run(run, Ruleset(policies(block=3)))
    saved = range(3, 8)
    assert (result.calls, result.saved_calls) == (8, 5)
    volume = sum(run.prompt_bytes(turn) + run.answer_bytes(turn) for turn in saved)
    assert result.saved_tokens == volume // BYTES_PER_TOKEN > 0


def test_a_warning_saves_nothing():
    assert result_of(stuck(8), policies(warn=2)).saved_calls == 0


def test_the_request_that_would_follow_is_judged_but_was_never_made():
    result = result_of(stuck(3), policies(block=3))
    assert result.first == FirstActions(block=3)
    assert (result.calls, result.saved_calls, result.saved_tokens) == (3, 0, 0)
    assert result_of(stuck(3)[:-1], policies(block=3)).verdict is Action.ALLOW


@pytest.mark.parametrize(
    ("apart", "verdict"),
    [
        pytest.param(None, Action.BLOCK, id="no times: one call a second"),
        pytest.param(1, Action.BLOCK, id="within the window"),
        pytest.param(10, Action.ALLOW, id="too far apart"),
    ],
)
def test_windows_follow_the_recorded_times(apart, verdict):
    messages = stuck(6)
    if apart is not None:
        messages = [{**one, "t": i * apart} for i, one in enumerate(messages)]
    assert result_of(messages, policies(seconds=10, block=3)).verdict is verdict


def test_runs_do_not_count_for_each_other():
    run = read_run(line(stuck(2)), "x")
    rules = policies(block=3)
    assert [judge_run(run, Ruleset(rules)).verdict for _ in range(4)] == [Action.ALLOW] * 4


def test_requests_that_grow_are_never_the_same_request():
    rule = Rule(name="same-request", watch="request", ladder=Ladder({Action.BLOCK: 2}))
    assert result_of(stuck(5), (Policy(name="test", rules=(rule,)),)).verdict is Action.ALLOW


@pytest.mark.parametrize(
    ("style", "verdict"),
    [(openai_round, Action.ALLOW), (anthropic_round, Action.BLOCK)],
    ids=["OpenAI", "Anthropic"],
)
def test_policies_bind_the_path_of_the_run_s_dialect(style, verdict):
    (policy,) = policies(block=3)
    bound = replace(policy, select=Selector(path_exact="/v1/messages"))
    assert result_of(stuck(6, style), (bound,)).verdict is verdict


def test_what_is_in_shadow_is_asked_for_what_it_would_do():
    shadow = [replace(policy, mode="shadow") for policy in policies(block=3)]
    assert result_of(stuck(6), Ruleset(shadow).enforced().policies).verdict is Action.BLOCK


rounds = st.lists(st.sampled_from(["a.py", "b.py"]), max_size=12)


@given(paths=rounds, kept=st.integers(0, 12))
def test_what_comes_later_never_changes_what_was_decided_before(paths, kept):
    whole = [ASKED, *(one for i, path in enumerate(paths) for one in openai_round(i, path))]
    rules = policies(warn=2, block=4)
    first = result_of(whole, rules).first
    start = result_of(whole[: 1 + 2 * kept], rules).first
    for action in ("warn", "block"):
        turn = getattr(first, action)
        expected = turn if turn is not None and turn <= kept else None
        assert getattr(start, action) == expected


@given(paths=rounds)
def test_looking_only_for_the_first_refusal_finds_the_same(paths):
    whole = [ASKED, *(one for i, path in enumerate(paths) for one in openai_round(i, path))]
    run, rules = read_run(line(whole), "x"), policies(warn=2, stop=3, block=4)
    played, looked = judge_run(run, Ruleset(rules)).first, first_actions(run, Ruleset(rules))
    assert (looked.refusal(), looked.warn) == (played.refusal(), played.warn)


@given(paths=rounds)
def test_both_styles_are_judged_alike(paths):
    rules = policies(warn=2, block=3)
    results = [
        result_of([ASKED, *(one for i, path in enumerate(paths) for one in style(i, path))], rules)
        for style in (openai_round, anthropic_round)
    ]
    assert results[0].first == results[1].first


FIELDS = """role content type text id name input t function arguments tool_calls tool_call_id
tool_use_id""".split()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=12,
)
ODD = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "?"])},
    optional={"content": JSON, "tool_calls": JSON, "tool_call_id": JSON, "t": JSON},
)


@given(messages=st.lists(JSON | ODD, min_size=1, max_size=8), times=st.integers(1, 4))
def test_whatever_a_run_holds_can_be_played(messages, times):
    run = read_run(line(messages * times), "x")
    result = judge_run(run, Ruleset(preset.load("default")))
    assert result.calls == len(run.turns)
    for turn in msgspec.structs.astuple(result.first):
        assert turn is None or 0 <= turn <= result.calls


CHANTED = {"role": "assistant", "content": "Let me look at that file once more. " * 200}


@pytest.mark.parametrize("rounds", [0, 3])
def test_names_the_answer_that_would_have_been_cut(rounds):
    # Also the last one, after which no request follows.
    result = result_of([*honest(rounds), CHANTED], preset.load("default"))
    assert (result.first.stop, result.signal) == (rounds, "chant")
    followed = [*honest(rounds), CHANTED, {"role": "user", "content": "Stop that, please."}]
    assert result_of(followed, preset.load("default")).first.stop == rounds


def test_hears_a_chant_that_the_model_got_out_of():
    text = CHANTED["content"] + "At last, here is something else altogether. " + "x" * 3_000
    result = result_of([ASKED, {"role": "assistant", "content": text}], preset.load("default"))
    assert result.first.stop == 0


def test_what_is_known_of_a_tool_counts():
    run = read_run(line(stuck(12)), "x")
    assert judge_run(run, Ruleset(preset.load("default"))).verdict is Action.BLOCK
    patient = {"read_file": ToolRule(ladder=Ladder({Action.WARN: 10}))}
    result = judge_run(run, Ruleset(preset.load("default"), tools=patient))
    assert (result.verdict, result.first) == (Action.WARN, FirstActions(warn=10))
