"""Bounded maps: the latest keys stay, and there are never too many."""

from hypothesis import given
from hypothesis import strategies as st

from looptrap.bounded import BoundedCache, LruMap, RecentMap


def test_a_cache_computes_once_and_is_emptied_when_full():
    computed = []
    cache = BoundedCache(lambda key: computed.append(key) or len(key), max_entries=2)
    assert [cache[key] for key in (b"a", b"a", b"bb", b"ccc")] == [1, 1, 2, 3]
    assert computed == [b"a", b"bb", b"ccc"]
    assert cache == {b"ccc": 3}


def test_a_cache_keeps_no_large_keys():
    cache = BoundedCache(len, max_key_bytes=3)
    assert (cache[b"abc"], cache[b"abcd"]) == (3, 4)
    assert cache == {b"abc": 3}


@given(keys=st.lists(st.integers(0, 30)), limit=st.integers(1, 10))
def test_an_lru_map_holds_the_keys_set_last(keys, limit):
    lru = LruMap(limit)
    for number, key in enumerate(keys):
        lru[key] = number
    latest = list(dict.fromkeys(reversed(keys)))[:limit]
    assert list(reversed(lru)) == latest


def test_what_is_used_stays_while_others_come_and_go():
    dropped = []
    recent = RecentMap(lambda key: [key], 10, dropped.append)
    used = recent["used"]
    for number in range(100):
        assert recent[number] == [number]
        assert recent["used"] is used
    assert len(recent.all()) <= 10
    assert len(dropped) == 101 - len(recent.all())


def test_what_is_forgotten_is_made_anew():
    recent = RecentMap(lambda _key: [], 4)
    recent["a"].append(1)
    recent.forget(["a", "b"])
    assert recent["a"] == []


@given(keys=st.lists(st.integers(0, 50)), limit=st.integers(1, 20))
def test_there_are_never_more_than_the_limit_and_none_twice(keys, limit):
    recent = RecentMap(lambda key: key, limit)
    for key in keys:
        assert recent[key] == key
        values = recent.all()
        assert len(values) == len(set(values)) <= max(limit, 2)
        assert key in values
