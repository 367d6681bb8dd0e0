"""How soon something that ended is started again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.workers.supervised_process import MAX_DELAY_S, STEADY_AFTER_S, RestartBackoff


@pytest.mark.parametrize(
    ("lives", "pauses"),
    [
        pytest.param([3600.0, 3600.0], [0.0, 0.0], id="now and then: at once"),
        pytest.param([0.0] * 5, [0.1, 0.2, 0.4, 0.8, 1.6], id="right after every start: later"),
        pytest.param([0.0] * 9, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0], id="to a limit"),
        pytest.param(
            [0.0, 0.0, STEADY_AFTER_S, 0.0], [0.1, 0.2, 0.0, 0.1], id="forgiven after a while"
        ),
    ],
)
def test_ends_that_follow_on_starts_are_waited_out(lives, pauses):
    pace = RestartBackoff()
    assert [pace.next_delay(lived) for lived in lives] == pytest.approx(pauses)


@given(st.lists(st.floats(0, STEADY_AFTER_S, exclude_max=True), min_size=1, max_size=2000))
def test_a_hot_loop_is_never_possible(lives):
    pace = RestartBackoff()
    pauses = [pace.next_delay(lived) for lived in lives]
    assert pauses == sorted(pauses)
    assert 0 < pauses[0] <= pauses[-1] <= MAX_DELAY_S
