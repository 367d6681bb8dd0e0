"""Children: replaced when they end, given up when they cannot start, ended when told."""

import asyncio
import os
import signal
import sys

import pytest
from tests.patience import PATIENCE

from looptrap.errors import ConfigError
from looptrap.workers import supervised_process
from looptrap.workers.supervised_process import MAX_FAILED_STARTS, SupervisedProcess

ENDS = "raise SystemExit(3)"
WAITS = "import time; time.sleep(60)"
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print(); time.sleep(60)"


class Program(SupervisedProcess):
    """A child that runs some Python and is up when it has said a line, if it says one."""

    name = "program"

    def __init__(self, code, **options):
        super().__init__(**options)
        self.code = code

    async def _spawn(self):
        flags = ("-I", "-S", "-u", "-c", self.code)
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(sys.executable, *flags, stdout=pipe)

    async def _supervise(self):
        if await self._process.stdout.readline():
            self._set_ready()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(supervised_process, "FIRST_DELAY_S", 0.0)


async def test_what_never_comes_up_is_given_up_in_words():
    ends = []
    child = Program(ENDS, on_end=lambda: ends.append(1))
    child.start()
    with pytest.raises(
        ConfigError, match=rf"program \d+ ended with status 3, {MAX_FAILED_STARTS} times"
    ):
        await asyncio.wait_for(child.first_ready, PATIENCE)
    assert len(ends) >= MAX_FAILED_STARTS - 1
    await child.stop(PATIENCE)


async def test_what_cannot_be_run_at_all_is_given_up_in_words(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    child = Program(ENDS)
    child.start()
    with pytest.raises(ConfigError, match="program cannot be started: no such file"):
        await asyncio.wait_for(child.first_ready, PATIENCE)
    await child.stop(PATIENCE)


async def test_what_was_up_is_replaced_as_often_as_it_ends():
    ended = asyncio.Queue()
    child = Program(f"print('up'); {WAITS}", on_end=lambda: ended.put_nowait(child.ready.is_set()))
    child.start()
    try:
        for restarts in range(1, MAX_FAILED_STARTS + 3):
            await asyncio.wait_for(child.ready.wait(), PATIENCE)
            assert child.failed_starts == 0
            os.kill(child.pid, signal.SIGKILL)
            assert not await asyncio.wait_for(ended.get(), PATIENCE)
            assert child.restarts == restarts
    finally:
        await child.stop(PATIENCE)


async def test_a_child_that_was_told_to_stop_is_not_replaced(caplog):
    child = Program(f"print('up'); {WAITS}")
    child.start()
    await asyncio.wait_for(child.first_ready, PATIENCE)
    await child.stop(PATIENCE)
    assert (child.pid, child.restarts, caplog.messages) == (None, 0, [])


async def test_a_child_that_does_not_listen_is_killed(caplog):
    child = Program(DEAF)
    child.start()
    await asyncio.wait_for(child.first_ready, PATIENCE)
    await child.stop(0.05)
    assert child.pid is None
    assert "did not stop in time and was killed" in caplog.text
