"""Agents whose history the provider keeps, judged in their own process."""

import pytest
from tests.client.kept_history import READ, run
from tests.client.vendors import WAY

import looptrap

both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.mark.parametrize("name", ["responses", "responses, async"])
@both_ways
async def test_an_agent_that_repeats_its_call_is_refused(provider, guarded, name, stream):
    provider._script = [READ]
    answers, error = await run(guarded(WAY[name]), stream=stream)
    assert isinstance(error, looptrap.LoopDetectedError)
    assert (answers, error.rule) == (5, "no-progress")
    assert error.evidence[0].what == (
        "read_file with the same arguments and result, 5 times in 5 rounds;"
        " the provider keeps the history"
    )


@both_ways
async def test_an_agent_that_gets_on_is_not(provider, guarded, stream):
    provider._script = [READ]
    answers, error = await run(
        guarded(WAY["responses"]), stream=stream, result=lambda number: f"page {number}: {number}th"
    )
    assert (answers, error) == (12, None)
