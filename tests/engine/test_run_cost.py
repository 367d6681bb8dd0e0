"""What a run that is remembered costs."""

import gc
import tracemalloc
import weakref

import pytest
from bench.bodies import agent_run

from looptrap import Guard
from looptrap.detect.remembered_round import MAX_REMEMBERED_ROUNDS
from looptrap.engine.run_search import MAX_FIRST_ROUNDS

T = 1_800_000_000.0


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("rounds", [1, 2, 3], ids=["new", "with one known round", "with two"])
def test_a_call_of_a_run_is_freed_at_once(rounds):
    guard = Guard.from_preset("default")
    for body in agent_run(seed=1, first=1, last=rounds):
        trajectory = weakref.ref(guard.check(body, now=T).trajectory)
    assert trajectory() is None


def grow(guard, run):
    """Play a run of its own caller and session until no more of its rounds are remembered."""
    opening = [{"role": "system", "content": "Help."}, {"role": "user", "content": f"Task {run}"}]
    rounds = []
    for turn in range(MAX_REMEMBERED_ROUNDS + MAX_FIRST_ROUNDS):
        call_id = f"call_{run:012}{turn:012}"
        function = {"name": "read_file", "arguments": f'{{"path": "part {turn} of {run}"}}'}
        call = {"id": call_id, "type": "function", "function": function}
        rounds += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": f"Lines {turn} to {turn + 1}."},
        ]
        if turn + 1 >= MAX_FIRST_ROUNDS:
            body = {"model": "m", "messages": [*opening, *rounds]}
            session = {"x-looptrap-session": f"session {run}"}
            guard.check(body, caller=f"caller {run}", headers=session, now=T + turn)


def test_a_run_of_any_length_costs_at_most_4_kb():
    runs = 60
    guard = Guard.from_preset("default")
    notes = guard.store._notes.entries
    tracemalloc.start()
    try:
        for run in range(runs):
            grow(guard, run)
        sizes = [len(note.value) for note in notes.values()]
        with_notes = tracemalloc.get_traced_memory()[0]
        notes.clear()
        taken = with_notes - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert sum(sizes) / runs < taken / runs <= 4_096
