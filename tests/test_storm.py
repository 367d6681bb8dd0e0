"""`bench/storm.py`: laws of its simulated day, and that its policy is the one people use."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from bench import storm
from bench.weather import (
    DOWN,
    LIMITERS,
    PASSING,
    PERMANENT,
    Answered,
    Call,
    Day,
    Figures,
    Job,
    Provider,
    Span,
)
from hypothesis import given
from hypothesis import strategies as st

from looptrap.errors import GiveUp
from looptrap.retry import Breakers, Chain, Link, Turn, testing
from looptrap.retry.classify import classify

LIMITED = Answered(429, "rate_limit_exceeded", 5)
DAY = Day.of(2_500, seed=6, outage=300.0)
SCARCE = Day(6, 1_200.0, Span(), (Span(480.0, 660.0),), permanent=0.0, passing=0.0)


def days(day):
    return {name: storm.live(day, begin) for name, begin in storm.clients(day.seed).items()}


@pytest.fixture(scope="module")
def stormy():
    return days(DAY)


@pytest.mark.parametrize("error", PERMANENT, ids=str)
def test_what_is_permanent_here_is_classified_so(error):
    assert not classify(error).is_retryable


@pytest.mark.parametrize("error", [*PASSING, *DOWN, LIMITED], ids=str)
def test_what_passes_here_is_classified_so(error):
    assert classify(error).is_retryable


def test_all_clients_meet_the_same_turns_and_each_ends_once(stormy):
    assert len({one.turns for one in stormy.values()}) == 1
    for one in stormy.values():
        ends = one.done + one.lost_permanent + one.lost_in_outage + one.lost_outside
        assert ends == one.turns > 2_000


def test_the_policy_never_sends_again_what_is_permanent(stormy):
    assert stormy["looptrap"].permanent_retried == 0
    assert stormy["naive³"].permanent_retried > stormy["naive"].permanent_retried > 0


def test_an_outage_is_asked_once_a_minute(stormy):
    ours = stormy["looptrap"]
    probes = 300 / 60
    assert 0 < ours.outage_attempts <= 5 + probes
    assert stormy["naive"].outage_tokens > 100 * ours.outage_tokens > 0


def test_no_step_is_tried_more_than_three_times():
    sent = Counter()

    class Counting(Provider):
        def take(self, job, call, now):
            sent[id(job), id(call)] += 1
            kept.append((job, call))
            return super().take(job, call, now)

    kept = []
    figures = Figures()
    begin = storm.clients(6)["looptrap"]
    storm.live(DAY, lambda clock, _provider: begin(clock, Counting(DAY, figures)))
    assert max(sent.values()) == 3


@pytest.mark.parametrize(("limiter", "fewer"), [("minute", 4), ("bucket", 1)])
def test_the_more_is_retried_the_more_is_limited(limiter, fewer):
    scarce = days(replace(SCARCE, limiter=limiter))
    assert scarce["naive³"].limited > scarce["naive"].limited > 0
    assert scarce["naive"].limited > scarce["looptrap"].limited > 0
    assert scarce["naive"].lost_outside > fewer * scarce["looptrap"].lost_outside


@pytest.mark.parametrize("limiter", LIMITERS)
def test_who_waits_as_told_is_not_refused_for_the_same_again(limiter):
    one, now = LIMITERS[limiter](), 100.0
    while (asked := one.refuse(0, 30.0, now)) is None:
        pass
    assert 0 < asked <= 60
    assert one.refuse(1, 30.0, now) is None, "another tenant"
    assert one.refuse(0, 30.0, now) is not None
    assert one.refuse(0, 30.0, now + asked) is None


def test_a_calm_day_takes_as_long_as_it_must():
    calm = storm.live(DAY.calm(), storm.clients(6)["looptrap"])
    assert calm.done == calm.turns
    assert calm.attempts == sum(len(job.calls) for job in DAY.calm().jobs())
    assert calm.seconds == pytest.approx(calm.ideal)


def test_a_seed_makes_the_day():
    short, other = Day.of(400, 1, 30.0), Day.of(400, 2, 30.0)
    assert days(short) == days(short) != days(other)


class Scripted:
    """Fails attempts as told, then no more."""

    def __init__(self, errors):
        self.errors = iter(errors)
        self.attempts = 0

    def take(self, _job, call, _now):
        self.attempts += 1
        return call.seconds, next(self.errors, None)


@given(st.lists(st.sampled_from([None, None, LIMITED, *PASSING, *PERMANENT]), max_size=9))
def test_the_simulated_client_does_what_a_turn_does(errors):
    calls = [Call(1_000, 0.5, 0.25) for _ in range(3)]
    assert simulated(calls, Scripted(errors)) == real(calls, Scripted(errors))


def simulated(calls, provider):
    clock = storm.Clock()
    acting = storm.Looptrap(clock, provider, lambda: 1.0).turn(Job(0.0, 0, calls, None))
    while True:
        try:
            clock.now += next(acting)
        except StopIteration as end:
            return end.value, provider.attempts, clock.now


def real(calls, provider):
    chain = Chain((Link("provider", None, "key 0"),))
    with testing(1.0) as rehearsal:

        def ask(_link, call):
            seconds, error = provider.take(None, call, rehearsal.now)
            rehearsal.advance(seconds)
            if error is not None:
                raise error

        try:
            with Turn(breakers=Breakers()) as turn:
                for call in calls:
                    turn.failover(chain, ask, call)
                    turn.tool(rehearsal.advance, call.tool_seconds)
        except GiveUp:
            return False, provider.attempts, rehearsal.now
        return True, provider.attempts, rehearsal.now


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        pytest.param({}, [], id="all reached"),
        pytest.param({"permanent_retried": 1}, [0], id="one permanent error retried"),
        pytest.param({"outage_tokens": 101}, [1], id="less than 100 times fewer tokens"),
        pytest.param({"lost_outside": 3}, [2], id="3 of 1000 turns lost"),
    ],
)
def test_says_which_aims_are_missed(change, missed):
    ours = Figures(turns=1_000, outage_tokens=100, lost_outside=2)
    for name, value in change.items():
        setattr(ours, name, value)
    found = storm.aims({"naive": Figures(outage_tokens=10_000), "looptrap": ours}, 1.0)
    assert [number for number, aim in enumerate(found) if not aim.is_reached] == missed


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(storm, "calm_latency", lambda _seed: 1.2)
    return ["--turns", "400", "--outage", "1"]


def test_prints_one_table_and_the_aims(quick, capsys):
    storm.main(quick)
    printed = capsys.readouterr().out
    assert all(label in printed for label in storm.ROWS)
    assert "1.20000 ×   NOT REACHED" in printed


def test_prints_json(quick, capsys):
    storm.main([*quick, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["clients"]) == ["naive", "naive³", "looptrap"]
    assert [aim["is_reached"] for aim in printed["aims"]][-1] is False


def test_a_day_shorter_than_its_outage_is_refused(capsys):
    with pytest.raises(SystemExit):
        storm.main(["--turns", "400"])
    assert "shorter than its outage" in capsys.readouterr().err
