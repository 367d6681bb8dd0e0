"""Gateways behind a load balancer, restarted, killed and cut off: `make fleet` is the long run."""

import pytest
import uvloop
from bench.fleet.__main__ import run
from bench.fleet.network import Network, check_permission
from bench.fleet.phase import PRIMED, _is_alone
from bench.fleet.stage import GATEWAYS, Fleet
from bench.rig import MissingPartError
from tests.conftest import skip_without_part

THRESHOLD = 6
"""The call of a loop that is refused where all count together."""
ALONE = len(GATEWAYS)
"""How many times as much passes where each counts alone, at most."""


@pytest.fixture(scope="module")
def results(tmp_path_factory, find_part):
    """Return the results of all phases by name, the log, the ids that the provider got, and how
    many calls are in the history."""
    find_part(["haproxy"], "haproxy")
    find_part(["initdb", "/usr/lib/postgresql/*/bin/initdb"], "postgresql")
    try:
        check_permission()
    except MissingPartError as error:
        skip_without_part(str(error))
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        found = uvloop.run(run(fleet, rate=40.0, times=1))
        recorded = fleet.recorded()
        return {one.phase: one for one in found}, fleet.said(), fleet.received(), recorded


@pytest.fixture
def phases(results):
    return results[0]


@pytest.mark.parametrize(
    "name",
    [
        "all is well",
        "restarted one by one",
        "one cut off from the database",
        "the database killed",
    ],
)
def test_no_call_fails_and_all_count_together(phases, name):
    found = phases[name]
    assert found.calls > 10
    assert (found.failed, found.endings) == (0, {})
    assert set(found.loops) == {THRESHOLD}
    assert max(found.budgets_used) <= 1
    assert (found.counted_alone, found.counted_twice, found.lost) == (0, 0, 0)


def test_of_a_killed_gateway_only_calls_in_flight_fail(phases):
    found = phases["one killed (kill -9)"]
    assert found.failed <= 24, "there are no more callers"
    assert found.calls > found.failed
    assert set(found.loops) == {THRESHOLD}
    assert (found.counted_twice, found.lost) == (0, 0)


def test_who_is_cut_off_counts_alone_and_no_call_fails(phases):
    found = phases["one cut off from the store"]
    assert found.failed == 0
    # It passes what it would alone, and so do the others together.
    assert max(found.loops) <= 2 * (THRESHOLD - 1) + 1
    assert 1 < max(found.budgets_used) <= 2
    assert 0 < found.counted_alone < found.counted_calls
    assert found.lost == 0


@pytest.mark.parametrize(
    "name",
    ["all cut off from the store", "the store stalls for 1 s", "the store killed, then empty"],
)
def test_without_a_store_each_gateway_counts_alone_and_no_call_fails(phases, name):
    found = phases[name]
    assert found.failed == 0
    assert THRESHOLD <= max(found.loops) <= ALONE * (THRESHOLD - 1) + 1
    assert 1 < max(found.budgets_used) <= ALONE
    assert found.counted_alone > 0


def test_only_an_empty_store_has_forgotten_calls(phases):
    assert [name for name, one in phases.items() if one.lost] == ["the store killed, then empty"]


def test_no_call_reaches_the_provider_twice(results):
    _, said, received, _ = results
    assert len(received) == len(set(received))
    _, traceback, rest = said.partition("Traceback")
    assert not traceback, rest[:3_000]


def test_all_calls_are_in_the_history_but_some_of_a_killed_gateway(results):
    phases, _, received, recorded = results
    killed = phases["one killed (kill -9)"]
    # Its usage of the last second, or a bit more, was in memory only.
    lost = (2 * killed.calls / killed.seconds + PRIMED) / len(GATEWAYS) + 24
    assert len(received) - lost <= recorded <= len(received)


def test_a_call_that_was_counted_alone_shows_in_the_counts():
    assert [*_is_alone([1, 2, 3, 1, 4, 2, 5])] == [False, False, False, True, False, True, False]


def test_a_network_leaves_nothing(find_part):
    find_part(["ip"], "iproute2")
    try:
        check_permission()
    except MissingPartError as error:
        skip_without_part(str(error))
    with Network(["one", "two"]) as network:
        assert network.address("one") != network.address("two") != network.outside
        network.cut("one", "two")
        network.mend("one", "two")
    with network:  # nothing of that name is there any more
        pass
