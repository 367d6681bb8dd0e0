"""Laws of courses and breakers together, over random faults in simulated time."""

from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from looptrap.retry.breaker import Breakers, CircuitKey
from looptrap.retry.failure import Failure
from looptrap.retry.policy import Chain, Link, RetryPolicy
from looptrap.retry.schedule import FinalFailure, RetrySchedule, Try, Wait

OPEN_FOR = 60.0

FAILURES = st.one_of(
    st.builds(Failure, st.just("server"), st.just("http_503"), trips=st.just("provider")),
    st.builds(
        Failure,
        st.just("server"),
        st.just("timeout"),
        is_timeout=st.just(True),
        trips=st.just("provider"),
    ),
    st.builds(
        Failure,
        st.just("rate_limit"),
        st.just("rate_limited"),
        retry_after=st.none() | st.floats(0, 200),
        trips=st.sampled_from(["provider", "credential"]),
    ),
    st.builds(Failure, st.sampled_from(["permanent", "tool"]), st.just("no")),
)
OUTCOMES = st.one_of(st.none(), FAILURES, FAILURES)
POLICIES = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 5),
    server_attempts=st.integers(1, 4),
    timeout_attempts=st.integers(1, 3),
    limit_waits=st.integers(0, 8),
    deadline=st.none() | st.floats(0.1, 200),
)
CHAINS = st.lists(
    st.builds(Link, st.sampled_from("ab"), st.just(None), st.sampled_from(["x", "y"])),
    min_size=1,
    max_size=3,
).map(lambda links: Chain(tuple(links)))


@given(st.data())
def test_one_call_keeps_every_limit(data):
    policy, chain = data.draw(POLICIES), data.draw(CHAINS)
    breakers = data.draw(st.none() | st.builds(Breakers, threshold=st.integers(1, 3)))
    ends = float("inf") if policy.deadline is None else policy.deadline
    schedule, now, failed_at, waits = RetrySchedule(chain, policy, breakers, now=0.0), 0.0, [], 0
    others = data.draw(st.lists(st.sampled_from(chain.links), max_size=3))
    for link in others if breakers else ():
        permit = breakers.allow(link.provider, link.credential, now)
        if permit is not None and data.draw(st.booleans()):
            permit.done(data.draw(FAILURES), now)
    while True:
        step = schedule.next(now, data.draw(st.floats(0, 1)))
        if isinstance(step, FinalFailure):
            break
        if isinstance(step, Wait):
            waits += 1
            check_wait(step, policy, now, ends)
            now += step.seconds
            continue
        assert now < ends
        failure = data.draw(OUTCOMES)
        now += data.draw(st.floats(0, 5))
        if failure is None:
            schedule.succeeded(now)
            break
        failed_at.append((step.attempt, failure))
        schedule.failed(failure, now)
    assert waits <= schedule.attempts + policy.limit_waits
    check_attempts([failure for _, failure in failed_at], chain, policy, schedule)
    check_links(failed_at, policy)


def check_wait(wait, policy, now, ends):
    backoff, asked = policy.backoff, wait.failure.retry_after or 0.0
    assert wait.failure.is_retryable, "what is permanent is never waited for"
    longest = backoff.longest_retry_after + backoff.base
    assert asked <= wait.seconds <= longest + 1e-9
    assert now + wait.seconds < ends


def check_attempts(failures, chain, policy, schedule):
    assert len(failures) <= schedule.attempts <= policy.attempts * len(chain.links)
    assert all(failure.is_retryable for failure in failures[:-1]), "permanent is never retried"


def check_links(failed_at, policy):
    """An attempt numbered 1 is the first at another link."""
    links = []
    for attempt, failure in failed_at:
        links += [[]] if attempt == 1 else []
        links[-1].append(failure)
    for failures in links:
        assert len(failures) <= policy.attempts
        assert sum(failure.bucket == "server" for failure in failures) <= policy.server_attempts
        assert sum(failure.is_timeout for failure in failures) <= policy.timeout_attempts


LINKS = [Link(provider, None, credential) for provider in "ab" for credential in "xy"]
SOME_CHAINS = [Chain((link,)) for link in LINKS] + [Chain((LINKS[0], LINKS[2]))]
SOME_OUTCOMES = [
    None,
    Failure("server", "http_503", trips="provider"),
    Failure("rate_limit", "rate_limited", trips="credential"),
    Failure("rate_limit", "rate_limited", retry_after=9.0, trips="credential"),
    Failure("permanent", "insufficient_quota", trips="credential"),
    Failure("permanent", "http_400"),
]
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["call", "call", "end", "end", "cancel", "lose", "pass"]),
        st.integers(0, 50),
        st.sampled_from(SOME_CHAINS),
        st.sampled_from(SOME_OUTCOMES),
    ),
    max_size=60,
)
"""What happens, to which of the calls under way or for how many seconds, and how it ends."""


