"""The simulation of fleets: what it must yield where the answer is known without it."""

from random import Random

import pytest
from bench.scale import (
    TRAFFIC,
    Figures,
    planned_shards,
    reconnections,
    simulate,
    spend,
)

FIGURES = Figures(gateway=200e-6, script=20e-6, call=30e-6, connect=1e-3, wire=250e-6)


def fleet(rate, gateways=4, shards=1, figures=FIGURES):
    return simulate(figures, gateways, shards, rate, 0.3, Random(1))


def test_where_there_is_no_load_a_call_waits_for_the_wire_and_its_script():
    found = fleet(rate=20)
    assert found.p50 == pytest.approx(2 * 250e-6 + 50e-6)
    assert (found.batch, found.late) == (1, 0)


def test_a_shard_is_as_busy_as_its_calls_make_it():
    found = fleet(rate=4_000)
    per_call = FIGURES.call + FIGURES.script / found.batch
    assert found.fullest_shard == pytest.approx(found.calls / 0.3 * per_call, rel=0.01)


def test_calls_of_a_busy_gateway_share_scripts():
    assert fleet(rate=4_500, gateways=1).batch > 1.5 * fleet(rate=500, gateways=1).batch


def test_a_shard_that_is_too_small_makes_gateways_count_alone():
    assert fleet(rate=30_000, gateways=20).late > 0
    assert fleet(rate=30_000, gateways=20, shards=4).late == 0


def test_shards_are_planned_for_calls_one_by_one():
    # 10 gateways at 60 % take 30,000 calls a second, of 50 µs each: 1.5 s, at 60 % 2.5 shards.
    assert planned_shards(FIGURES, 10) == 3
    assert planned_shards(FIGURES, 1) == 1


@pytest.mark.parametrize(
    ("gateways", "expected"),
    [(10, (1, 0.01)), (1_000, (1, 1.0)), (1_001, (2, 1.001))],
)
def test_gateways_come_back_as_fast_as_a_shard_accepts_them(gateways, expected):
    attempts, seconds = reconnections(FIGURES, gateways)
    assert (attempts, pytest.approx(seconds)) == expected


@pytest.mark.parametrize(
    ("limits", "kind", "wanted", "passed"),
    [
        pytest.param([100] * 3, "even", 50, 50, id="less than the budget"),
        pytest.param([100] * 3, "even", 900, 300, id="a whole budget in each"),
        pytest.param([40] * 3, "even", 900, 120, id="a share in each"),
        pytest.param([40, 0, 0], "one region fails at half-time", 900, 40, id="one region"),
    ],
)
def test_regions_spend_their_own_budgets(limits, kind, wanted, passed):
    assert spend(limits, TRAFFIC[kind], wanted, Random(1)) == passed
