"""How long to wait before the next attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.errors import ConfigError
from looptrap.retry.failure import Failure
from looptrap.retry.policy import Backoff

CHANCES = st.floats(0, 1)
BACKOFF = Backoff()


def limited(retry_after):
    return Failure("rate_limit", "rate_limited", retry_after=retry_after)


@pytest.mark.parametrize(
    ("attempt", "ceiling"),
    [(1, 0.4), (2, 0.8), (3, 1.6), (6, 12.8), (7, 20.0), (100_000, 20.0)],
)
def test_the_ceiling_doubles_up_to_the_cap(attempt, ceiling):
    assert BACKOFF.delay(attempt, 1.0) == pytest.approx(ceiling)
    assert BACKOFF.delay(attempt, 0.5) == pytest.approx(ceiling / 2)
    assert BACKOFF.delay(attempt, 0.0) == 0.0


@given(st.integers(1, 10_000), CHANCES)
def test_no_delay_passes_the_cap(attempt, chance):
    assert 0 <= BACKOFF.delay(attempt, chance) <= BACKOFF.cap


@given(st.integers(1, 100), st.floats(0, 60), CHANCES)
def test_never_earlier_than_asked_and_little_later(attempt, asked, chance):
    seconds = BACKOFF.wait(attempt, limited(asked), chance)
    assert asked <= seconds <= max(asked + BACKOFF.base, BACKOFF.cap)


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        pytest.param(60.0, True, id="a minute is honoured"),
        pytest.param(60.1, False, id="more is not waited for"),
        pytest.param(86_400.0, False, id="let alone a day"),
    ],
)
def test_a_long_retry_after_is_not_waited_for(asked, waits):
    assert (BACKOFF.wait(1, limited(asked), 0.5) is not None) is waits


def test_asked_to_come_at_once_it_backs_off_all_the_same():
    assert BACKOFF.wait(4, limited(0.0), 1.0) == BACKOFF.delay(4, 1.0)


@pytest.mark.parametrize(
    "settings",
    [{"base": 0}, {"base": 30}, {"cap": float("inf")}, {"longest_retry_after": -1}],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ConfigError, match="backoff: "):
        Backoff(**settings)