@given(ACTS, st.integers(1, 2))
def test_many_calls_at_once_make_one_probe_and_no_circuit_sticks(acts, threshold):
    breakers, now = Breakers(threshold, OPEN_FOR), 0.0
    flying, probes = [], {}
    for act, number, chain, outcome in acts:
        if act == "pass":
            now += number
        elif act == "call":
            schedule = RetrySchedule(chain, RetryPolicy(), breakers, now=now)
            step = schedule.next(now, 0.5)
            if isinstance(step, FinalFailure):
                assert 0 < step.retry_after <= OPEN_FOR
                continue
            if isinstance(step, Wait):
                assert 0 < step.failure.retry_after <= step.seconds <= OPEN_FOR + 0.2
                continue
            flying.append((schedule, step.permit))
            for key in step.permit.probed:
                _, until = probes.get(key, (None, now))
                assert until <= now, "a second probe of one circuit"
                probes[key] = (step.permit, now + OPEN_FOR)
        elif flying:
            schedule, permit = flying.pop(number % len(flying))
            if act == "lose":
                continue
            if act == "cancel":
                schedule.abandoned(now)
            elif outcome is None:
                schedule.succeeded(now)
            else:
                schedule.failed(outcome, now)
            probes = {key: out for key, out in probes.items() if out[0] is not permit}
    for provider in "ab":
        for credential in "xy":
            permit = breakers.allow(provider, credential, now + 2 * OPEN_FOR)
            assert permit is not None
            permit.abandon(now + 2 * OPEN_FOR)


@given(st.lists(OUTCOMES, max_size=20))
def test_late_outcomes_from_before_a_trip_change_nothing(outcomes):
    breakers = Breakers(threshold=1)
    late = [breakers.allow("a", "x", 0.0) for _ in outcomes]
    down = Failure("server", "http_503", trips="provider")
    breakers.allow("a", "y", 0.0).done(down, 0.0)
    for permit, outcome in zip(late, outcomes, strict=True):
        changes = permit.done(outcome, 30.0)
        assert CircuitKey("a") not in [change.key for change in changes]
    assert breakers.state(CircuitKey("a"), 30.0) == "open"
    assert breakers.retry_after("a", "y", 30.0) == 30.0


@given(
    st.lists(st.integers(0, 1000).map(lambda n: n / 1000), min_size=2, max_size=20, unique=True),
    st.none() | st.floats(0, 60),
)
def test_callers_that_wait_for_a_limit_come_back_at_moments_of_their_own(chances, asked):
    breakers, chain = Breakers(threshold=1), Chain((Link("a", None, "x"),))
    limited = Failure("rate_limit", "rate_limited", retry_after=asked, trips="credential")
    breakers.allow("a", "x", 0.0).done(limited, 0.0)
    left = breakers.retry_after("a", "x", 0.0)
    courses = [RetrySchedule(chain, RetryPolicy(), breakers, now=0.0) for _ in chances]
    waits = [
        schedule.next(0.0, chance).seconds
        for schedule, chance in zip(courses, chances, strict=True)
    ]
    assert len(set(waits)) == len(chances)
    assert left <= min(waits) <= max(waits) <= left + RetryPolicy().backoff.base


@given(st.integers(2, 30), st.randoms(use_true_random=False), st.floats(0.1, 6.9))
def test_all_who_wait_for_a_limit_are_served_after_one_probe(callers, random, takes):
    """Even without jitter the waits outlast a probe of seven seconds."""
    breakers, chain = Breakers(threshold=1), Chain((Link("a", None, "x"),))
    limited = Failure("rate_limit", "rate_limited", retry_after=5.0, trips="credential")
    breakers.allow("a", "x", 0.0).done(limited, 0.0)
    heap = [
        (0.0, n, RetrySchedule(chain, RetryPolicy(), breakers, now=0.0), 0) for n in range(callers)
    ]
    began, served = [], 0
    while heap:
        now, n, schedule, is_out = heappop(heap)
        if is_out:
            schedule.succeeded(now)
            served += 1
            continue
        step = schedule.next(now, random.random())
        if isinstance(step, Wait):
            heappush(heap, (now + step.seconds, n, schedule, 0))
        elif isinstance(step, Try):
            began.append(now)
            heappush(heap, (now + takes, n, schedule, 1))
    assert began[0] >= 5.0
    assert all(moment >= began[0] + takes for moment in began[1:]), "one probe"
    assert served == callers
