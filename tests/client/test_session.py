"""Sessions: whoever runs in the block, in whatever thread or task, is part of it; nobody else."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

import looptrap
from looptrap.client.session import current_session


def in_thread(work, kind=threading.Thread):
    """Run work on a thread of its own, and return what it returns."""
    results = []
    thread = kind(target=lambda: results.append(work()))
    thread.start()
    thread.join(5)
    return results[0]


def test_blocks_nest_and_the_innermost_counts():
    assert current_session() == ""
    with looptrap.session("outer") as name:
        assert (name, current_session()) == ("outer", "outer")
        with looptrap.session("inner"):
            assert current_session() == "inner"
            with looptrap.session(""):
                assert current_session() == ""
        assert current_session() == "outer"
    assert current_session() == ""


def test_an_exception_ends_the_block_too():
    with pytest.raises(KeyError), looptrap.session("run"):
        raise KeyError
    assert current_session() == ""


def test_a_block_is_entered_once_at_a_time():
    session = looptrap.session("run")
    with session, pytest.raises(RuntimeError, match="entered already"), session:
        pass
    with session:
        assert current_session() == "run"
    assert current_session() == ""


def test_a_thread_started_in_the_block_is_part_of_it():
    with looptrap.session("run"):
        assert in_thread(current_session) == "run"
        assert in_thread(lambda: in_thread(current_session)) == "run"
    assert in_thread(current_session) == ""


def test_a_thread_goes_on_in_its_session_when_the_block_is_over():
    go, seen = threading.Event(), []
    with looptrap.session("run"):
        thread = threading.Thread(target=lambda: (go.wait(5), seen.append(current_session())))
        thread.start()
    with looptrap.session("next"):
        go.set()
        thread.join(5)
    assert seen == ["run"]


def test_a_thread_with_a_run_of_its_own_is_part_of_it_too():
    class Worker(threading.Thread):
        def run(self):
            self.seen = current_session()

    with looptrap.session("run"):
        worker = Worker()
        worker.start()
        worker.join(5)
    assert worker.seen == "run"
    assert "run" not in vars(worker)


def test_a_thread_can_still_be_started_only_once():
    with looptrap.session("run"):
        thread = threading.Thread(target=current_session)
        thread.start()
        with pytest.raises(RuntimeError):
            thread.start()
        thread.join(5)


def test_a_pool_older_than_the_block_works_in_it():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(current_session).result() == ""
        with looptrap.session("run"):
            assert pool.submit(current_session).result() == "run"
            assert list(pool.map(lambda _: current_session(), range(3))) == ["run"] * 3
        assert pool.submit(current_session).result() == ""


def test_a_pool_whose_threads_began_in_the_block_carries_no_mark_out_of_it():
    with ThreadPoolExecutor(1) as pool:
        with looptrap.session("run"):
            assert pool.submit(current_session).result() == "run"
        assert pool.submit(current_session).result() == ""
        with looptrap.session("next"):
            assert pool.submit(current_session).result() == "next"
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda: 1 / 0).result()
        assert pool.submit(current_session).result() == ""


def test_work_that_changes_its_session_leaves_the_thread_as_it_was():
    with ThreadPoolExecutor(1) as pool:
        with looptrap.session("run"):
            pool.submit(looptrap.session("lost").__enter__).result()
        assert pool.submit(current_session).result() == ""


async def test_tasks_are_part_of_the_block_they_are_made_in():
    async def later():
        await asyncio.sleep(0)
        return current_session()

    with looptrap.session("run"):
        task = asyncio.create_task(later())
        assert await asyncio.to_thread(current_session) == "run"
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, current_session) == "run"
    assert await later() == ""
    assert await task == "run"


async def test_tasks_side_by_side_do_not_mix():
    async def run(name):
        with looptrap.session(name):
            await asyncio.sleep(0)
            first = current_session()
            return first, await asyncio.to_thread(current_session)

    names = [f"run-{number}" for number in range(20)]
    assert await asyncio.gather(*map(run, names)) == [(name, name) for name in names]


def test_only_the_session_is_carried():
    from contextvars import ContextVar

    other = ContextVar("other", default="unset")
    other.set("set")
    with looptrap.session("run"):
        assert in_thread(other.get) == "unset"


def test_leaving_in_another_context_than_one_came_in_is_no_error():
    session = looptrap.session("run")
    copy_context().run(session.__enter__)
    session.__exit__(None, None, None)
    assert current_session() == ""


def test_a_function_can_be_marked():
    @looptrap.session("run")
    def work(number):
        """Say where it runs."""
        return number, current_session()

    assert work(3) == (3, "run")
    assert (work.__name__, work.__doc__) == ("work", "Say where it runs.")
    assert current_session() == ""


async def test_a_coroutine_function_can_be_marked():
    @looptrap.session("run")
    async def work():
        await asyncio.sleep(0)
        return current_session()

    assert await asyncio.gather(work(), work()) == ["run", "run"]
    assert current_session() == ""


def numbers():
    yield 1


async def more_numbers():
    yield 1


@pytest.mark.parametrize("function", [numbers, more_numbers], ids=["generator", "async generator"])
def test_a_generator_is_refused(function):
    with pytest.raises(TypeError, match="inside it"):
        looptrap.session("run")(function)


@pytest.mark.parametrize("name", ["two\nlines", " around ", "läuft", "\x7f", 42, None])
def test_what_no_header_can_carry_is_refused(name):
    with pytest.raises(ValueError, match="printable ASCII"):
        looptrap.session(name)
