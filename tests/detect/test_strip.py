"""The strip: what is the same to the signals has the same id, and nothing of a text is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detect.runs import DIALECTS, Person, Use, bash, openai, says, together, trajectory

from looptrap.detect.strip import MAX_CELLS, strip

SECRET = b"secret"


def cells(steps, most=MAX_CELLS, write=openai, secret=SECRET):
    return strip(trajectory(write, steps), secret, most)


def shape(steps, **more):
    """Return the strip as letters: equal ids are equal letters, the first is an a."""
    known = {}
    ids = [cell.id for cell in cells(steps, **more)]
    return "".join(known.setdefault(id, chr(ord("a") + len(known))) for id in ids)


READ = Use("read_file", {"path": "a.py"}, "def a(): ...")
TEST = bash("make test", "2 failed")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([READ] * 4, "aaaa", id="the same over and over"),
        pytest.param([READ, TEST] * 3, "ababab", id="a cycle of two"),
        pytest.param([READ, bash("ls", "a.py"), TEST] * 2, "abcabc", id="a cycle of three"),
        pytest.param(
            [bash("poll", "10 %"), bash("poll", "20 %"), bash("poll", "10 %")],
            "aba",
            id="another result is another pair",
        ),
        pytest.param(
            [bash("a", "nothing"), bash("b", "nothing")], "ab", id="another call is another pair"
        ),
        pytest.param(
            [bash("date", "took 3.1 s at 12:00:01"), bash("date", "took 2.9 s at 12:00:07")],
            "aa",
            id="times do not count",
        ),
        pytest.param(
            [together(READ, TEST), together(TEST, READ)], "aa", id="parallel calls in any order"
        ),
        pytest.param(
            [says("Let me think."), says("Let me  think."), says("Done.")],
            "aab",
            id="words without a call",
        ),
        pytest.param([READ, READ, Person("Now the other."), TEST], "a", id="a person begins anew"),
        pytest.param([], "", id="nothing yet"),
    ],
)
def test_equal_pairs_share_an_id(steps, expected):
    assert shape(steps) == expected


@pytest.mark.parametrize("write", DIALECTS.values(), ids=DIALECTS)
def test_a_cycle_shows_in_every_dialect(write):
    assert shape([READ, TEST] * 3, write=write) == "ababab"


def test_rounds_that_were_read_already_are_given_the_latest_first():
    rounds = trajectory(openai, [READ, TEST, READ]).latest(9)
    assert strip(rounds, SECRET) == cells([READ, TEST, READ])


def test_a_cell_tells_tools_failures_and_whether_it_comes_again():
    shown = cells([READ, bash("ls", "a.py"), TEST, READ])
    assert [cell.tools for cell in shown] == [("read_file",), ("bash",), ("bash",), ("read_file",)]
    assert [cell.is_error for cell in shown] == [False, False, True, False]
    assert [cell.repeats for cell in shown] == [True, False, False, True]


def test_the_latest_rounds_are_shown_the_oldest_first():
    steps = [*(bash(f"cat {name}", f"text of {name}") for name in "abcdefgh")]
    every, last = cells(steps), cells(steps, most=3)
    assert len(every) == 8
    assert last == every[-3:]


def test_what_begins_alike_and_goes_on_otherwise_has_another_id():
    one, two = ("x" * 20_000 + end * 9_000 for end in "ab")
    assert shape([bash("cat", one), bash("cat", two), bash("cat", one)]) == "aba"


def test_ids_are_digests_under_the_secret():
    steps = [READ]
    [one], [two] = cells(steps), cells(steps, secret=b"another")
    assert one.id == cells(steps)[0].id != two.id
    assert len(bytes.fromhex(one.id)) == 4


@given(letters=st.lists(st.sampled_from("abcd"), max_size=70))
def test_equal_letters_make_equal_cells(letters):
    run = [*(bash(f"cat {one}", f"content of {one}") for one in letters)]
    shown = cells(run)
    latest = letters[-MAX_CELLS:]
    assert len(shown) == len(latest)
    for place, cell in enumerate(shown):
        same = [other for other, one in enumerate(shown) if one.id == cell.id]
        assert same == [other for other, one in enumerate(latest) if one == latest[place]]
        assert cell.repeats == (len(same) > 1)
