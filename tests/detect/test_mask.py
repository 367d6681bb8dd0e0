import time

import pytest

from looptrap.detect.mask import mask


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("attempt 3", "attempt 4", id="attempt"),
        pytest.param("Attempt #3 of 5", "attempt #4 of 5", id="attempt of many"),
        pytest.param("retry=3 failed", "retry=17 failed", id="retry"),
        pytest.param("error on line 12", "error on line 120", id="line"),
        pytest.param("lines 3-9", "lines 4-10", id="lines"),
        pytest.param("PID: 77 died", "pid: 1234 died", id="pid"),
        pytest.param("request id: 99", "request id: 100", id="request id"),
        pytest.param('{"attempt":3,"ok":false}', '{"attempt":4,"ok":false}', id="in JSON"),
        pytest.param('{"attempt": "3"}', '{"attempt": "12"}', id="in JSON, as text"),
        pytest.param("step 3/10", "step 4/10", id="step"),
        pytest.param(
            "job 123e4567-e89b-12d3-a456-426614174000",
            "job 923e4567-e89b-12d3-a456-426614174fff",
            id="uuid",
        ),
        pytest.param("commit deadbeef", "commit 0badcafe12", id="hex of 8 or more"),
        pytest.param("at 0x7f3a", "at 0x10", id="address"),
        pytest.param("2026-11-15T19:14:00Z boom", "2026-11-16T07:00:59Z boom", id="ISO time"),
        pytest.param("19:14:00.123 boom", "07:00:59.9 boom", id="time of day"),
        pytest.param("took 3.2s", "took 14 ms", id="duration"),
        pytest.param("waited 3 seconds", "waited 1 hour", id="duration in words"),
    ],
)
def test_what_is_volatile_does_not_count(one, other):
    assert mask(one).lower() == mask(other).lower()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("pump 5", "pump 6", id="plain numbers are different questions"),
        pytest.param("invoice 12345678", "invoice 12345679", id="long plain numbers too"),
        pytest.param("gpt-4", "gpt-5", id="versions"),
        pytest.param("chapter 3", "chapter 4", id="chapters"),
        pytest.param("the entry 3", "the entry 4", id="'try' inside a word"),
        pytest.param("face", "cafe", id="short hex is a word"),
        pytest.param("5 apples", "6 apples", id="amounts"),
        pytest.param("attempt to sleep", "attempt to leave", id="a counter's name without one"),
    ],
)
def test_what_may_mean_something_counts(one, other):
    assert mask(one) != mask(other)


@pytest.mark.parametrize(
    "text",
    ["5" * 60_000, "a1" * 30_000, "0x" * 30_000, "12:" * 20_000, "line " * 12_000, "a-" * 30_000],
    ids=["digits", "hex", "0x", "colons", "counters without number", "dashes"],
)
def test_hostile_texts_take_linear_time(text):
    """Twice the text takes about twice the time; a backtracking pattern would take four times."""

    def cost(size):
        started = time.process_time()
        for _ in range(3):
            mask(text[:size])
        return time.process_time() - started

    cost(1_000)
    assert cost(60_000) < 10 * max(cost(30_000), 0.001)
