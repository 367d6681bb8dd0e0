"""Pacing: work that takes long gets a share of the time, and callers get it in turn."""

import asyncio

import pytest

from looptrap.gateway.slow_body import FREE_WORK_S, MAX_WAITING_REQUESTS, REST_RATIO, Pacer


class Clock:
    """A clock that goes on as work is done, or as somebody waits."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def done():
    return []


@pytest.fixture
def pacer(clock):
    return Pacer(clock)


@pytest.fixture
def work(clock, done):
    """Return some work that takes a second of the clock's time."""

    def make(name, seconds=1.0):
        def do():
            clock.now += seconds
            done.append(name)

        return do

    return make


async def test_the_first_is_done_at_once_and_the_next_after_a_rest(pacer, clock, work, done):
    pacer.submit("a", work("first"))
    pacer.submit("a", work("second"))
    assert done == ["first"]
    clock.now += REST_RATIO
    pacer.submit("a", work("third"))
    assert done == ["first"]  # nobody overtakes what waits
    pacer.finish()
    assert done == ["first", "second", "third"]


async def test_callers_take_turns(pacer, work, done):
    pacer.submit("a", work("begin"))
    for number in range(3):
        pacer.submit("a", work(f"a{number}"))
    pacer.submit("b", work("b0"))
    pacer.finish()
    assert done == ["begin", "a0", "b0", "a1", "a2"]


async def test_what_takes_as_long_as_any_request_never_waits(pacer, work, done):
    for number in range(5):
        pacer.submit("a", work(number, seconds=FREE_WORK_S / 2))
    assert done == [0, 1, 2, 3, 4]


async def test_what_waits_is_done_when_its_time_has_come(pacer, work):
    over = asyncio.get_running_loop().create_future()
    pacer.submit("a", work("first", seconds=2 * FREE_WORK_S))
    pacer.submit("a", lambda: over.set_result(None))
    assert not over.done()
    await asyncio.wait_for(over, 5)


async def test_no_more_than_so_many_wait(pacer, work):
    pacer.submit("a", work("first"))
    for number in range(MAX_WAITING_REQUESTS):
        assert not pacer.is_full
        pacer.submit(str(number), work(number))
    assert pacer.is_full
    pacer.finish()
    assert not pacer.is_full
