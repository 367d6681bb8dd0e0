"""Retrying as people write it: decorator, call, loop; sync and async; without waiting."""

import asyncio
import inspect
import subprocess
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.retry.failing import Answer, Fake, down, forbidden

from looptrap.errors import AllProvidersFailed
from looptrap.retry import Breakers, Chain, Failure, RetryPolicy, attempts, call, retrying, testing
from looptrap.retry.classify import Classifiers
from looptrap.retry.timing import Timing

POLICY = RetryPolicy()
CHAIN = Chain.of("anthropic/opus", "openai/codex", "google")


def decorated(fake, policy=POLICY, **options):
    @retrying(policy, **options)
    def ask(*args):
        return fake(*args)

    return ask()


def decorated_async(fake, policy=POLICY, **options):
    @retrying(policy, **options)
    async def ask(*args):
        return fake(*args)

    return asyncio.run(ask())


def called(fake, policy=POLICY, **options):
    return retrying(policy, **options).call(fake)


def called_async(fake, policy=POLICY, **options):
    async def main():
        return await retrying(policy, **options).call(fake.later)

    return asyncio.run(main())


def wrapped_async(fake, policy=POLICY, **options):
    """Call an ordinary function that returns a coroutine, as clients' decorators make them."""

    async def main():
        return await retrying(policy, **options).call(lambda *args: fake.later(*args))

    return asyncio.run(main())


def looped(fake, policy=POLICY, **options):
    for attempt in attempts(policy, **options):
        with attempt:
            answer = fake() if attempt.link is None else fake(attempt.link)
    return answer


def looped_async(fake, policy=POLICY, **options):
    async def main():
        async for attempt in attempts(policy, **options):
            with attempt:
                answer = fake() if attempt.link is None else fake(attempt.link)
        return answer

    return asyncio.run(main())


WAYS = [decorated, decorated_async, called, called_async, wrapped_async, looped, looped_async]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@every_way
class TestEveryWay:
    def test_a_first_success_is_the_answer(self, way):
        fake = Fake()
        with testing() as rehearsal:
            assert way(fake) == "answer"
        assert (fake.calls, rehearsal.waits) == (1, [])

    def test_what_passes_is_tried_again_with_growing_waits(self, way):
        fake = Fake(down(), down())
        with testing() as rehearsal:
            assert way(fake) == "answer"
        assert (fake.calls, rehearsal.waits) == (3, [0.4, 0.8])

    def test_the_last_error_is_raised_and_not_waited_for(self, way):
        errors = [down(), down(), down()]
        fake = Fake(*errors)
        with testing() as rehearsal, pytest.raises(Answer) as raised:
            way(fake)
        assert raised.value is errors[-1]
        assert (fake.calls, rehearsal.waits) == (3, [0.4, 0.8])

    @pytest.mark.parametrize(
        "error",
        [
            forbidden(),
            Answer(400),
            KeyError("a bug"),
            subprocess.CalledProcessError(2, "make"),
        ],
        ids=["forbidden", "bad request", "bug", "tool"],
    )
    def test_what_no_retry_helps_against_is_raised_at_once(self, way, error):
        fake = Fake(error)
        with testing() as rehearsal, pytest.raises(type(error)):
            way(fake)
        assert (fake.calls, rehearsal.waits) == (1, [])

    def test_a_time_out_is_tried_again_once(self, way):
        fake = Fake(always=TimeoutError())
        with testing(), pytest.raises(TimeoutError):
            way(fake)
        assert fake.calls == 2

    def test_retry_after_is_the_least_that_is_waited(self, way):
        fake = Fake(Answer(429, retry_after="7"))
        with testing(chance=0.0) as rehearsal:
            way(fake)
        assert rehearsal.waits == [7.0]

    def test_a_retry_after_beyond_a_minute_ends_it(self, way):
        fake = Fake(Answer(429, retry_after="90"))
        with testing() as rehearsal, pytest.raises(Answer):
            way(fake)
        assert (fake.calls, rehearsal.waits) == (1, [])

    def test_an_open_circuit_is_not_asked(self, way):
        breakers = Breakers(threshold=3)
        fake = Fake(always=down())
        with testing(), pytest.raises(Answer):
            way(fake, breakers=breakers)
        with testing(), pytest.raises(AllProvidersFailed, match="breaker_open") as raised:
            way(fake, breakers=breakers)
        assert fake.calls == 3
        assert raised.value.retry_after > 0

    def test_a_chain_goes_on_where_a_link_fails(self, way):
        fake = Fake(down(), down(), down())
        with testing():
            assert way(fake, chain=CHAIN) == "answer"
        links = [args[0].name for args, _ in fake.got]
        assert links == ["anthropic/opus"] * 3 + ["openai/codex"]

    def test_a_chain_ends_with_every_reason(self, way):
        fake = Fake(always=down())
        with testing(), pytest.raises(AllProvidersFailed) as raised:
            way(fake, chain=CHAIN)
        reasons = [(name, failure.reason) for name, failure in raised.value.reasons]
        assert reasons == [
            ("anthropic/opus", "http_503"),
            ("openai/codex", "http_503"),
            ("google", "http_503"),
        ]
        assert fake.calls == 9

    def test_a_permanent_error_does_not_fail_over(self, way):
        fake = Fake(always=forbidden())
        with testing(), pytest.raises(Answer, match="403"):
            way(fake, chain=CHAIN)
        assert fake.calls == 1


