import time

import pytest

from looptrap.detect.canonical import mask, mask_arguments, mask_result


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
        pytest.param("in step 3", "in step 4", id="step"),
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
        pytest.param("step 3 of 9", "step 4 of 9", id="a step of many"),
        pytest.param("step 3/10", "step 4/10", id="a step of many, in short"),
        pytest.param("build: 11% done", "build: 22% done", id="per cent"),
        pytest.param("10M\tbuild", "20M\tbuild", id="sizes"),
    ],
)
def test_what_may_mean_something_counts(one, other):
    assert mask(one) != mask(other)
    assert mask_result(one) != mask_result(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("step 3 done", "step 4 done", id="steps"),
        pytest.param('{"iteration": 3}', '{"iteration": 4}', id="iterations in JSON"),
        pytest.param("read up to line 40", "read up to line 80", id="lines"),
        pytest.param("offset: 4096", "offset: 8192", id="offsets"),
        pytest.param("processed transaction 17", "processed transaction 18", id="transactions"),
        pytest.param("30 s remaining", "20 s remaining", id="seconds that remain"),
        pytest.param("ETA: 3 minutes", "ETA: 2 minutes", id="time of arrival"),
        pytest.param("00:10:00 of 01:30:00", "00:20:00 of 01:30:00", id="a time of many"),
        pytest.param("elapsed: 5 of 9", "elapsed: 6 of 9", id="a duration of many"),
        pytest.param('{"seconds": 4687}', '{"seconds": 41}', id="seconds that something is behind"),
        pytest.param('{"replay_lag_ms": 4687}', '{"replay_lag_ms": 41}', id="a lag"),
        pytest.param('{"t": 3}', '{"t": 4}', id="a step by a short name"),
        pytest.param("took: 5 apples", "took: 6 apples", id="what was taken"),
        pytest.param("complete log is in step 3", "complete log is in step 4", id="no place"),
        pytest.param("total tokens: 5123", "total tokens: 4096", id="tokens"),
        pytest.param('"time": 120', '"time": 180', id="a time that is no moment"),
        pytest.param('"phone": 1800000000', '"phone": 1800000007', id="a number as long as a time"),
        pytest.param("created. id: 4711", "created. id: 4712", id="the id of what was created"),
        pytest.param("Report saved to: a.md", "Report saved to: b.md", id="what was written"),
    ],
)
def test_a_number_that_is_the_news_of_a_result_counts(one, other):
    assert mask_result(one) != mask_result(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("attempt 3: pending", "attempt 4: pending", id="attempts"),
        pytest.param("Process id: 77", "Process id: 1234", id="process ids"),
        pytest.param('{"request_id": 99}', '{"request_id": 100}', id="request ids"),
        pytest.param("listening on port 50123", "listening on port 50999", id="ports"),
        pytest.param("42 passed in 1.20s", "42 passed in 1.31s", id="durations"),
        pytest.param("[10:00:03] pending", "[10:00:09] pending", id="times"),
        pytest.param("pids: [77, 78], up", "pids: [1234], up", id="several process ids"),
        pytest.param('"duration_seconds":0.1}', '"duration_seconds":12}', id="named durations"),
        pytest.param("Elapsed: 3.5 s, ok", "Elapsed: 2 min, ok", id="named durations with a unit"),
        pytest.param('{"rows": 3, "ms": 5.02}', '{"rows": 3, "ms": 71.4}', id="milliseconds"),
        pytest.param('{"rtt_ms": 1.4, "up": 1}', '{"rtt_ms": 2, "up": 1}', id="a unit in the name"),
        pytest.param('{"v": 57, "t": 0.0538}', '{"v": 57, "t": 0.51}', id="a fraction of a second"),
        pytest.param(
            "up 2 days, load average: 0.51, 0.2", "up 9 days, load average: 1.7, 0.3", id="a load"
        ),
        pytest.param('{"rows": [], "took_ms": 5}', '{"rows": [], "took_ms": 41}', id="took_ms"),
        pytest.param('"date": 1800000000', '"date": 1800000007', id="a moment in seconds"),
        pytest.param(
            '"timestamp":1800000000123', '"timestamp":1800000007456', id="in milliseconds"
        ),
        pytest.param('"execution_count": 7', '"execution_count": 8', id="cells of a notebook"),
        pytest.param('"token": "tok_81a9"', '"token": "tok_77f0"', id="tokens of a session"),
        pytest.param('{"took": 5, "hits": 2}', '{"took": 41, "hits": 2}', id="took"),
        pytest.param(
            "A complete log of this run can be found in: /home/dev/.npm/_logs/5-debug-0.log",
            "A complete log of this run can be found in: /home/dev/.npm/_logs/41-debug-0.log",
            id="where a log was saved",
        ),
        pytest.param("sent. Receipt no: R-41", "sent. Receipt no: R-42", id="receipts"),
        pytest.param("request_id: req_011CZ", "request_id: req_9Qx-7", id="ids of several parts"),
        pytest.param(
            "Full output saved to: /tmp/toolu_1.txt",
            "Full output saved to: /tmp/toolu_2.txt",
            id="where an output was saved",
        ),
    ],
)
def test_what_is_volatile_in_a_result_does_not_count(one, other):
    assert mask_result(one) == mask_result(other)


def test_what_is_asked_for_by_its_number_counts():
    assert mask_arguments('{"receipt_no": 17}') != mask_arguments('{"receipt_no": 18}')
    assert mask_arguments('{"duration": 5}') != mask_arguments('{"duration": 6}')
    assert mask_arguments("sleep 5s") == mask_arguments("sleep 6s")


@pytest.mark.parametrize(
    "text",
    [
        "receipt pids: " * 4_000,
        "elapsed_" * 8_000,
        "5" * 60_000,
        "a1" * 30_000,
        "0x" * 30_000,
        "12:" * 20_000,
        "line " * 12_000,
        "a-" * 30_000,
    ],
    ids=["labels", "timers", "digits", "hex", "0x", "colons", "counters without number", "dashes"],
)
def test_hostile_texts_take_linear_time(text):
    """Twice the text takes about twice the time; a backtracking pattern would take four times."""

    def cost(size):
        started = time.process_time()
        for _ in range(3):
            mask(text[:size])
            mask_result(text[:size])
        return time.process_time() - started

    cost(1_000)
    assert cost(60_000) < 10 * max(cost(30_000), 0.001)
