"""The log of calls: a row for a call, or under load for several, and nothing of their texts."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.dialect.model import MAX_NAME_CHARS, Call, Outcome, Request, Usage
from looptrap.engine import Ticket
from looptrap.policy.action import Action
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.usage.call_log import (
    ACTED_FACTOR,
    SAMPLE_INTERVAL,
    CallLog,
    CallLogSettings,
    CallSampler,
)

NOON = 1_800_000_000.0
SECRET_TEXT = b"the launch code is 0000"

BLOCKED = Verdict(action=Action.BLOCK, reason="loop_detected", policy="default", rule="no-progress")
WARNED = Verdict(action=Action.WARN, reason="loop_detected", policy="default", rule="same-error")
USED = Outcome(200, Usage(100, 20, cached_tokens=60), False, 4_000)


def ticket(verdict=ALLOWED, *, shadow=None, heard=None, **request):
    sent = Request(body=SECRET_TEXT, caller="key:ann", project="research")
    for name, value in request.items():
        setattr(sent, name, value)
    return Ticket(
        Call(sent, "anthropic", "claude-opus", stream=True, generates=True),
        verdict=verdict,
        shadow=shadow,
        heard=heard,
    )


def add(log, judged=None, outcome=USED, now=NOON, **more):
    values = {
        "began": now - 1.5, "status": 200, "provider": "anthropic", "first_byte": 0.4,
        "session": "run-1", "agent": "Claude Code", "request_id": b"lt-1",
    } | more  # fmt: skip
    log.add(judged or ticket(), outcome, now, *values.values())


def a_log(per_second=100):
    return CallLog(CallLogSettings(per_second=per_second), Random(1))


def test_a_row_has_names_counts_and_times_and_no_text():
    log = a_log()
    add(log)
    (row,) = log.take()
    assert row._asdict() == {
        "time": NOON, "weight": 1, "caller": "key:ann", "project": "research", "session": "run-1",
        "agent": "Claude Code", "model": "claude-opus", "provider": "anthropic",
        "dialect": "anthropic", "status": 200, "verdict": "allow", "shadow": "", "reason": "",
        "policy": "", "rule": "", "input_tokens": 100, "output_tokens": 20, "cached_tokens": 60,
        "is_estimated": False, "cost": 4_000, "latency": 1.5, "first_byte": 0.4,
        "is_stream": True, "is_cut_off": False, "request_id": "lt-1",
    }  # fmt: skip
    assert log.take() == []


def test_the_body_of_a_call_does_not_outlive_it():
    log = a_log()
    add(log)
    assert SECRET_TEXT not in str(log._taken).encode()


@pytest.mark.parametrize(
    ("judged", "verdict", "shadow", "rule"),
    [
        pytest.param(ticket(), "allow", "", "", id="allowed"),
        pytest.param(ticket(BLOCKED), "block", "", "no-progress", id="refused"),
        pytest.param(ticket(WARNED), "warn", "", "same-error", id="warned"),
        pytest.param(ticket(shadow=BLOCKED), "allow", "block", "no-progress", id="shadow"),
        pytest.param(
            ticket(WARNED, shadow=BLOCKED), "warn", "block", "same-error", id="warned and shadow"
        ),
        pytest.param(ticket(heard=BLOCKED), "block", "", "no-progress", id="a cut answer"),
    ],
)
def test_a_row_says_what_was_done_and_by_which_rule(judged, verdict, shadow, rule):
    log = a_log()
    add(log, judged)
    (row,) = log.take()
    assert (row.verdict, row.shadow, row.rule) == (verdict, shadow, rule)


@pytest.mark.parametrize(
    ("outcome", "cost"),
    [
        pytest.param(USED, 4_000, id="priced"),
        pytest.param(Outcome(200, Usage(1, 1)), None, id="without a price"),
        pytest.param(None, 0, id="not sent"),
        pytest.param(Outcome(500), 0, id="a failure that used nothing"),
    ],
)
def test_the_cost_is_unknown_only_where_something_was_used(outcome, cost):
    log = a_log()
    add(log, outcome=outcome)
    assert log.take()[0].cost == cost


def test_names_of_any_length_are_cut():
    log, long = a_log(), "x" * 5_000
    judged = ticket()
    judged.call.model = long
    add(log, judged, session=long, request_id=long.encode())
    (row,) = log.take()
    assert {len(one) for one in (row.model, row.session, row.request_id)} == {MAX_NAME_CHARS}


def test_every_second_begins_with_calls_that_are_logged_one_by_one():
    log = a_log(per_second=3)
    for second in range(4):
        for _ in range(3):
            add(log, now=NOON + second)
    assert [row.weight for row in log.take()] == [1] * 12


def test_of_more_calls_about_one_in_fifty_is_logged():
    log = a_log(per_second=100)
    for _ in range(10_100):
        add(log)
    rows = log.take()
    assert 100 + 150 < len(rows) < 100 + 250
    assert [row.weight for row in rows[:100]] == [1] * 100
    assert 10_100 - 2 * SAMPLE_INTERVAL < sum(row.weight for row in rows) <= 10_100


def test_callers_that_alternate_are_sampled_alike():
    log = a_log(per_second=1)
    for n in range(20_000):
        add(log, ticket(caller=f"key:{n % 2}"))
    weights = Counter()
    for row in log.take():
        weights[row.caller] += row.weight
    assert all(8_000 < one < 12_000 for one in weights.values())


def test_refused_calls_are_logged_one_by_one_while_allowed_ones_are_sampled():
    log = a_log(per_second=10)
    for _ in range(1_000):
        add(log)
    for _ in range(10 * ACTED_FACTOR):
        add(log, ticket(BLOCKED), None)
    refused = [row for row in log.take() if row.verdict == "block"]
    assert [row.weight for row in refused] == [1] * 10 * ACTED_FACTOR


def test_refused_calls_are_bounded_too():
    log = a_log(per_second=10)
    for _ in range(5_000):
        add(log, ticket(BLOCKED), None)
    rows = log.take()
    assert len(rows) < 10 * ACTED_FACTOR + 250
    assert sum(row.weight for row in rows) > 5_000 - 2 * SAMPLE_INTERVAL


@given(st.lists(st.floats(0, 20), min_size=1, max_size=300), st.integers(1, 20))
def test_weights_add_up_to_the_calls_but_for_the_last_ones(offsets, per_second):
    sampler = CallSampler(per_second, Random(7))
    weights = [sampler.take(NOON + offset) for offset in offsets]
    unaccounted = len(offsets) - sum(weights)
    trailing = len(weights) - max((i + 1 for i, one in enumerate(weights) if one), default=0)
    assert unaccounted == trailing < 2 * SAMPLE_INTERVAL


def test_a_clock_that_is_put_back_does_not_stop_the_log():
    sampler = CallSampler(1, Random(7))
    assert [sampler.take(NOON), sampler.take(NOON - 3_600), sampler.take(NOON - 3_500)] == [1, 1, 1]
