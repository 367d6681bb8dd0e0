"""The words of a verdict: what was done, or in shadow mode would have been, with its code."""

from typing import get_args

import pytest

from looptrap.detect.fingerprint import Fingerprint
from looptrap.detect.signals.signal import Evidence
from looptrap.policy.action import Action, Ladder
from looptrap.policy.kill_switch import KillSwitchMatcher
from looptrap.policy.policy import KillSwitch, Policy
from looptrap.policy.rule import Rule
from looptrap.policy.verdict import CODES, Reason, opening, verdict_of
from looptrap.policy.watch import Watch

EVIDENCE = Evidence("conversation", "identical request sent 6 times in 60 seconds", 6)
ADVICE = "Sending it again will not change the answer: change the approach, or stop."
CODE = "recursive_loop_detected"


def message(action, mode="enforce", cooldown_left=30.0):
    rule = Rule(name="same", watch="conversation", ladder=Ladder({action: 6}))
    policy = Policy(name="p", mode=mode, rules=(rule,))
    watch = Watch(policy, rule, Fingerprint(b"k", (), ()), rule.ladder)
    return verdict_of(watch, action, b"0" * 16, EVIDENCE, cooldown_left).message


@pytest.mark.parametrize(
    ("action", "enforced", "in_shadow"),
    [
        pytest.param(
            Action.BLOCK,
            f"Blocked ({CODE}): {EVIDENCE.what}. Refused for another 30 seconds. {ADVICE}",
            f"Would have been refused ({CODE}): {EVIDENCE.what}.",
            id="block",
        ),
        pytest.param(
            Action.STOP,
            f"Stopped ({CODE}): {EVIDENCE.what}. Refused for another 30 seconds. {ADVICE}",
            f"Would have been stopped ({CODE}): {EVIDENCE.what}.",
            id="stop",
        ),
        pytest.param(
            Action.THROTTLE,
            f"Slowed down: {EVIDENCE.what}.",
            f"Would have been slowed down: {EVIDENCE.what}.",
            id="throttle",
        ),
        pytest.param(
            Action.NUDGE,
            f"Nudged: {EVIDENCE.what}.",
            f"Would have been nudged: {EVIDENCE.what}.",
            id="nudge",
        ),
        pytest.param(
            Action.WARN,
            f"Warning: {EVIDENCE.what}.",
            f"Would have been warned about: {EVIDENCE.what}.",
            id="warn",
        ),
    ],
)
def test_the_message_says_what_was_done_or_would_have_been(action, enforced, in_shadow):
    assert message(action) == enforced
    assert message(action, "shadow") == in_shadow


def test_a_kill_names_its_code():
    switch = KillSwitch(match=(("caller", "key:a"),), reason="leaked")
    assert (
        KillSwitchMatcher(switch).verdict.message
        == "Blocked (killed): calls of caller 'key:a' are switched off: leaked."
    )


def test_every_reason_that_refuses_has_a_code_and_its_message_begins_with_it():
    assert set(CODES) == set(get_args(Reason)) - {"", "budget_threshold"}
    for reason, code in CODES.items():
        assert opening(Action.BLOCK, reason) == f"Blocked ({code})"
