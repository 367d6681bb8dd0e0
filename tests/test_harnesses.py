"""The default policy on runs as well-known kinds of harness produce them."""

import pytest
from tests.harness import coding, research, screen, service, shell
from tests.test_default_policy import in_both_dialects, replay

HARNESSES = (shell, coding, screen, service, research)


def of_all(name):
    return [one for harness in HARNESSES for one in getattr(harness, name)]


@in_both_dialects
@pytest.mark.parametrize("steps", of_all("QUIET"))
def test_honest_work_is_not_even_warned(write, steps):
    assert replay(write, steps, seconds=15) == (None, None)


@in_both_dialects
@pytest.mark.parametrize("steps", of_all("HONEST"))
def test_honest_work_that_looks_like_a_loop_is_not_refused(write, steps):
    _, refused = replay(write, steps, seconds=15)
    assert refused is None


@in_both_dialects
@pytest.mark.parametrize(("steps", "most"), of_all("LOOPS"))
def test_a_loop_is_refused_soon(write, steps, most):
    _, refused = replay(write, steps, seconds=15)
    assert refused is not None
    assert refused[1] <= most
