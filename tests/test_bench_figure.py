"""Figures of a report, and when a later run is a regression."""

import pytest
from bench.figure import RESULTS, Figure, load, regressions
from bench.report import PAGE, keep, render


def figure(value, name="small", **more):
    return Figure(part="gateway", name=name, value=value, **more)


@pytest.mark.parametrize(
    ("before", "later", "is_worse"),
    [
        pytest.param(figure(4.0), 5.1, False, id="within what noise explains"),
        pytest.param(figure(4.0), 5.3, True, id="beyond it"),
        pytest.param(figure(4.0), 1.0, False, id="better"),
        pytest.param(figure(86.0, more_is_better=True, tolerance=0), 85.0, True, id="fewer caught"),
        pytest.param(figure(86.0, more_is_better=True, tolerance=0), 87.0, False, id="more caught"),
        pytest.param(figure(0.0, tolerance=0), 0.1, True, id="what must not happen"),
        pytest.param(figure(4.0, is_compared=False), 9.0, False, id="not ours to compare"),
    ],
)
def test_a_later_run_is_a_regression_where_noise_does_not_explain_it(before, later, is_worse):
    assert bool(regressions([before], [figure(later)])) is is_worse


def test_figures_of_one_run_only_say_nothing():
    assert regressions([figure(1.0, "old")], [figure(9.0, "new")]) == []


def test_parts_that_were_not_measured_again_stay():
    old = Figure(part="storm", name="lost", value=1.0)
    assert keep([old, figure(4.0)], [figure(5.0)]) == [old, figure(5.0)]


def test_the_page_shows_the_figures_that_are_committed():
    assert render(load(RESULTS)) == PAGE.read_text("utf-8")
