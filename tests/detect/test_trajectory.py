"""What an agent did since a person last spoke, round by round."""

import json

import pytest
from tests.detect.runs import (
    DIALECTS,
    PATHS,
    Person,
    Use,
    anthropic,
    bash,
    openai,
    says,
    together,
    trajectory,
)

from looptrap.detect.round import MAX_RESULT_CHARS
from looptrap.detect.similarity import is_similar
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read

LS, CAT = bash("ls", "a.txt"), bash("cat a.txt", "hello")

in_both_dialects = pytest.mark.parametrize(
    "write", [pytest.param(write, id=name) for name, write in DIALECTS.items()]
)


def latest(write, *steps):
    """Return the last round of a run."""
    return trajectory(write, steps).latest(1)[0]


@in_both_dialects
def test_rounds_come_latest_first_and_no_more_than_asked_for(write):
    history = trajectory(write, [LS, CAT, bash("pwd", "/src")])
    assert [one.result for one in history.latest(2)] == ["/src", "hello"]
    assert [one.result for one in history.latest(9)] == ["/src", "hello", "a.txt"]


@in_both_dialects
def test_a_round_is_what_was_said_called_and_brought_back(write):
    one = latest(write, together(LS, CAT, text="Let me look."))
    assert one.text == "Let me look."
    assert one.names == {"bash"}
    assert one.signature == {("bash", '{"command":"ls"}'), ("bash", '{"command":"cat a.txt"}')}
    assert one.result == "hello\na.txt"


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([], 0, id="nothing done yet"),
        pytest.param([LS, Person("And now?")], 0, id="a person has just spoken"),
        pytest.param([LS, LS, Person("And now?"), CAT], 1, id="only what came after"),
        pytest.param([LS, Person("continue"), CAT], 2, id="an injected 'continue' is no person"),
        pytest.param([LS, Person("Please continue."), CAT], 2, id="however it is written"),
        pytest.param([LS, Person("Continue with the docs"), CAT], 1, id="a task is a person's"),
        pytest.param([LS, says("Hm."), CAT], 3, id="what the assistant says is a round too"),
    ],
)
def test_a_person_begins_it_anew(write, steps, expected):
    assert len(trajectory(write, steps).latest(9)) == expected


@in_both_dialects
def test_a_call_may_wait_for_its_result(write):
    one = latest(write, together(bash("ls", None), CAT))
    assert [result and result.text for result in one.results] == [None, "hello"]
    assert one.result == "hello"


@in_both_dialects
def test_the_tools_offered_are_known(write):
    assert trajectory(write, [LS], ["bash", "edit"]).tools == ("bash", "edit")
    assert trajectory(write, [LS]).tools == ()


@in_both_dialects
@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param("took 0.2s", "took 11.3s", True, id="durations"),
        pytest.param("pid 17 at 10:02", "pid 99 at 11:40", True, id="pids and times"),
        pytest.param("Done.", "done. ", True, id="case and white space"),
        pytest.param("pump 5", "pump 6", False, id="plain numbers are content"),
        pytest.param("a", "b", False, id="another text"),
        pytest.param("x" * 90, "x" * 99, False, id="another length"),
        pytest.param("", "", True, id="nothing and nothing"),
    ],
)
def test_results_are_the_same_but_for_volatile_tokens(write, one, other, expected):
    first, second = trajectory(write, [bash("run", one), bash("run", other)]).latest(2)
    assert first.has_same_result(second) is expected
    assert second.has_same_result(first) is expected
    assert first.repeats(second) is expected


@in_both_dialects
def test_long_results_are_told_apart_by_their_length_too(write):
    first, second = trajectory(
        write, [bash("run", "x" * MAX_RESULT_CHARS), bash("run", "x" * MAX_RESULT_CHARS * 2)]
    ).latest(2)
    assert not first.repeats(second)


@in_both_dialects
def test_the_same_result_of_another_call_is_no_repetition(write):
    first, second = trajectory(write, [bash("make a", "ok"), bash("make b", "ok")]).latest(2)
    assert first.has_same_result(second)
    assert not first.repeats(second)


@in_both_dialects
def test_one_failure_among_parallel_calls_is_a_failure_of_the_round(write):
    failed = bash("cat b", "cat: b: No such file or directory")
    assert latest(write, together(LS, failed)).failure is not None
    assert latest(write, together(LS, CAT)).failure is None


@in_both_dialects
def test_talk_neither_fails_nor_brings_nothing(write):
    one = latest(write, says("error: no results"))
    assert one.failure is None
    assert not one.is_empty


def test_anthropics_flag_makes_a_failure_of_any_words():
    flagged = Use("bash", {}, "Not today", is_error=True)
    assert latest(anthropic, flagged).failure == "not today"
    assert latest(openai, flagged).failure is None


def test_a_user_message_that_brings_results_is_no_person():
    body = anthropic([LS])
    body["messages"][-1]["content"].append({"type": "text", "text": "<reminder>"})
    sent = json.dumps(body).encode()
    history = Trajectory(read(Request(path="/v1/messages", body=sent)))
    assert [one.result for one in history.latest(9)] == ["a.txt"]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param("", "", True, id="nothing"),
        pytest.param("a" * 100, "a" * 99 + "b", True, id="one letter of many"),
        pytest.param("abc", "xyz", False, id="nothing in common"),
        pytest.param("a", "", False, id="something and nothing"),
    ],
)
def test_alike(one, other, expected):
    assert is_similar(one, other) is expected
    assert is_similar(other, one) is expected


def test_images_are_told_apart_in_both_dialects():
    def image(data):
        source = {"type": "base64", "media_type": "image/png", "data": data}
        return [{"type": "image", "source": source}]

    for write, path in PATHS.items():
        body = write([Use("screenshot", {}, "?")] * 3)
        results = body["messages"][2::2]
        for message, data in zip(results, ("AAAA", "BBBB", "BBBB"), strict=True):
            if write is anthropic:
                message["content"][0]["content"] = image(data)
            else:
                message["content"] = image(data)
        sent = json.dumps(body).encode()
        last, same, other = Trajectory(read(Request(path=path, body=sent))).latest(3)
        assert last.repeats(same)
        assert not last.repeats(other)
        assert not last.is_empty


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([LS, CAT, LS], 3, id="nothing changed"),
        pytest.param([LS, bash("touch b", ""), LS], 1, id="a change"),
        pytest.param([bash("touch b", ""), bash("touch b", ""), LS], 3, id="the same change again"),
        pytest.param(
            [LS, bash("touch b", "touch: Permission denied"), LS], 3, id="one that failed"
        ),
        pytest.param([CAT, LS, bash("cat a.txt", "bye"), LS], 1, id="another answer than before"),
        pytest.param([CAT, LS, CAT, LS], 4, id="the same answer as before"),
        pytest.param(
            [CAT, bash("cat a.txt", "bye"), CAT, LS], 2, id="an answer that had come before"
        ),
        pytest.param([bash("ls", "b"), LS, LS], 3, id="another answer to the latest call itself"),
    ],
)
def test_what_changed_something_new_is_progress(write, steps, expected):
    assert len(trajectory(write, steps).since_change(9)) == expected
