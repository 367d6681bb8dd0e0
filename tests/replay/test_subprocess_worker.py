"""Aside: work in a process of its own, bounded in time, gone when nobody waits for it."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.replay.capturing import Capturing
from tests.replay.recorded import stuck

from looptrap.errors import CallError
from looptrap.policy import preset
from looptrap.replay import try_it, what_if
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.subprocess_worker import run_in_subprocess

RULES = Ruleset(policies=preset.load("default")).plain()


def children():
    """Return the processes that this one has begun."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {one for task in tasks for one in task.read_text().split()}


async def test_a_text_is_tried():
    question = try_it.TryItRequest(text=json.dumps(stuck(6)), rules=RULES)
    told = await run_in_subprocess("try", question, PATIENCE)
    assert told["verdict"]["action"] == "block"
    assert len(told["steps"]) == 7


async def test_a_capture_is_compared(tmp_path):
    capture = Capturing(tmp_path / "calls")
    capture.run(stuck(6))
    question = what_if.WhatIfRequest(folder=str(capture.folder), now=RULES, then=RULES)
    told = await run_in_subprocess("what-if", question, PATIENCE)
    assert (told["calls"], told["now"], told["changed"]) == (7, told["then"], [])


async def test_no_answer_is_an_answer(tmp_path):
    question = what_if.WhatIfRequest(folder=str(tmp_path), now=RULES, then=RULES)
    assert await run_in_subprocess("what-if", question, PATIENCE) is None


async def test_what_cannot_be_read_is_told():
    with pytest.raises(CallError, match="not JSON"):
        await run_in_subprocess("try", try_it.TryItRequest(text="{", rules=RULES), PATIENCE)


async def test_a_process_that_fails_tells_nothing():
    with pytest.raises(ChildProcessError, match="status 1"):
        await run_in_subprocess(
            "try", try_it.TryItRequest(text=json.dumps(stuck(1)), rules={"rules": 1}), PATIENCE
        )


async def test_what_takes_too_long_is_ended():
    before = children()
    question = try_it.TryItRequest(text=json.dumps(stuck(6)), rules=RULES)
    with pytest.raises(TimeoutError):
        await run_in_subprocess("try", question, 0.01)
    assert children() == before


async def test_who_is_cancelled_takes_the_process_along():
    before = children()
    question = try_it.TryItRequest(text=json.dumps(stuck(6)), rules=RULES)
    working = asyncio.create_task(run_in_subprocess("try", question, PATIENCE))
    async with asyncio.timeout(PATIENCE):
        while children() == before:
            await asyncio.sleep(0.001)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert children() == before
