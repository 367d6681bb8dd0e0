"""The strip: what is the same to the signals has the same id, and nothing of a text is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detect.forgetful import ForgetfulAgent
from tests.detect.runs import DIALECTS, Person, Use, bash, openai, says, together, trajectory

from looptrap.detect.remembered_round import RoundDigester
from looptrap.detect.strip import MAX_CELLS, strip
from looptrap.detect.trajectory import RunTrajectory

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


def test_rounds_that_failed_the_same_way_share_an_error_whatever_was_called():
    missing = "Error: ENOENT: no such file or directory"
    steps = [
        Use("read_file", {"path": "a.py"}, missing),
        READ,
        Use("open_file", {"path": "b.py"}, missing),
        Use("fetch", {"url": "x"}, "Error: 403 forbidden, the token has expired"),
        Use("read_file", {"path": "a.py"}, missing),
    ]
    found = cells(steps)
    first, ok, second, other, again = (cell.error for cell in found)
    assert (first, ok) == (found[0].id, "")
    assert second == again == first
    assert other == found[3].id


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


LIST, EDIT = bash("ls", "a.py b.py"), Use("edit", {"path": "a.py"}, "edited")


def shown(ticket):
    """Return the strip as letters, with what happened before each: `/` compacted, `<` trimmed."""
    marks = {"": "", "compaction": "/", "trim": "<", "restart": "!"}
    known = {}
    drawn = strip(ticket.trajectory, SECRET)
    letter = lambda id: known.setdefault(id, chr(ord("a") + len(known)))  # noqa: E731
    return "".join(marks[cell.after] + letter(cell.id) for cell in drawn)


def test_of_a_trimmed_run_all_remembered_rounds_are_shown():
    agent = ForgetfulAgent(keeps=2)
    ticket = agent.does(LIST, EDIT, READ, TEST, READ, TEST)
    assert shown(ticket) == "ab<cdcd"


def test_of_a_compacted_run_the_rounds_before_are_shown_too():
    agent = ForgetfulAgent(session="s")
    agent.does(LIST, READ, TEST)
    agent.compact()
    agent.does(READ, TEST)
    agent.compact()
    assert shown(agent.does(READ)) == "abc/bc/b"


def test_a_run_that_begins_again_is_marked_at_its_beginning():
    first = ForgetfulAgent(session="s")
    first.does(LIST, TEST)
    second = ForgetfulAgent(first.guard, session="s", start=first.now)
    second.does(LIST, TEST)
    ticket = ForgetfulAgent(first.guard, session="s", start=second.now).does(LIST)
    assert ticket.trajectory.restarts == 2
    assert shown(ticket) == "!a"


def test_a_history_that_is_shown_whole_has_no_marks():
    assert shown(ForgetfulAgent().does(READ, TEST, READ, TEST)) == "abab"


def test_remembered_rounds_tell_tools_and_failures():
    agent = ForgetfulAgent(keeps=2, tools=["bash"])
    drawn = strip(agent.does(READ, TEST, LIST, LIST).trajectory, SECRET)
    assert [cell.tools for cell in drawn] == [("a tool",), ("bash",), ("bash",), ("bash",)]
    assert [cell.is_error for cell in drawn] == [False, True, False, False]
    assert [cell.repeats for cell in drawn] == [False, False, True, True]


def test_what_is_said_without_a_call_names_no_tool():
    digester = RoundDigester(SECRET)
    said = trajectory(openai, [says("Let me think.")] * 2).latest(2)
    records = [digester.record(one, b"link") for one in said]
    call = ForgetfulAgent().call()
    drawn = strip(RunTrajectory(call, records, {}), SECRET)
    assert [cell.tools for cell in drawn] == [(), ()]
    assert drawn[0].id == drawn[1].id


@given(letters=st.lists(st.sampled_from("abcd"), min_size=4, max_size=40))
def test_remembered_rounds_share_ids_as_shown_ones_do(letters):
    run = [bash(f"cat {one}", f"content of {one}") for one in letters]
    whole, trimmed = ForgetfulAgent().does(*run), ForgetfulAgent(keeps=2).does(*run)
    assert shown(trimmed).replace("<", "") == shown(whole)
