"""What a run that is remembered costs."""

import gc
import weakref

import pytest
from bench.bodies import agent_run

from looptrap import Guard

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
