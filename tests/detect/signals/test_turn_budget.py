"""How many calls since somebody last spoke."""

import pytest
from tests.detect.runs import Person, bash, count, says, together, trajectory
from tests.detect.signals.steps import CAT, LS, case, in_both_dialects

from looptrap.detect.signals import SIGNALS, SignalOptions


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([LS, together(LS, CAT)], 3, id="parallel calls one by one"),
        case([LS, LS, Person("And now?"), CAT], 1, id="since the last user message"),
        case([says("Hm.")], 0, id="none"),
        case([LS] * 60, 60, id="however far back"),
    ],
)
def test_turn_budget(write, steps, expected):
    assert count("turn_budget", write, steps) == expected


@in_both_dialects
def test_a_far_budget_is_counted_exactly_where_it_is_reached(write):
    look = SignalOptions(0, first=200)
    steps = [bash(f"echo {n}", f"{n}") for n in range(210)]
    assert SIGNALS["turn_budget"](look)(trajectory(write, steps)).count == 210
    assert SIGNALS["turn_budget"](look)(trajectory(write, steps[:40])) is None
