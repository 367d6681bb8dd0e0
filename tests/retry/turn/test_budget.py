"""What a turn may take, in numbers."""

import threading

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from looptrap.retry.turn.budget import TurnAccount, TurnLimits


def test_threads_never_take_more_than_there_is():
    account = TurnAccount(TurnLimits(steps=100, tool_calls=100), 0.0)
    taken = []

    def take():
        for _ in range(50):
            one = account.take(0.0, steps=1)
            if not one.exceeded_limit:
                taken.append(one.step)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 101))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 40)), max_size=20))
def test_what_is_left_only_gets_less(takes):
    outer = TurnAccount(TurnLimits(), 0.0)
    inner = TurnAccount(TurnLimits(steps=6), 0.0, outer)
    now, left = 0.0, inner.left(0.0)
    for steps, tool_calls, seconds in takes:
        now += seconds
        inner.take(now, steps=steps, tool_calls=tool_calls)
        after = inner.left(now)
        assert after == after.lower_to(asdict(left))
        assert after == after.lower_to(asdict(outer.left(now)))
        left = after
