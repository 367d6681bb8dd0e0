"""The course of one call over a chain, in simulated time."""

import pytest

from looptrap.errors import ConfigError
from looptrap.retry.breaker import PROBE_RETRY_S, Breakers, CircuitChange, CircuitKey
from looptrap.retry.failure import Failure
from looptrap.retry.policy import Backoff, Chain, Link, RetryPolicy
from looptrap.retry.schedule import FinalFailure, RetrySchedule, Try, Wait

DOWN = Failure("server", "http_503", trips="provider")
LATE = Failure("server", "timeout", is_timeout=True, trips="provider")
LIMITED = Failure("rate_limit", "rate_limited", trips="credential")
SPENT = Failure("permanent", "insufficient_quota", trips="credential")
WRONG = Failure("permanent", "http_400")
TOOL = Failure("tool", "exit_1")
OK = None


def asked(seconds):
    return Failure("rate_limit", "rate_limited", retry_after=seconds, trips="credential")


def schedule(*names, policy=None, breakers=None, now=0.0, deadline=None):
    chain = Chain.of(*(names or ["one"]))
    return RetrySchedule(chain, policy or RetryPolicy(), breakers, now=now, deadline=deadline)


def retry_run(schedule, outcomes, now=0.0, chance=1.0, takes=0.0):
    """Drive a course; return what was done, as names of links, seconds waited, and the end."""
    outcomes, done = iter(outcomes), []
    while True:
        step = schedule.next(now, chance)
        if isinstance(step, Wait):
            done.append(step.seconds)
            now += step.seconds
        elif isinstance(step, FinalFailure):
            return [*done, step]
        else:
            done.append(step.link.name)
            now += takes
            failure = next(outcomes)
            if failure is None:
                schedule.succeeded(now)
                return done
            schedule.failed(failure, now)


@pytest.mark.parametrize(
    ("names", "policy", "outcomes", "expected"),
    [
        pytest.param(["a"], {}, [OK], ["a"], id="a success at once"),
        pytest.param(["a"], {}, [DOWN, OK], ["a", 0.4, "a"], id="a second attempt"),
        pytest.param(["a"], {}, [DOWN, LIMITED, OK], ["a", 0.4, "a", 0.8, "a"], id="a third"),
        pytest.param(
            ["a", "b"],
            {},
            [DOWN, DOWN, DOWN, OK],
            ["a", 0.4, "a", 0.8, "a", "b"],
            id="the next link after three, without a wait",
        ),
        pytest.param(
            ["a", "b"],
            {"attempts": 1},
            [LIMITED, OK],
            ["a", "b"],
            id="the next link after one",
        ),
        pytest.param(
            ["a", "b"],
            {"attempts": 9},
            [LATE, LATE, OK],
            ["a", 0.4, "a", "b"],
            id="a time-out is retried once",
        ),
        pytest.param(
            ["a", "b"],
            {"attempts": 9},
            [DOWN, LIMITED, DOWN, DOWN, OK],
            ["a", 0.4, "a", 0.8, "a", 1.6, "a", "b"],
            id="three failures of the server, limits not counted",
        ),
        pytest.param(
            ["a", "b"], {}, [asked(61.0), OK], ["a", "b"], id="a long Retry-After: the next link"
        ),
        pytest.param(
            ["a", "b"], {}, [asked(60.0), OK], ["a", 60.4, "a"], id="a minute is waited for"
        ),
        pytest.param(
            ["a", "b"],
            {"deadline": 30.0},
            [asked(60.0), OK],
            ["a", "b"],
            id="a wait past the deadline: the next link",
        ),
    ],
)
def test_where_a_call_goes_and_how_long_it_waits(names, policy, outcomes, expected):
    done = retry_run(schedule(*names, policy=RetryPolicy(**policy)), outcomes)
    assert done == [pytest.approx(step) if isinstance(step, float) else step for step in expected]


@pytest.mark.parametrize("failure", [WRONG, TOOL], ids=["permanent", "tool"])
def test_what_no_attempt_helps_ends_at_once(failure):
    done = retry_run(schedule("a", "b"), [DOWN, failure])
    assert done[:-1] == ["a", 0.4, "a"]
    assert done[-1] == FinalFailure(failure, (("a", failure),), 2)


