"""Captured calls: what can be captured, and what is remembered of runs."""

from looptrap.dialect import captured
from looptrap.dialect.captured import HISTORIES, IDLE_RUN_S, RecentRuns
from looptrap.dialect.model import Request
from looptrap.dialect.registry import ENDINGS, read


def test_every_dialect_in_which_a_model_answers_can_be_captured():
    asked = {ending.dialect for ending in ENDINGS.values() if ending.generates} - {"http"}
    prompt = read(Request(path="/v1/completions", body=b'{"prompt":"Hi"}'))
    assert {*asked, prompt.dialect} == set(HISTORIES)


def test_a_run_is_remembered_until_it_was_silent_for_too_long():
    forgotten = []
    recent = RecentRuns(forgotten.append)
    recent.keep("a", 0.0, 1, "A")
    recent.keep("b", 5.0, 1, "B")
    assert recent.find("a", IDLE_RUN_S) == "A"
    assert recent.find("a", IDLE_RUN_S + 1) is None
    assert recent.find("b", IDLE_RUN_S + 1) == "B"
    assert forgotten == ["A"]


def test_the_longest_silent_make_room(monkeypatch):
    monkeypatch.setattr(captured, "MAX_MESSAGE_BYTES", 10)
    forgotten = []
    recent = RecentRuns(forgotten.append)
    for name, size in (("a", 4), ("b", 4), ("a", 5), ("c", 4)):
        recent.keep(name, 0.0, size, name)
    assert forgotten == ["b"]
    recent.keep("d", 0.0, 11, "d")  # alone too much
    assert forgotten == ["b", "a", "c", "d"]
