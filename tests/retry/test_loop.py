"""Streams: tried again until something comes, and never replayed after that."""

import asyncio
from contextlib import aclosing

import pytest
from tests.retry.failing import Answer, Fake, down, forbidden

from looptrap.errors import GiveUp
from looptrap.retry import Breakers, RetryPolicy, Turn, call, retrying, testing


class Source:
    """Streams that fail after so many items, one after the other; the last one is whole."""

    def __init__(self, *fail_after, error=None):
        self._fail_after = list(fail_after)
        self._error = error or down()
        self.opened = self.closed = 0

    def items(self):
        self.opened += 1
        fail_after = self._fail_after.pop(0) if self._fail_after else None
        try:
            for number in range(4):
                if number == fail_after:
                    raise self._error
                yield number
        finally:
            self.closed += 1
        return "usage"

    async def items_async(self):
        for item in self.items():
            await asyncio.sleep(0)
            yield item


def read(source, **options):
    """Return what came, and the error that ended it."""
    got = []
    try:
        for item in retrying(RetryPolicy(), **options).call(source.items):
            got.append(item)  # noqa: PERF402 - what came before an error counts
    except Answer as error:
        return got, error
    return got, None


def read_async(source, **options):
    async def main():
        got = []
        try:
            async for item in retrying(RetryPolicy(), **options).call(source.items_async):
                got.append(item)  # noqa: PERF401
        except Answer as error:
            return got, error
        return got, None

    return asyncio.run(main())


both = pytest.mark.parametrize("way", [read, read_async], ids=["sync", "async"])


@both
def test_a_stream_that_fails_before_its_first_item_is_opened_again(way):
    source = Source(0, 0)
    with testing() as rehearsal:
        assert way(source) == ([0, 1, 2, 3], None)
    assert (source.opened, rehearsal.waits) == (3, [0.4, 0.8])


@both
@pytest.mark.parametrize("after", [1, 3])
def test_a_stream_that_fails_later_is_never_replayed(way, after):
    source = Source(after)
    with testing():
        got, error = way(source)
    assert got == list(range(after))
    assert source.opened == 1
    assert error.__notes__ == [
        "looptrap: not tried again, since a part of the stream had been delivered"
    ]


@both
def test_a_stream_that_never_begins_ends_with_its_error(way):
    source = Source(0, 0, 0)
    with testing():
        got, error = way(source)
    assert (got, str(error), source.opened) == ([], "status 503", 3)


@both
def test_a_permanent_error_opens_no_other_stream(way):
    source = Source(0, error=forbidden())
    with testing():
        way(source)
    assert source.opened == 1


@both
def test_a_stream_that_breaks_off_counts_against_the_circuit(way):
    breakers = Breakers(threshold=1)
    source = Source(2)
    with testing():
        way(source, breakers=breakers)
    assert breakers.retry_after("Source.items", "", 0.0) or breakers.retry_after(
        "Source.items_async", "", 0.0
    )


def test_the_generators_return_value_is_kept():
    returned = []

    def outer():
        returned.append((yield from call(Source().items)))

    assert list(outer()) == [0, 1, 2, 3]
    assert returned == ["usage"]


def test_between_items_a_listener_owns_its_own_retries():
    calls = []

    def flaky():
        calls.append(1)
        if len(calls) == 1:
            raise down()

    with testing():
        for _item in call(Source().items):
            if not calls:
                call(flaky)
    assert len(calls) == 2


def test_a_listener_that_stops_closes_the_stream():
    source = Source()
    items = call(source.items)
    next(items)
    items.close()
    assert (source.opened, source.closed) == (1, 1)


async def test_a_listener_that_stops_closes_the_asynchronous_stream():
    closed = asyncio.Event()

    @retrying
    async def forever():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    async with aclosing(forever()) as items:
        async for _item in items:
            break
    assert closed.is_set()


def test_a_listeners_own_error_is_no_failure_of_the_stream():
    breakers = Breakers(threshold=1)

    def listen():
        for _item in retrying(RetryPolicy(), breakers=breakers).call(Source().items):
            raise KeyError

    with pytest.raises(KeyError):
        listen()
    assert breakers.retry_after("Source.items", "", 0.0) == 0


def test_a_stream_is_one_step_of_a_turn():
    with testing(), Turn() as turn:
        assert list(turn.call(Source(0).items)) == [0, 1, 2, 3]
        assert turn.step == 1


def test_a_stream_that_breaks_off_ends_the_turn():
    got = []

    def listen():
        with Turn() as turn:
            for item in turn.call(Source(2).items):
                got.append(item)  # noqa: PERF402

    with testing(), pytest.raises(GiveUp) as raised:
        listen()
    assert (got, raised.value.marker.reason) == ([0, 1], "http_503")
    assert raised.value.marker.attempts == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_inside_a_stream_retries_are_the_streams(is_async):
    leaf = Fake(always=down())

    @retrying
    def items():
        yield call(leaf)

    @retrying
    async def items_async():
        yield call(leaf)

    with testing(), pytest.raises(Answer):
        await anext(items_async()) if is_async else next(items())
    assert leaf.calls == 3