def test_never_waits_after_the_last_attempt():
    *before, last, failed = retry_run(schedule("a"), [LIMITED] * 3)
    assert last == "a"
    assert len(before) == 4
    assert failed == FinalFailure(LIMITED, (("a", LIMITED),), 3)


def test_the_end_of_a_chain_tells_each_reason():
    policy = RetryPolicy(attempts=2)
    failed = retry_run(schedule("a/x", "b", policy=policy), [DOWN, DOWN, DOWN, asked(90.0)])[-1]
    assert failed.reasons == (("a/x", DOWN), ("b", asked(90.0)))
    assert (failed.failure, failed.attempts, failed.retry_after) == (asked(90.0), 4, 90.0)


def test_the_end_is_the_end():
    over = schedule("a")
    failed = retry_run(over, [WRONG])[-1]
    assert over.next(0.0, 0.0) is failed
    assert over.attempts == 1


@pytest.mark.parametrize(
    ("own", "given", "ends"), [(5.0, None, 5.0), (None, 5.0, 5.0), (5.0, 3.0, 3.0), (2.0, 9.0, 2.0)]
)
def test_the_earlier_deadline_holds(own, given, ends):
    policy = RetryPolicy(deadline=own)
    assert isinstance(schedule(policy=policy, deadline=given).next(ends - 0.1, 0.5), Try)
    late = schedule(policy=policy, deadline=given).next(ends, 0.5)
    assert (late.failure.reason, late.attempts) == ("deadline", 0)


def test_an_attempt_that_outlasts_the_deadline_is_the_last():
    policy = RetryPolicy(deadline=10.0)
    failed = retry_run(schedule("a", "b", policy=policy), [DOWN, OK], takes=11.0)[-1]
    assert (failed.failure, failed.attempts) == (DOWN, 1)


def test_a_driver_that_overslept_begins_no_attempt():
    late = schedule("a", policy=RetryPolicy(deadline=10.0))
    late.next(0.0, 1.0)
    late.failed(DOWN, 1.0)
    assert isinstance(late.next(1.0, 1.0), Wait)
    assert late.next(10.0, 1.0) == FinalFailure(DOWN, (("a", DOWN),), 1)


def test_after_a_time_out_a_fresh_connection_is_asked_for():
    late = schedule("a", policy=RetryPolicy(attempts=3, timeout_attempts=3))
    fresh = []
    for failure in [LATE, DOWN, OK]:
        step = late.next(0.0, 0.0)
        step = late.next(0.0, 0.0) if isinstance(step, Wait) else step
        fresh.append(step.fresh)
        if failure:
            late.failed(failure, 0.0)
    assert fresh == [False, True, False]


