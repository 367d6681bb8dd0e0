"""What is remembered by key: the keys used latest stay, and there are never too many."""

from hypothesis import given
from hypothesis import strategies as st

from looptrap.incident.indicator.model import RecentMap


def test_what_is_used_stays_while_others_come_and_go():
    dropped = []
    latest = RecentMap(lambda key: [key], 10, dropped.append)
    used = latest["used"]
    for number in range(100):
        assert latest[number] == [number]
        assert latest["used"] is used
    assert len(latest.all()) <= 10
    assert len(dropped) == 101 - len(latest.all())


def test_what_is_forgotten_is_made_anew():
    latest = RecentMap(lambda _key: [], 4)
    latest["a"].append(1)
    latest.forget(["a", "b"])
    assert latest["a"] == []


@given(keys=st.lists(st.integers(0, 50)), most=st.integers(1, 20))
def test_there_are_never_more_than_most_and_none_twice(keys, most):
    latest = RecentMap(lambda key: key, most)
    for key in keys:
        assert latest[key] == key
        kept = latest.all()
        assert len(kept) == len(set(kept)) <= max(most, 2)
        assert key in kept
