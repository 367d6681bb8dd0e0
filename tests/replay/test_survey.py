"""Surveys: the latest calls of a folder, bounded in number and time."""

import pytest
from tests.replay.capturing import BEGAN, Capturing
from tests.replay.recorded import stuck

from looptrap.gateway.capture import CaptureEncoder
from looptrap.replay.capture import CaptureSurvey

MANY = 1_000


@pytest.fixture
def capture(tmp_path):
    """Two files of five calls each, of which the second names a project."""
    capture = Capturing(tmp_path / "calls")
    capture.run(stuck(4))
    capture.next_file()
    capture.run(stuck(4), project="research")
    return capture


def test_all_calls_are_found(capture):
    survey = CaptureSurvey(capture.folder, limit=MANY)
    assert (survey.calls, survey.files, survey.is_cut) == (10, capture.files, False)
    assert (survey.began, survey.ended) == (BEGAN + 1, BEGAN + 10)
    assert (survey.projects, survey.forms) == ({"research"}, {"content"})


@pytest.mark.parametrize(
    ("limit", "began", "files"),
    [
        pytest.param(7, 4, 2, id="within the first file"),
        pytest.param(5, 6, 1, id="the whole second file"),
        pytest.param(2, 9, 1, id="within the second file"),
    ],
)
def test_the_latest_are_kept(capture, limit, began, files):
    survey = CaptureSurvey(capture.folder, limit=limit)
    assert (survey.calls, survey.began, survey.since) == (limit, BEGAN + began, BEGAN + began)
    assert survey.is_cut
    assert survey.files[-files:] == capture.files[-files:]


@pytest.mark.parametrize(("since", "calls"), [(0, 10), (4, 7), (6, 5), (11, 0)])
def test_none_is_older_than_asked_for(capture, since, calls):
    survey = CaptureSurvey(capture.folder, since=BEGAN + since, limit=MANY)
    assert (survey.calls, survey.is_cut) == (calls, calls < 10)
    assert len(survey.files) == (2 if calls > 5 else calls > 0)


def test_what_is_no_call_and_no_capture_is_passed_over(capture):
    (capture.folder / "notes.jsonl").write_bytes(capture.files[0].read_bytes())
    with capture.files[0].open("ab") as file:
        file.write(b'nonsense\n{"looptrap":1}\n{"looptrap":1,"t":"x"}\n\xff\n')
    assert CaptureSurvey(capture.folder, limit=MANY).calls == 10


def test_answers_are_no_calls(capture):
    with capture.files[0].open("ab") as file:
        file.write(CaptureEncoder("digests", b"s").answer_line("lt-1", None, BEGAN + 5))
    assert CaptureSurvey(capture.folder, limit=MANY).calls == 10


def test_a_folder_that_is_not_there_has_no_calls(tmp_path):
    assert CaptureSurvey(tmp_path / "nowhere", limit=MANY).calls == 0
