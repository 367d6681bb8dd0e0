"""The test mode: nothing is waited for, everything is recorded, nobody else is touched."""

import asyncio
import threading
import time

from tests.retry.failing import Fake, down

from looptrap.retry import call, testing
from looptrap.retry.timing import current_timing


def test_an_hour_of_waits_takes_no_time():
    begun = time.monotonic()
    with testing() as rehearsal:
        rehearsal.timing.sleep(3600)
        assert current_timing().clock() == 3600
    assert time.monotonic() - begun < 60
    assert rehearsal.waits == [3600]


def test_chance_can_be_chosen():
    with testing(chance=0.25) as rehearsal:
        call(Fake(down(), down()))
    assert rehearsal.waits == [0.1, 0.2]


def test_it_ends_with_its_context():
    real = current_timing()
    with testing():
        assert current_timing() is not real
    assert current_timing() is real


def test_another_thread_stays_in_real_time():
    found = []
    with testing():
        thread = threading.Thread(target=lambda: found.append(current_timing().sleep))
        thread.start()
        thread.join()
    assert found == [time.sleep]


async def test_two_tasks_rehearse_apart():
    async def one(error_count):
        with testing() as rehearsal:
            await call(Fake(*(down() for _ in range(error_count))).later)
        return rehearsal.waits

    assert await asyncio.gather(one(1), one(2)) == [[0.4], [0.4, 0.8]]
