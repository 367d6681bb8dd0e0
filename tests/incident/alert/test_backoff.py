"""How long to wait after a failure, and when to give up."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.incident.alert.deliverer import MAX_EVENT_AGE_S, is_expired, retry_delay

HOUR = 3_600.0


@pytest.mark.parametrize(
    ("failures", "about"),
    [(1, 1), (2, 3), (3, 10), (4, 30), (5, 60), (6, 120), (10, 1_920), (11, HOUR), (99, HOUR)],
)
def test_waits_about(failures, about):
    found = [retry_delay(failures, Random(seed)) for seed in range(200)]
    assert min(found) >= 0.8 * about
    assert max(found) <= min(1.2 * about, HOUR)
    assert len(set(found)) > 100, "spread, so that letters do not come back all at once"


@given(failures=st.integers(0, 10**9), seed=st.integers())
def test_never_waits_longer_than_an_hour_or_not_at_all(failures, seed):
    assert 0.8 <= retry_delay(failures, Random(seed)) <= HOUR


def test_an_event_is_tried_for_three_days():
    rng, time, tries = Random(1), 0.0, 1
    while not is_expired(0.0, time + retry_delay(tries, rng)):
        time += retry_delay(tries, rng)
        tries += 1
    assert MAX_EVENT_AGE_S - HOUR - 1 <= time <= MAX_EVENT_AGE_S == 72 * HOUR
    assert 70 <= tries <= 100
