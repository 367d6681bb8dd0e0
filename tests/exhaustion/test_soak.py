"""Refusals, very many of them: what they held is free again."""

import pytest
from bench import soak
from bench.watch import MB, Holding


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "size"),
    [
        pytest.param(number, size, id=f"{number:,} of {size:,} bytes")
        for number, size in soak.REFUSALS
    ],
)
def test_memory_is_flat_over_refusals(number, size):
    found = soak.refused(number, size)
    assert soak.outgrown(found) == [], soak.render(found, number // 10)


def test_a_few_large_refusals_leave_nothing_behind():
    found = soak.refused(100, 1_000_000)
    assert soak.outgrown(found) == [], soak.render(found, 10)


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        pytest.param([70, 90, 91, 104], [], id="flat after the first"),
        pytest.param([70, 90, 91, 106], ["memory grew by 16.0 MB over 30 refusals"], id="grows"),
    ],
)
def test_what_is_flat_begins_after_the_first_tenth(sizes, told):
    found = [soak.Sample(at * 10, Holding(size * MB)) for at, size in enumerate(sizes)]
    assert soak.outgrown(found) == told
