"""A loop that never ends: what passes of it while it is followed, and after that."""

from dataclasses import replace

import pytest
from tests.replay.recorded import policies

from looptrap.detect.window import Window
from looptrap.policy import preset
from looptrap.policy.policy import Policy
from looptrap.replay import projection
from looptrap.replay.projection import ANSWER_SECONDS, LoopProjection, project_loop
from looptrap.replay.ruleset import Ruleset

HOUR = 3600.0


def test_a_loop_is_refused_from_the_threshold_on():
    loop = project_loop(Ruleset(preset.load("default")), model="m", rps=0.2, seconds=60)
    assert (loop.rule, loop.first_refused, loop.judged_calls) == ("identical-conversation", 6, 12)
    assert loop.allowed_at == [0, 5, 10, 15, 20]
    assert [loop.calls_in(seconds) for seconds in (0, 1, 5, 6, 25, 60)] == [0, 1, 1, 2, 5, 5]


def test_after_a_cooldown_some_pass_again():
    # Refused at 25 s, and once more at 55 s; then the window holds too few to be refused.
    rule = preset.load("default")[0].rules[0]
    policy = Policy(name="p", rules=(replace(rule, extend=False, window=Window(60)),))
    loop = project_loop(Ruleset((policy,)), model="m", rps=0.2, seconds=200)
    assert loop.resumed_at == [85, 165]
    assert loop.calls_in(200) == 5 + 4 + 4


def test_where_refusals_begin_the_cooldown_anew_none_does():
    loop = project_loop(Ruleset(preset.load("default")), model="m", rps=0.2, seconds=24 * HOUR)
    assert (loop.resumed_at, loop.calls_in(24 * HOUR)) == ([], 5)


@pytest.mark.parametrize("rps", [0.1, 0.2, 1, 3, 50], ids=lambda rps: f"{rps} a second")
def test_what_was_not_followed_is_like_what_was(rps, monkeypatch):
    seconds = 5 * HOUR if rps < 1 else 1200
    monkeypatch.setattr(projection, "MAX_CALLS", 60_000)
    whole = project_loop(Ruleset(preset.load("aisg")), model="m", rps=rps, seconds=seconds)
    monkeypatch.setattr(projection, "MAX_CALLS", whole.judged_calls // 5)
    part = project_loop(Ruleset(preset.load("aisg")), model="m", rps=rps, seconds=seconds)
    assert part.seconds < whole.seconds / 4
    assert part.calls_in(seconds) == pytest.approx(whole.calls_in(seconds), rel=0.02, abs=4)


@pytest.mark.parametrize(
    ("rules", "rps"),
    [
        pytest.param(policies(warn=3), 1.0, id="only warned about"),
        pytest.param(preset.load("aisg"), 0.05, id="too slow for a window"),
    ],
)
def test_what_nobody_refuses_passes_for_ever(rules, rps):
    loop = project_loop(Ruleset(rules), model="m", rps=rps, seconds=HOUR)
    assert (loop.rule, loop.first_refused) == ("", None)
    assert loop.calls_in(100 * HOUR) == 100 * HOUR * rps


@pytest.mark.parametrize("seconds", ANSWER_SECONDS)
def test_however_slow_the_answers_the_sixth_call_of_a_loop_is_refused(seconds):
    loop = project_loop(Ruleset(preset.load("default")), model="m", rps=1 / seconds, seconds=HOUR)
    assert (loop.rule, loop.first_refused) == ("identical-conversation", 6)


def test_what_is_refused_for_good_never_passes_again():
    loop = project_loop(Ruleset(preset.load("fairvisor")), model="m", rps=1, seconds=HOUR)
    assert loop.calls_in(63 * HOUR) == 3


def test_what_is_slowed_down_comes_more_rarely():
    loop = project_loop(Ruleset(policies(60, throttle=3)), model="m", rps=1, seconds=HOUR)
    assert loop.first_refused is None
    assert loop.judged_calls < HOUR / 2
    assert loop.calls_in(2 * HOUR) < HOUR


def test_a_shadow_is_taken_for_what_it_would_be():
    shadows = [replace(policy, mode="shadow") for policy in policies(block=3)]
    loop = project_loop(Ruleset(shadows), model="m", rps=1, seconds=60)
    assert loop.first_refused == 3


def test_no_loop_is_followed_for_ever():
    loop = project_loop(Ruleset(policies(warn=3)), model="m", rps=50, seconds=1e9)
    assert loop.judged_calls == projection.MAX_CALLS


def test_nothing_passes_before_the_first_call():
    assert LoopProjection(seconds=10, judged_calls=1, allowed_at=[0.0]).calls_in(0) == 0