class TestBreakers:
    def test_an_open_circuit_is_skipped(self):
        breakers = Breakers(threshold=1)
        retry_run(schedule("a", policy=RetryPolicy(attempts=1), breakers=breakers), [DOWN])
        assert retry_run(schedule("a", "b", breakers=breakers), [OK]) == ["b"]

    def test_a_circuit_that_opens_under_way_is_not_waited_for(self):
        breakers = Breakers(threshold=2)
        again = schedule("a", "b", breakers=breakers)
        assert retry_run(again, [DOWN, DOWN, OK]) == ["a", 0.4, "a", "b"]
        assert again.take_changes() == (CircuitChange(CircuitKey("a"), "open", 60.0),)
        assert again.take_changes() == ()

    def test_all_circuits_open_is_told_with_the_least_time_left(self):
        breakers = Breakers(threshold=1)
        once = RetryPolicy(attempts=1)
        retry_run(schedule("a", policy=once, breakers=breakers), [DOWN])
        retry_run(schedule("b", policy=once, breakers=breakers, now=20.0), [DOWN], now=20.0)
        (failed,) = retry_run(schedule("b", "a", breakers=breakers, now=30.0), [], now=30.0)
        assert failed.failure.reason == "breaker_open"
        assert failed.failure.retry_after == failed.retry_after == 30.0
        assert [(name, why.reason) for name, why in failed.reasons] == [
            ("b", "breaker_open"),
            ("a", "breaker_open"),
        ]
        assert [why.retry_after for _, why in failed.reasons] == [50.0, 30.0]
        assert failed.attempts == 0

    def test_a_failure_before_an_open_circuit_is_what_is_told(self):
        breakers = Breakers(threshold=1)
        retry_run(schedule("b", policy=RetryPolicy(attempts=1), breakers=breakers), [DOWN])
        failed = retry_run(schedule("a", "b", breakers=breakers), [asked(90.0)])[-1]
        assert failed.failure == asked(90.0)
        assert failed.retry_after == 60.0

    def test_a_probe_that_fails_is_not_retried(self):
        breakers = Breakers(threshold=1)
        retry_run(schedule("a", policy=RetryPolicy(attempts=1), breakers=breakers), [DOWN])
        probing = schedule("a", breakers=breakers, now=60.0)
        assert retry_run(probing, [DOWN], now=60.0)[:-1] == ["a"]
        states = [change.state for change in probing.take_changes()]
        assert states == ["half_open", "open"]

    def test_a_probe_that_succeeds_closes(self):
        breakers = Breakers(threshold=1)
        retry_run(schedule("a", policy=RetryPolicy(attempts=1), breakers=breakers), [DOWN])
        probing = schedule("a", breakers=breakers, now=60.0)
        assert retry_run(probing, [OK], now=60.0) == ["a"]
        assert [change.state for change in probing.take_changes()] == ["half_open", "closed"]

    def test_a_probe_that_is_another_instances_is_no_attempt_of_ours(self):
        breakers = Breakers(threshold=1)
        retry_run(schedule("a", policy=RetryPolicy(attempts=1), breakers=breakers), [DOWN])
        probing = schedule("a", "b", breakers=breakers, now=60.0)
        step = probing.next(60.0, 0.0)
        assert step.permit.is_probe
        probing.denied(60.0)
        assert probing.attempts == 0
        assert retry_run(probing, [OK], now=60.0) == ["b"]

    def test_a_cancelled_probe_makes_room_for_the_next(self):
        breakers = Breakers(threshold=1)
        retry_run(schedule("a", policy=RetryPolicy(attempts=1), breakers=breakers), [DOWN])
        cancelled = schedule("a", breakers=breakers, now=60.0)
        cancelled.next(60.0, 0.0)
        cancelled.abandoned(60.0)
        assert retry_run(schedule("a", breakers=breakers, now=60.0), [OK], now=60.0) == ["a"]

    def test_limits_of_one_credential_are_not_anothers(self):
        breakers, once = Breakers(threshold=1), RetryPolicy(attempts=1)
        mine, theirs = (Chain((Link("a", None, who),)) for who in ("mine", "theirs"))
        retry_run(RetrySchedule(mine, once, breakers, now=0.0), [LIMITED])
        assert retry_run(RetrySchedule(theirs, once, breakers, now=0.0), [OK]) == ["a"]
        assert (
            retry_run(RetrySchedule(mine, once, breakers, now=0.0, deadline=9.0), [])[
                -1
            ].retry_after
            == 60
        )


