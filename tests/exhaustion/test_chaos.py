"""The chaos run, a short one: `python -m bench.chaos` is the long one."""

import asyncio

import pytest
from bench.chaos import run
from bench.client import Answer
from bench.fault import Fault
from bench.reckoning import _Judge
from bench.remains import leaks
from bench.stage import Stage
from bench.traffic import Told


def test_everything_is_answered_and_counted_and_nothing_is_left(tmp_path, monkeypatch):
    # On a busy machine what was away is slow to come back, and two faults have to fit.
    monkeypatch.setattr("bench.fault.QUIET", (0.5, 1.5))
    with Stage(tmp_path) as stage:
        reckoning, remains = asyncio.run(run(stage, seconds=10.0, seed=4, rate=40.0, coda=2.0))
        said = stage.said()
    assert reckoning.problems == []
    assert leaks(remains) == []
    assert "Traceback" not in said
    assert reckoning.faults.total() >= 2
    assert reckoning.counts["requests"] > 100
    assert reckoning.endings["loop"]["refused as a loop"] > 0


KILLED = Fault("worker", "killed", 10.0, 12.0)
STORE = Fault("store", "killed", 10.0, 12.0)
PROVIDER = Fault("upstream a", "killed", 10.0, 12.0)


def told(kind, status, code="", body=b"", number=0, at=11.0):
    error = b'{"error":{"code":"%b"}}' % code.encode() if code else body
    return Told("x", kind, "a", "who", at, at + 0.1, Answer(status, {}, error, 0.1), number)


@pytest.mark.parametrize(
    ("one", "faults", "expected"),
    [
        pytest.param(told("honest", 0), [], "NOT answered: the connection was dropped", id="cut"),
        pytest.param(
            told("honest", 0), [KILLED], "dropped: its worker was killed", id="worker killed"
        ),
        pytest.param(told("honest", -1), [KILLED], "NOT answered in time", id="late"),
        pytest.param(
            told("honest", 502, "upstream_reset"), [PROVIDER], "told that it is away", id="away"
        ),
        pytest.param(
            told("honest", 502, "upstream_reset"),
            [STORE],
            "NOT told anything documented: upstream_reset",
            id="no reason",
        ),
        pytest.param(
            told("honest", 429, "recursive_loop_detected"),
            [],
            "NOT a loop, and refused as one",
            id="false alarm",
        ),
        pytest.param(told("stream", 200, body=b"data: 1\n\n"), [], "NOT a whole stream", id="half"),
        pytest.param(told("malformed", 200), [], "NOT refused as malformed", id="malformed"),
    ],
)
def test_the_reckoning_tells_right_from_wrong(one, faults, expected):
    assert _Judge(faults, []).ending(one) == expected


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        pytest.param([], "NOT refused, and a loop", id="the store was up"),
        pytest.param([STORE], "answered: the store was away", id="the store was away"),
    ],
)
def test_the_reckoning_knows_when_a_loop_was_due(faults, expected):
    before = [told("loop", 200, number=number) for number in range(1, 6)]
    assert _Judge(faults, before).ending(told("loop", 200, number=6)) == expected