FAULTS = {
    "down": down,
    "forbidden": forbidden,
    "time-out": TimeoutError,
    "limit": lambda: Answer(429, retry_after="3"),
    "long limit": lambda: Answer(429, retry_after="99"),
    "reset": ConnectionResetError,
}


@given(
    faults=st.lists(st.sampled_from(sorted(FAULTS)), max_size=12),
    links=st.integers(1, 3),
    attempts=st.integers(1, 4),
    deadline=st.none() | st.floats(0.1, 30),
)
def test_all_ways_do_the_same_within_the_limits(faults, links, attempts, deadline):
    chain = Chain.of(*["anthropic", "openai", "google"][:links])
    policy = RetryPolicy(attempts=attempts, deadline=deadline)

    def outcome(way):
        fake = Fake(*(FAULTS[fault]() for fault in faults))
        with testing() as rehearsal:
            try:
                said = way(fake, policy=policy, chain=chain)
            except (Answer, AllProvidersFailed, OSError) as error:
                said = str(error)
        return said, fake.calls, rehearsal.waits

    said, calls, waits = outcome(called)
    assert calls <= attempts * links
    assert len(waits) < max(calls, 1)
    assert sum(waits) < (deadline or inf)
    for way in (called_async, wrapped_async, looped, looped_async):
        assert outcome(way) == (said, calls, waits)


def test_waits_and_chance_can_be_handed_in():
    waits = []
    timing = Timing(clock=lambda: sum(waits), sleep=waits.append, chance=lambda: 0.5)
    assert retrying(POLICY, timing=timing).call(Fake(down(), down())) == "answer"
    assert waits == [0.2, 0.4]


def test_no_wait_goes_past_the_deadline():
    fake = Fake(always=down())
    with testing() as rehearsal, pytest.raises(Answer):
        retrying(RetryPolicy(attempts=9, server_attempts=9, deadline=2.0)).call(fake)
    assert sum(rehearsal.waits) < 2.0
    assert fake.calls == len(rehearsal.waits) + 1


async def test_an_asynchronous_call_is_cut_at_the_deadline():
    breakers = Breakers(threshold=1)

    @retrying(RetryPolicy(deadline=0.01), breakers=breakers)
    async def hang(how_long=20):
        await asyncio.sleep(how_long)

    with pytest.raises(TimeoutError, match="deadline"):
        await hang()
    await hang(0)  # our own haste was not held against the provider


async def test_a_time_out_of_the_call_itself_is_a_failure():
    breakers = Breakers(threshold=1)
    hang = retrying(RetryPolicy(attempts=1), breakers=breakers)(Fake(always=TimeoutError()).later)
    with pytest.raises(TimeoutError):
        await hang()
    with pytest.raises(AllProvidersFailed):
        await hang()


async def test_the_deadline_of_an_inner_call_is_a_time_out_to_its_owner():
    fake = Fake()

    @retrying(RetryPolicy(deadline=0.01))
    async def hang():
        fake()
        await asyncio.Event().wait()

    with testing(chance=0.0), pytest.raises(TimeoutError):
        await call(hang)
    assert fake.calls == 2


async def test_a_cancelled_call_is_neither_retried_nor_held_against_the_provider():
    breakers = Breakers(threshold=1)
    begun = asyncio.Event()
    fake = Fake()

    @retrying(POLICY, breakers=breakers)
    async def ask():
        fake()
        begun.set()
        if fake.calls == 1:
            await asyncio.Event().wait()
        return "answer"

    task = asyncio.create_task(ask())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fake.calls == 1
    assert await ask() == "answer"


def test_bare_it_has_the_default_policy():
    fake = Fake(down(), down())

    @retrying
    def ask():
        """Ask."""
        return fake()

    with testing():
        assert ask() == "answer"
    assert (ask.__name__, ask.__doc__) == ("ask", "Ask.")


def test_call_has_the_default_policy():
    fake = Fake(down(), down())
    with testing():
        assert call(fake, 1, key="value") == "answer"
    assert fake.got[-1] == ((1,), {"key": "value"})


def test_functions_stay_of_their_kind():
    @retrying
    def plain():
        return 1

    @retrying
    async def coroutine():
        return 1

    @retrying
    def items():
        yield 1

    @retrying
    async def items_async():
        yield 1

    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(items)
    assert inspect.isasyncgenfunction(items_async)
    assert not inspect.iscoroutinefunction(plain)


def test_methods_can_be_decorated():
    class Client:
        def __init__(self):
            self.fake = Fake(down())

        @retrying
        def ask(self, question):
            return question, self.fake()

    with testing():
        assert Client().ask("who?") == ("who?", "answer")


def test_own_classifiers_decide_first():
    flaky = Failure("server", "flaky")
    own = Classifiers().before(lambda error: flaky if isinstance(error, KeyError) else None)
    policy = RetryPolicy(classifiers=own)
    fake = Fake(KeyError("flaky"))
    with testing():
        assert retrying(policy).call(fake) == "answer"
    assert fake.calls == 2


def test_a_loop_that_does_not_use_its_attempt_is_told_so():
    with pytest.raises(RuntimeError, match="with attempt:"):
        for _attempt in attempts(POLICY):
            pass


def test_a_loop_may_be_left():
    breakers = Breakers(threshold=1)
    for attempt in attempts(POLICY, breakers=breakers):
        with attempt:
            break
    assert attempt.is_over


def test_a_decorated_function_starts_anew_each_time():
    fake = Fake(always=down())
    ask = retrying(POLICY)(fake)
    for _ in range(2):
        with testing(), pytest.raises(Answer):
            ask()
    assert fake.calls == 6