class TestLimits:
    """A credential that is left alone for its limit, at the end of a chain."""

    def limited(self, failure=LIMITED, name="a"):
        breakers = Breakers(threshold=1)
        retry_run(schedule(name, policy=RetryPolicy(attempts=1), breakers=breakers), [failure])
        return breakers

    @pytest.mark.parametrize(
        ("failure", "expected"),
        [
            pytest.param(asked(7.0), [7.4, "a"], id="as long as it named"),
            pytest.param(LIMITED, [60.4, "a"], id="a minute where it named nothing"),
            pytest.param(asked(300.0), [60.4, "a"], id="a minute where it named more"),
        ],
    )
    def test_is_waited_for(self, failure, expected):
        done = retry_run(schedule("a", breakers=self.limited(failure)), [OK])
        assert done == [pytest.approx(expected[0]), *expected[1:]]

    def test_is_waited_for_after_an_attempt_of_ones_own(self):
        breakers = Breakers(threshold=2)
        mine = schedule("a", breakers=breakers)
        mine.next(0.0, 0.0)
        for failure in [asked(30.0), asked(30.0)]:
            breakers.allow("a", "", 0.0).done(failure, 0.0)
        mine.failed(DOWN, 1.0)
        wait = mine.next(1.0, 1.0)
        assert (wait.seconds, wait.failure) == (pytest.approx(29.4), DOWN)
        assert retry_run(mine, [OK], now=1.0 + wait.seconds) == ["a"]

    def test_is_passed_by_at_once_while_there_is_another_link(self):
        assert retry_run(schedule("a", "b", breakers=self.limited()), [OK]) == ["b"]

    def test_is_waited_for_at_the_last_link_only(self):
        done = retry_run(schedule("b", "a", breakers=self.limited(asked(7.0))), [DOWN, OK])
        assert done == ["b", pytest.approx(7.4), "a"]

    def test_tells_what_is_waited_for(self):
        wait = schedule("a", breakers=self.limited(asked(7.0))).next(0.0, 0.0)
        assert (wait.failure.reason, wait.failure.retry_after) == ("breaker_open", 7.0)

    @pytest.mark.parametrize(
        ("policy", "failure"),
        [
            pytest.param({}, DOWN, id="the provider is in trouble"),
            pytest.param({}, SPENT, id="the quota is spent"),
            pytest.param({"deadline": 60.0}, LIMITED, id="the deadline is sooner"),
            pytest.param({"limit_waits": 0}, LIMITED, id="no wait is allowed"),
            pytest.param(
                {"backoff": Backoff(longest_retry_after=30.0)}, LIMITED, id="it is too long"
            ),
        ],
    )
    def test_is_not_waited_for(self, policy, failure):
        breakers = self.limited(failure)
        (failed,) = retry_run(schedule("a", policy=RetryPolicy(**policy), breakers=breakers), [])
        assert (failed.failure.reason, failed.retry_after, failed.attempts) == (
            "breaker_open",
            60.0,
            0,
        )

    def test_a_number_of_waits_that_makes_no_sense_is_refused(self):
        with pytest.raises(ConfigError, match="limit_waits is -1"):
            RetryPolicy(limit_waits=-1)

    def test_is_not_waited_for_without_end(self):
        breakers = self.limited(asked(5.0))
        assert breakers.allow("a", "", 5.0).is_probe, "and nothing is ever heard of it"
        *waits, failed = retry_run(
            schedule("a", breakers=breakers, now=5.0), [], now=5.0, chance=0.0
        )
        assert waits == [PROBE_RETRY_S] * 8
        assert (failed.failure.reason, failed.attempts) == ("breaker_open", 0)

    def test_a_probe_that_is_another_instances_is_waited_for(self):
        mine = schedule("a", breakers=self.limited(asked(5.0)), now=5.0)
        assert mine.next(5.0, 0.0).permit.is_probe
        mine.denied(5.0)
        assert mine.next(5.0, 0.0).seconds == PROBE_RETRY_S
        assert isinstance(mine.next(5.0 + PROBE_RETRY_S, 0.0), Try)


def test_another_backoff_is_used_as_it_is_set():
    policy = RetryPolicy(backoff=Backoff(base=1.0, cap=1.5))
    assert retry_run(schedule("a", policy=policy), [DOWN, DOWN, OK]) == ["a", 1.0, "a", 1.5, "a"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(DOWN, ["a", "k1", "b", "k1"], id="of the provider: its other key is no help"),
        pytest.param(LIMITED, ["a", "k1", "a", "k2"], id="of the credential: the next may do"),
    ],
)
def test_where_a_failure_leads_among_keys_of_one_provider(failure, expected):
    links = tuple(Link(name, None, key) for name in ("a", "b") for key in ("k1", "k2"))
    one = RetrySchedule(Chain(links), RetryPolicy(attempts=1), now=0.0)
    tried = []
    for outcome in (failure, OK):
        link = one.next(0.0, 0.0).link
        tried += [link.provider, link.credential]
        if outcome is not None:
            one.failed(outcome, 0.0)
    assert tried == expected


def test_another_model_of_a_provider_that_failed_is_tried():
    done = retry_run(schedule("a/x", "a/y", policy=RetryPolicy(attempts=1)), [DOWN, OK])
    assert done == ["a/x", "a/y"]
