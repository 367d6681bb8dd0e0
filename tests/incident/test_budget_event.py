"""Budgets that come to an end: what people are told."""

import pytest

from looptrap.incident.event import budget_event
from looptrap.money.meter import BudgetStatus
from looptrap.policy.action import Action

NOW = 1_794_000_000.0  # 2026-11-06 21:20 UTC
MIDNIGHT = 1_794_009_600
DOLLAR = 1_000_000_000


def standing(**changes):
    given = {
        "budget": "research-day", "fingerprint": "1-ab", "by": (("session", "run-42"),),
        "unit": "usd", "used": 41 * DOLLAR // 10, "limit": 5 * DOLLAR, "stage": 80,
        "action": Action.WARN, "ends": MIDNIGHT,
    }  # fmt: skip
    return BudgetStatus(**{**given, **changes})


def told(**changes):
    return budget_event(standing(**changes), time=NOW, project="research", request_id="req-7")


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        pytest.param(
            {},
            "Budget research-day: $4.10 of $5.00 used (82 %) by session run-42, until 00:00 UTC",
            id="dollars, until tonight",
        ),
        pytest.param(
            {"ends": MIDNIGHT + 7 * 86_400},
            "Budget research-day: $4.10 of $5.00 used (82 %) by session run-42,"
            " until 2026-11-14 00:00 UTC",
            id="until another day",
        ),
        pytest.param(
            {"unit": "tokens", "used": 81_000, "limit": 100_000, "ends": 0},
            "Budget research-day: 81,000 of 100,000 tokens used (81 %) by session run-42",
            id="tokens, for ever",
        ),
        pytest.param(
            {"by": (("caller", "key:ci"), ("model", "gpt-5.3")), "mode": "shadow"},
            "Budget research-day: $4.10 of $5.00 used (82 %) by caller key:ci and model gpt-5.3,"
            " until 00:00 UTC, in shadow mode",
            id="of several descriptors, in shadow mode",
        ),
        pytest.param(
            {"by": ()},
            "Budget research-day: $4.10 of $5.00 used (82 %), until 00:00 UTC",
            id="everybody's",
        ),
        pytest.param(
            {"action": Action.BLOCK, "used": 49 * DOLLAR // 10},
            "Budget research-day refuses calls: $4.90 of $5.00 used (98 %) by session run-42,"
            " until 00:00 UTC",
            id="that refuses",
        ),
    ],
)
def test_a_line_says_how_much_of_what_is_used_by_whom(changes, title):
    assert told(**changes).title == title


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (Action.WARN, "budget.threshold"),
        (Action.THROTTLE, "budget.threshold"),
        (Action.STOP, "budget.exceeded"),
        (Action.BLOCK, "budget.exceeded"),
    ],
)
def test_it_is_exceeded_where_calls_are_refused(action, name):
    assert told(action=action).name == name


def test_programs_get_it_in_numbers():
    assert told().data == {
        "budget": "research-day",
        "by": {"session": "run-42"},
        "unit": "usd",
        "used_usd": 4.1,
        "limit_usd": 5.0,
        "percent": 82,
        "stage": 80,
        "action": "warn",
        "mode": "enforce",
        "resets_at": MIDNIGHT,
        "fingerprint": "1-ab",
    }


def test_every_instance_tells_a_stage_under_one_id_and_the_next_period_under_another():
    assert told().id == told(used=48 * DOLLAR // 10).id == f"bud_1-ab_{MIDNIGHT}_80_{5 * DOLLAR}"
    others = [
        told(stage=95), told(ends=MIDNIGHT + 86_400), told(fingerprint="1-cd"),
        told(limit=10 * DOLLAR),
    ]  # fmt: skip
    assert len({one.id for one in [told(), *others]}) == 5


def test_a_limit_of_nothing_is_used_up():
    assert told(used=0, limit=0).data["percent"] == 100
