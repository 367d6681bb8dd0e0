"""What every store promises about notes. Time is an argument: nothing here sleeps."""

import pytest
from tests.store.charging import places, stores
from tests.store.serving import KINDS

from looptrap.detect.window import Window
from looptrap.store.model import RUN_MEMORY_S, Hit, Note, Trip
from looptrap.store.redis.request import MANY_HITS

T = 1_800_000_000.0
KEY, OTHER, UNKNOWN = b"\0\1key", b"\0\1other", b"\0\1unknown"
WINDOW = Window(60)


@pytest.fixture(scope="module", params=["memory", *KINDS, "cluster"])
def place(request):
    yield from places(request.param)


@pytest.fixture
def store(place):
    yield from stores(place)


def recalled(store, key=KEY, now=T):
    """Recall one note."""
    [value] = store.recall([key], now)
    return value


@pytest.mark.parametrize(
    ("written", "known"),
    [
        pytest.param([], b"", id="nothing was written"),
        pytest.param([(b"one", 0)], b"one", id="a value"),
        pytest.param([(b"one", 0), (b"two", 0)], b"two", id="a value replaces the one before"),
        pytest.param([(b"ab", 9), (b"cd", 9)], b"abcd", id="values are appended"),
        pytest.param([(b"ab", 3), (b"cd", 3)], b"bcd", id="the last bytes are kept"),
        pytest.param([(b"abcd", 3)], b"bcd", id="of the first value too"),
        pytest.param([(b"abcd", 4), (b"e", 2)], b"de", id="a limit may become smaller"),
        pytest.param([(b"abcd", 2), (b"e", 9)], b"cde", id="or larger"),
        pytest.param([(b"ab", 0), (b"cd", 3)], b"bcd", id="appended to one that replaced"),
        pytest.param([(b"ab", 9), (b"cd", 0)], b"cd", id="replaces what was appended"),
        pytest.param([(b"ab", 0), (b"", 0)], b"", id="an empty value forgets"),
        pytest.param([(b"ab", 9), (b"", 9)], b"", id="an empty value forgets what was appended"),
        pytest.param([(b"", 0)], b"", id="nothing is there to forget"),
        pytest.param([(b"ab", 9), (b"", 9), (b"c", 9)], b"c", id="forgotten, and begun again"),
        pytest.param([(bytes(range(256)), 0)], bytes(range(256)), id="every byte"),
        pytest.param([(b"\r\n\0", 9), (b"\xff\0", 9)], b"\r\n\0\xff\0", id="odd bytes, appended"),
        pytest.param([(b"x" * 4_096, 0)], b"x" * 4_096, id="4 KB"),
        pytest.param(
            [(b"x" * 4_096, 4_096), (b"yz", 4_096)], b"x" * 4_094 + b"yz", id="4 KB, appended to"
        ),
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
def test_what_was_written_is_recalled(store, written, known, at_once):
    notes = [Note(KEY, value, limit) for value, limit in written]
    for some in [notes] if at_once else [[one] for one in notes]:
        store.remember(some, T)
    assert recalled(store) == known


def test_notes_are_recalled_in_the_order_of_the_keys(store):
    store.remember([Note(KEY, b"one"), Note(OTHER, b"two", 9)], T)
    assert [*store.recall([OTHER, UNKNOWN, KEY, OTHER], T)] == [b"two", b"", b"one", b"two"]
    assert not store.recall([], T)


@pytest.mark.parametrize("limit", [0, 100], ids=["replaced", "appended"])
def test_a_note_is_forgotten_an_hour_after_it_was_last_written(store, limit):
    store.remember([Note(KEY, b"a", limit)], T)
    store.remember([Note(KEY, b"b", limit)], T + 3_000)
    known = b"ab" if limit else b"b"
    assert recalled(store, now=T + 3_000 + RUN_MEMORY_S - 0.5) == known
    assert recalled(store, now=T + 3_000 + RUN_MEMORY_S) == b""


def test_recalling_a_note_does_not_keep_it(store):
    store.remember([Note(KEY, b"a")], T)
    for now in range(0, RUN_MEMORY_S, 600):
        assert recalled(store, now=T + now) == b"a"
    assert recalled(store, now=T + RUN_MEMORY_S) == b""


def test_nothing_is_appended_to_a_note_that_is_over(store):
    store.remember([Note(KEY, b"old", 100)], T)
    store.remember([Note(KEY, b"new", 100)], T + RUN_MEMORY_S)
    assert recalled(store, now=T + RUN_MEMORY_S) == b"new"


def test_a_recalled_note_does_not_change_when_more_is_written(store):
    store.remember([Note(KEY, b"a", 100)], T)
    before = recalled(store)
    store.remember([Note(KEY, b"b", 100)], T)
    assert (before, recalled(store)) == (b"a", b"ab")


def test_a_released_key_has_no_note(store):
    store.remember([Note(KEY, b"one"), Note(OTHER, b"two", 9)], T)
    assert store.release(KEY)
    assert not store.release(KEY)
    assert [*store.recall([KEY, OTHER], T)] == [b"", b"two"]


def test_a_note_that_was_forgotten_leaves_nothing_to_release(store):
    store.remember([Note(KEY, b"one"), Note(KEY, b"")], T)
    assert not store.release(KEY)


@pytest.mark.parametrize("hits", [1, MANY_HITS + 2], ids=["few hits", "many hits"])
def test_notes_hits_and_cooldowns_of_one_key_do_not_disturb_each_other(store, hits):
    store.hit([Hit(KEY, WINDOW)] * hits, T)
    store.remember([Note(KEY, b"a", 9)], T)
    assert store.hit([Hit(KEY, WINDOW)], T)[0].hits == hits + 1
    store.trip([Trip(KEY, 30, 5)], T)
    store.remember([Note(KEY, b"b", 9)], T)
    assert recalled(store) == b"ab"
    assert store.cooldown_left(KEY, T) == 30
    store.remember([Note(KEY, b"")], T)
    assert store.hit([Hit(KEY, WINDOW)], T + 31)[0].hits == hits + 2
    assert recalled(store, now=T + 31) == b""
    assert store.release(KEY)
    assert store.hit([Hit(KEY, WINDOW)], T + 31)[0].hits == 1
