"""Every parser, given good inputs and ones that were good once: its laws hold.

Bounded, for `make test` and `make test-all`; `make fuzz` goes on for as long as one likes.
"""

import logging
import traceback

import pytest
from fuzz.mutation import LARGEST, mutated
from fuzz.target import cuts
from fuzz.targets import TARGETS
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

SLOW = {"call": 60, "config": 120, "bundle": 120, "text": 50, "request": 150, "key_file": 100}
"""Inputs for targets of which each takes milliseconds; others get more."""

ODDITIES = [b"", b"\0", b"\xff" * 40, b"[" * 5000, b'{"a":' * 5000, b"\n" * 300, b'"' * 301]


@pytest.fixture(autouse=True)
def silence():
    """Nobody reads thousands of warnings about inputs that were made to be bad."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_good_inputs_and_odd_ones_break_no_law(name):
    target = TARGETS[name]
    seeds = list(target.seeds())
    assert seeds
    for data in seeds + ODDITIES + [bytes([place]) + one for place in (0, 5) for one in ODDITIES]:
        target.check(data)


@pytest.mark.parametrize("name", TARGETS)
def test_mutations_break_no_law(name):
    target = TARGETS[name]

    @settings(max_examples=examples(SLOW.get(name, 300)), database=None)
    @given(st.sampled_from(list(target.seeds())), st.randoms(use_true_random=False))
    def check(seed, rng):
        data = mutated(seed, rng, target.words)
        try:
            target.check(data)
        except Exception:  # noqa: BLE001 - whatever it is, it must be reported
            # What is wrong may be a text that no report can be written in.
            wrong = traceback.format_exc().encode("ascii", "backslashreplace").decode()
            pytest.fail(f"{data!r}\n{wrong}", pytrace=False)

    check()


@given(st.binary(max_size=2000), st.randoms(use_true_random=False))
def test_mutations_stay_small(data, rng):
    assert len(mutated(data, rng)) <= LARGEST


@given(st.binary(max_size=500))
def test_cuts_lose_nothing(data):
    assert b"".join(cuts(data)) == data
    assert all(cuts(data))
