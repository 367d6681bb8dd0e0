"""Strips as they are kept: what they show is what was drawn, in little room."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.detect.strip import Cell
from looptrap.incident.strip import MOST_BYTES, NO_STRIP, Strip, cells_of, kept


def cells(letters, tool="run"):
    """Return a cell for each letter; capital ones failed."""
    return [
        Cell(one.lower() * 8, (tool,), one.isupper(), letters.lower().count(one.lower()) > 1)
        for one in letters
    ]


@given(letters=st.text("abcdABCD", max_size=60))
def test_what_is_kept_shows_what_was_drawn(letters):
    drawn = cells(letters)
    body = msgspec.msgpack.encode(kept(drawn))
    assert cells_of(msgspec.msgpack.decode(body, type=Strip)) == drawn


def test_a_cycle_takes_little_room():
    assert len(msgspec.msgpack.encode(kept(cells("ab" * 30, "read_file")))) < 120


def test_of_very_long_names_the_latest_rounds_are_kept():
    drawn = [Cell(f"{n:08x}", (f"{n}" * 128,) * 9, False, False) for n in range(60)]
    strip = kept(drawn)
    assert len(msgspec.msgpack.encode(strip)) < 2 * MOST_BYTES
    found = cells_of(strip)
    assert found
    assert [one.id for one in found] == [one.id for one in drawn[-len(found) :]]
    assert all(len(one.tools) <= 8 for one in found)


@pytest.mark.parametrize("order", [(0,), (-1,), (5,)], ids=["none", "negative", "too high"])
def test_a_strip_that_is_not_whole_harms_nobody(order):
    assert cells_of(Strip((), order)) == []


def test_nothing_is_nothing():
    assert kept([]) == NO_STRIP
    assert cells_of(NO_STRIP) == []
