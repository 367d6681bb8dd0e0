"""The policy in the hands of tenacity, which does the looping."""

import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st
from tests.retry.failing import Answer, Fake, down, forbidden

from looptrap.retry import RetryPolicy, retrying, testing
from looptrap.retry.tenacity import retry_if_worth, stop_policy, wait_policy


def retried(fake, policy=None):
    """Return a function with tenacity's retries, and the waits that it will have made."""
    policy = policy or RetryPolicy()
    waits = []
    again = tenacity.retry(
        retry=retry_if_worth(policy),
        wait=wait_policy(policy),
        stop=stop_policy(policy),
        sleep=waits.append,
        reraise=True,
    )
    return again(fake), waits


def test_what_passes_is_tried_again():
    ask, waits = retried(Fake(down(), down()))
    with testing():
        assert ask() == "answer"
    assert waits == [0.4, 0.8]


@pytest.mark.parametrize(
    ("error", "calls"),
    [(down(), 3), (forbidden(), 1), (TimeoutError(), 2), (KeyError(), 1),
     (Answer(429, retry_after="90"), 1), (Answer(429), 3)],
    ids=["down", "forbidden", "time-out", "bug", "long Retry-After", "rate limit"],
)  # fmt: skip
def test_each_failure_gets_the_attempts_it_is_worth(error, calls):
    fake = Fake(always=error)
    ask, waits = retried(fake)
    with testing(), pytest.raises(type(error)):
        ask()
    assert (fake.calls, len(waits)) == (calls, calls - 1)


def test_retry_after_is_the_least_that_is_waited():
    ask, waits = retried(Fake(Answer(429, retry_after="7")))
    with testing(chance=0.0):
        ask()
    assert waits == [7.0]


def test_no_wait_goes_past_the_deadline():
    fake = Fake(always=Answer(429, retry_after="50"))
    ask, waits = retried(fake, RetryPolicy(deadline=40.0))
    with testing(), pytest.raises(Answer):
        ask()
    assert (fake.calls, waits) == (1, [])


def test_one_strategy_serves_many_calls():
    fake = Fake(*[TimeoutError()] * 1, answer="one")
    ask, _ = retried(fake)
    with testing():
        assert ask() == "one"
        fake._errors.append(TimeoutError())
        assert ask() == "one"
    assert fake.calls == 4


def test_inside_anothers_attempt_it_makes_one():
    fake = Fake(always=down())
    ask, _ = retried(fake)
    with testing(), pytest.raises(Answer):
        retrying(RetryPolicy()).call(ask)
    assert fake.calls == 3


ERRORS = {
    "down": down,
    "forbidden": forbidden,
    "timeout": TimeoutError,
    "limit": lambda: Answer(429),
    "wait": lambda: Answer(429, retry_after="3"),
    "long wait": lambda: Answer(429, retry_after="99"),
}


@given(
    st.lists(st.sampled_from(sorted(ERRORS)), max_size=6),
    st.builds(
        RetryPolicy,
        attempts=st.integers(1, 5),
        server_attempts=st.integers(1, 4),
        timeout_attempts=st.integers(1, 3),
    ),
)
def test_tenacity_and_our_own_loop_do_the_same(errors, policy):
    ours, theirs = (Fake(*(ERRORS[one]() for one in errors)) for _ in range(2))
    ask, waits = retried(theirs, policy)

    def outcome(call):
        try:
            return call()
        except (Answer, TimeoutError) as error:
            return str(error)

    with testing() as rehearsal:
        assert outcome(ask) == outcome(lambda: retrying(policy).call(ours))
    assert (theirs.calls, waits) == (ours.calls, rehearsal.waits)
