"""Stand-ins: no word is left, and the signals that compare for equality see the same."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detect.runs import (
    DIALECTS,
    PATHS,
    ROUNDS,
    SIGNALS,
    Person,
    SignalOptions,
    Turn,
    Use,
    says,
)

from looptrap.detect import scope
from looptrap.detect.call_kind import (
    adds_something,
    changes_something,
    is_deferred,
    is_poll,
    is_step,
    only_looks,
)
from looptrap.detect.failure import (
    failure_of,
    is_check,
    is_empty_result,
    is_success_report,
    is_test_report,
)
from looptrap.detect.redacted_message import (
    MAX_RESULT_LENGTH,
    Redactor,
    original_size,
    read_redacted,
)
from looptrap.detect.round import NUDGE_MARK, Round
from looptrap.detect.trajectory import Trajectory, begins_turn
from looptrap.dialect.model import Message, Request, ToolCall, ToolResult
from looptrap.dialect.registry import read

STAND_INS = Redactor(b"secret")
EXACT = ("repeat", "cycle", "same_error", "failing", "unknown_tool", "turn_budget")
NO_ONE = frozenset()


def stand_in_of(message, size=0, secret=b"secret"):
    (found,) = Redactor(secret).of([(message, size)])
    return found


def stood_in(message):
    """Return a message as it is read from its stand-in."""
    return read_redacted(msgspec.Raw(msgspec.json.encode(stand_in_of(message))))


def result_of(text, is_error=False):
    (result,) = stood_in(Message("tool", "", (), (ToolResult("1", text, is_error),))).results
    return result


def arguments_of(text, tool):
    (call,) = stood_in(Message("assistant", "", (ToolCall("1", tool, text),))).calls
    return call.arguments


RESULTS = [
    pytest.param("18 degrees", id="an answer"),
    pytest.param("", id="nothing"),
    pytest.param("[]", id="an empty list"),
    pytest.param("no results", id="no results"),
    pytest.param("cat: a.py: No such file or directory", id="an error"),
    pytest.param("Traceback (most recent call last):\nKeyError: 'a'", id="a traceback"),
    pytest.param("<returncode>0</returncode>\nerror: none", id="exit status 0"),
    pytest.param("exit code 2\nusage: x", id="exit status 2"),
    pytest.param("exit code 1", id="exit status 1 without a word"),
    pytest.param("job 7 is still running", id="something under way"),
    pytest.param("still running, but: connection refused", id="under way, and failing"),
    pytest.param("the error is explained below " + "x" * 900, id="a long text about errors"),
    pytest.param("Error: not found\n" + "line\n" * 400, id="a long failure"),
    pytest.param("ok\n" * 3000, id="a very long answer"),
    pytest.param("2 failed, 3 passed", id="a report of tests"),
    pytest.param("Too many requests, try again later", id="a word to come again"),
    pytest.param("[image 0123456789abcdef]", id="an image"),
    pytest.param("All checks passed", id="checks that pass"),
    pytest.param("Found no issues.", id="a linter without a finding"),
]


@pytest.mark.parametrize("is_error", [False, True], ids=["", "marked as an error"])
@pytest.mark.parametrize("text", RESULTS)
def test_a_result_keeps_what_it_comes_down_to(text, is_error):
    stand_in = result_of(text, is_error)
    assert stand_in.is_error is is_error
    failure = failure_of(text, is_error)
    assert (failure_of(stand_in.text, is_error) is None) is (failure is None)
    if failure is None:
        assert is_empty_result(stand_in.text) is is_empty_result(text)
        assert is_step(NO_ONE, stand_in.text) is is_step(NO_ONE, text)
        assert is_success_report(stand_in.text) is is_success_report(text)
    else:
        assert is_test_report(failure_of(stand_in.text, is_error)) is is_test_report(failure)
    assert is_poll(NO_ONE, "", stand_in.text) is is_poll(NO_ONE, "", text)
    assert is_deferred(stand_in.text) is is_deferred(text)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param(
            "error: no rule for line 3", "ERROR: no rule for  line 17", True, id="volatile"
        ),
        pytest.param("error: no rule", "error: no file", False, id="another"),
        pytest.param("error: no rule\nsee a", "error: no rule\nsee b", True, id="beside the point"),
    ],
    ids=["volatile tokens", "another", "beside the point"],
)
def test_which_failure_it_was_can_be_told(one, other, is_same):
    assert (failure_of(one) == failure_of(other)) is is_same
    failures = [failure_of(result_of(text).text) for text in (one, other)]
    assert None not in failures
    assert (failures[0] == failures[1]) is is_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("took 3 ms, id 0xff", "took 4 ms, id 0xab", id="volatile tokens"),
        pytest.param("Some  Words", "some words", id="case and space"),
        pytest.param("pump 5", "pump 6", id="plain numbers"),
        pytest.param("log " + "x" * 5_000, "log " + "x" * 5_400, id="one that grows"),
        pytest.param("log " + "x" * 5_000, "log " + "x" * 5_004, id="one that hardly grows"),
        pytest.param(f"fine\n\n{NUDGE_MARK}\nStop.", "fine", id="a nudge of ours"),
    ],
)
def test_results_are_the_same_when_what_they_stand_for_is(one, other):
    def rounds(*texts):
        said = Message("assistant", "", (ToolCall("1", "bash", "{}"),))
        return [Round(said, [Message("tool", "", (), (ToolResult("1", t),))]) for t in texts]

    real = rounds(one, other)
    stand_ins = rounds(*(result_of(text).text for text in (one, other)))
    assert stand_ins[0].has_same_result(stand_ins[1]) is real[0].has_same_result(real[1])


@pytest.mark.parametrize("tool", ["bash", "edit_file", "view_file", "str_replace_editor"])
@pytest.mark.parametrize(
    "text",
    [
        '{"cmd":"ls"}', '{"cmd":"touch a"}', '{"cmd":"sleep 5"}', '{"cmd":"wait; touch a"}', "{}",
        '{"command":"view","path":"a"}', '{"command":"create","path":"a"}', '{"file_text":"a"}',
        '{"action":"click","x":3}', '{"cmd":"make lint"}', '{"cmd":"cat a; touch b"}',
    ],
)  # fmt: skip
def test_arguments_keep_whether_they_alter_look_check_or_wait(text, tool):
    stand_in = arguments_of(text, tool)
    assert only_looks(tool, stand_in) is only_looks(tool, text)
    assert is_check(stand_in) is is_check(text)
    assert changes_something(tool, stand_in) is changes_something(tool, text)
    assert adds_something(tool, stand_in) is adds_something(tool, text)
    assert is_poll(NO_ONE, stand_in, "") is is_poll(NO_ONE, text, "")


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        pytest.param("continue", False, id="continue"),
        pytest.param("Please go on!", False, id="go on"),
        pytest.param(f"{NUDGE_MARK}\nYou repeat yourself.", False, id="a nudge of ours"),
        pytest.param("go", True, id="a word"),
        pytest.param("Continue with the second file, and mind the tests.", True, id="a request"),
        pytest.param("", True, id="nothing"),
    ],
)
def test_who_speaks_can_be_told(text, begins):
    message = Message("user", text)
    assert begins_turn(message) is begins
    assert begins_turn(stood_in(message)) is begins


words = st.text(max_size=30) | st.sampled_from(["continue", "go on", "CONTINUE ", "x" * 70_000])


@given(one=words, other=words)
def test_conversations_are_equal_when_what_they_stand_for_is(one, other):
    def content(message, similarity):
        call = read(Request(path="/v1/chat/completions", body=b'{"messages":[{"role":"user"}]}'))
        call._messages = [message]
        return scope.conversation(3, True, similarity)(call)

    messages = [Message("user", text) for text in (one, other)]
    for similarity in ("exact", "masked"):
        real = {content(message, similarity) for message in messages}
        stand_ins = {content(stood_in(message), similarity) for message in messages}
        assert len(stand_ins) == len(real)


ARGUMENTS = [{}, {"cmd": "make"}, {"cmd": "make test"}, {"cmd": "cd src"}, {"cmd": "sleep 9"}]
TEXTS = [
    "", "ok", "[]", "error: no rule for this", "KeyError: 'x'", "job 7 is running", "took 3 ms",
    "took 9 ms", "exit code 0", "page one of many", "permission denied", "unknown tool: search",
    None, "3 failed, 9 passed", "2 failed, 10 passed",
]  # fmt: skip
"""No two of the failures are alike: which of those that are would count as one, nobody can tell
from digests."""


def uses(tools, is_error):
    return st.builds(
        Use, st.sampled_from(tools), st.sampled_from(ARGUMENTS), st.sampled_from(TEXTS), is_error
    )


# Of parallel calls none is marked an error: without a word of it, failures of several calls are
# told by their last lines, which are alike when one of them is the same.
STEPS = st.lists(
    uses(["bash", "edit_file", "poll_job", "search", "press_key"], st.booleans())
    | st.builds(
        Turn,
        st.just(""),
        st.tuples(
            uses(["bash", "poll_job"], st.just(False)),
            uses(["edit_file", "search"], st.just(False)),
        ),
    )
    | st.sampled_from(
        [says("Let me see."), Person("continue"), Person("Now do the other one, please.")]
    ),
    max_size=8,
)


def counts(call):
    found = {}
    for name in EXACT:
        trajectory = Trajectory(call)
        evidence = None
        if trajectory.latest(1):
            evidence = SIGNALS[name](SignalOptions(ROUNDS.get(name, 0)))(trajectory)
        found[name] = evidence.count if evidence is not None else 0
    return found


@pytest.mark.parametrize("write", list(DIALECTS.values()), ids=DIALECTS)
@given(steps=STEPS, times=st.integers(1, 7), offers=st.booleans())
def test_signals_that_compare_for_equality_count_the_same(write, steps, times, offers):
    body = msgspec.json.encode(write(steps * times, ["bash", "search"] if offers else []))
    call = read(Request(path=PATHS[write], body=body))
    sized = [(call.read(raw), 0) for raw in call.raws]
    raws = [msgspec.Raw(msgspec.json.encode(one)) for one in STAND_INS.of(sized)]
    stand_ins = msgspec.structs.replace(call, raws=raws, read=read_redacted, peek=None)
    assert counts(stand_ins) == counts(call)


CANARY = "Kanarienvogel"


def test_no_word_of_a_message_is_left():
    message = Message(
        f"{CANARY} role",
        f"Ask {CANARY} about it.",
        (ToolCall(f"{CANARY}-1", "ask", f'{{"whom":"{CANARY}"}}'),),
        (ToolResult(f"{CANARY}-1", f"Error: {CANARY} not found", True, "ask"),),
    )
    for spoken in (message, Message("user", f"{NUDGE_MARK} {CANARY}"), Message("user", "Go on!")):
        written = msgspec.json.encode(stand_in_of(spoken)).decode()
        for word in (CANARY, "about", "whom", "found", "Go on"):
            assert word.lower() not in written.lower()


def test_another_secret_gives_other_digests():
    message = Message("assistant", "Hello.", (ToolCall("1", "ask", "{}"),))
    one, other = (stand_in_of(message, 7, secret) for secret in (b"one", b"other"))
    assert one.text != other.text
    assert one.calls[0].arguments != other.calls[0].arguments
    assert one == stand_in_of(message, 7, b"one")


def test_the_size_of_the_message_is_kept():
    raw = msgspec.Raw(msgspec.json.encode(stand_in_of(Message("user", "Hello."), 38)))
    assert original_size(raw) == 38


@pytest.mark.parametrize("text", [b"7", b'{"role":"tool","size":"much"}', b'{"ro'])
def test_what_is_no_stand_in_is_read_all_the_same(text):
    assert read_redacted(msgspec.Raw(text)).results == ()
    assert original_size(msgspec.Raw(text)) == 0


def test_a_length_that_somebody_made_up_fills_no_memory():
    made_up = b'{"role":"tool","size":1,"results":[{"call_id":"","text":"","length":9e15}]}'
    (result,) = read_redacted(msgspec.Raw(made_up.replace(b"9e15", b"9000000000000000"))).results
    assert len(result.text) == MAX_RESULT_LENGTH
