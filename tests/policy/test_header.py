"""What an answer's headers say about its verdict."""

import pytest

from looptrap.policy.action import Action
from looptrap.policy.header import headers_of, retry_after
from looptrap.policy.rate import RateStatus
from looptrap.policy.verdict import ALLOWED, Verdict


def verdict(action=Action.BLOCK, **more):
    return Verdict(action=action, reason="loop_detected", rule="same", count=6, **more)


def shown(*args):
    return {name.decode(): value.decode() for name, value in headers_of(*args)}


def test_an_allowed_call_says_so():
    assert shown(ALLOWED) == {"X-Looptrap-Verdict": "allow"}


def test_a_block_says_why_and_keeps_sdks_from_retrying():
    assert shown(verdict(cooldown_left=29.2)) == {
        "X-Looptrap-Verdict": "block",
        "X-Looptrap-Reason": "loop_detected",
        "X-Looptrap-Rule": "same",
        "X-Looptrap-Count": "6",
        "Retry-After": "30",
        "x-should-retry": "false",
        "X-Looptrap-Cost-Usd": "0",
    }


def test_a_rate_that_is_used_up_says_when_to_come_again():
    refused = Verdict(
        action=Action.BLOCK, reason="rate_limited", rule="per-tool", count=40, retry_after=1.2
    )
    assert shown(refused, None, RateStatus(40, 0, 1.95)) == {
        "X-Looptrap-Verdict": "block",
        "X-Looptrap-Reason": "rate_limited",
        "X-Looptrap-Rule": "per-tool",
        "X-Looptrap-Count": "40",
        "Retry-After": "2",
        "X-Looptrap-Cost-Usd": "0",
        "RateLimit-Limit": "40",
        "RateLimit-Remaining": "0",
        "RateLimit-Reset": "2",
    }


def test_an_allowed_call_says_what_is_left_of_its_rate():
    assert shown(ALLOWED, None, RateStatus(40, 39, 0.05)) == {
        "X-Looptrap-Verdict": "allow",
        "RateLimit-Limit": "40",
        "RateLimit-Remaining": "39",
        "RateLimit-Reset": "1",
    }


def test_a_throttled_call_says_how_long_it_was_held_back():
    headers = shown(verdict(Action.THROTTLE, delay=0.6))
    assert headers["X-Looptrap-Delay-Ms"] == "600"
    assert "x-should-retry" not in headers


def test_shadow_mode_says_what_would_have_happened():
    headers = shown(ALLOWED, verdict())
    assert headers == {"X-Looptrap-Verdict": "allow", "X-Looptrap-Shadow": "block"}


def test_fairvisors_own_headers_are_sent_where_a_policy_asks_for_them():
    assert shown(verdict(compat=("fairvisor",)))["X-Fairvisor-Reason"] == "loop_detected"
    throttled = shown(verdict(Action.THROTTLE, delay=0.4, compat=("fairvisor",)))
    assert throttled["X-Fairvisor-Loop-Delay"] == "400"


@pytest.mark.parametrize(
    ("left", "rule_says", "told"),
    [
        pytest.param(12.1, None, 13, id="the cooldown left, rounded up"),
        pytest.param(600, None, 60, id="at most a minute: some clients sleep it all"),
        pytest.param(0, None, None, id="nothing without a cooldown"),
        pytest.param(0, 60, 60, id="what the rule says"),
        pytest.param(5, 300, 300, id="the rule wins"),
    ],
)
def test_retry_after(left, rule_says, told):
    assert retry_after(verdict(cooldown_left=left, retry_after=rule_says)) == told
