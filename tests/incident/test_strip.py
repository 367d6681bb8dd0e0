"""Strips as they are kept: what they show is what was drawn, in little room."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from looptrap.detect.strip import StripCell
from looptrap.incident.model import MAX_STRIP_BYTES, NO_STRIP, Strip, compact_strip, strip_cells


def cells(letters, tool="run"):
    """Return a cell for each letter; capital ones failed."""
    return [
        StripCell(one.lower() * 8, (tool,), one.isupper(), letters.lower().count(one.lower()) > 1)
        for one in letters
    ]


@given(letters=st.text("abcdABCD", max_size=60))
def test_what_is_kept_shows_what_was_drawn(letters):
    drawn = cells(letters)
    body = msgspec.msgpack.encode(compact_strip(drawn))
    assert strip_cells(msgspec.msgpack.decode(body, type=Strip)) == drawn


def test_a_cycle_takes_little_room():
    assert len(msgspec.msgpack.encode(compact_strip(cells("ab" * 30, "read_file")))) < 120


def test_of_very_long_names_the_latest_rounds_are_kept():
    drawn = [StripCell(f"{n:08x}", (f"{n}" * 128,) * 9, False, False) for n in range(60)]
    strip = compact_strip(drawn)
    assert len(msgspec.msgpack.encode(strip)) < 2 * MAX_STRIP_BYTES
    found = strip_cells(strip)
    assert found
    assert [one.id for one in found] == [one.id for one in drawn[-len(found) :]]
    assert all(len(one.tools) <= 8 for one in found)


@pytest.mark.parametrize("order", [(0,), (-1,), (5,)], ids=["none", "negative", "too high"])
def test_a_strip_that_is_not_whole_harms_nobody(order):
    assert strip_cells(Strip((), order)) == []


def test_where_the_history_was_compacted_or_trimmed_is_kept():
    breaks = ["restart", "", "trim", "", "compaction", ""]
    drawn = [replace(one, after=after) for one, after in zip(cells("ababab"), breaks, strict=True)]
    body = msgspec.msgpack.encode(compact_strip(drawn))
    assert strip_cells(msgspec.msgpack.decode(body, type=Strip)) == drawn


def test_a_strip_that_loses_its_first_rounds_keeps_its_marks_where_they_were():
    drawn = [StripCell(f"{n:08x}", (f"{n}" * 128,) * 9, False, False) for n in range(60)]
    drawn[0], drawn[-2] = (replace(drawn[n], after="compaction") for n in (0, -2))
    found = strip_cells(compact_strip(drawn))
    assert len(found) < 60
    assert [one.after for one in found] == [one.after for one in drawn[-len(found) :]]


def test_a_strip_that_was_kept_before_there_were_marks_has_none():
    body = msgspec.msgpack.encode([[["a" * 8, ["run"], True]], [0, 0]])
    [one, two] = strip_cells(msgspec.msgpack.decode(body, type=Strip))
    assert (one.after, two.after) == ("", "")


def test_nothing_is_nothing():
    assert compact_strip([]) == NO_STRIP
    assert strip_cells(NO_STRIP) == []
