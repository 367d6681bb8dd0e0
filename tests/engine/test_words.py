"""What a verdict says of a run of which the request shows little."""

import pytest
from tests.detect.forgetful import ForgetfulAgent
from tests.detect.runs import Use, bash

from looptrap.engine import Guard
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule

READ = Use("read_file", {"path": "a.py"}, "def a(): ...")
TEST = bash("make test", "2 failed")
LIST = bash("ls", "a.py b.py")


def guard_of(watch, count, **options):
    rule = Rule(name="r", watch=watch, ladder=Ladder({Action.BLOCK: count}), **options)
    return Guard([Policy(name="p", rules=(rule,))], secret=b"secret")


def words(guard, uses, **options):
    return ForgetfulAgent(guard, **options).does(*uses).verdict.evidence[0].what


@pytest.mark.parametrize(
    ("watch", "count", "uses", "said"),
    [
        pytest.param(
            "repeat", 5, [READ] * 5,
            "read_file with the same arguments and result, 5 times in 5 rounds",
            id="repeat",
        ),
        pytest.param(
            "cycle", 4, [READ, LIST] * 4,
            "read_file → bash, with equal arguments and results, 4 times in a row",
            id="cycle",
        ),
        pytest.param(
            "same_error", 4, [TEST] * 4,
            "bash failed the same way, or asked the same, 4 times in 4 rounds",
            id="same_error",
        ),
        pytest.param(
            "failing", 4, [TEST] * 5,
            "5 calls in a row without success, bash the latest",
            id="failing",
        ),
        pytest.param(
            "turn_budget", 6, [bash(f"cat {n}", f"text {n}") for n in range(6)],
            "6 tool calls since the last user message",
            id="turn_budget",
        ),
    ],
)  # fmt: skip
def test_the_words_count_what_is_remembered_and_what_is_shown(watch, count, uses, said):
    shown = words(guard_of(watch, count), uses, keeps=2)
    assert shown == f"{said}; this request shows the latest 2 rounds"


def test_a_history_that_is_shown_whole_is_all_there_is_to_say():
    said = words(guard_of("repeat", 5), [READ] * 5)
    assert said == "read_file with the same arguments and result, 5 times in 5 rounds"


def test_evidence_that_the_request_shows_is_not_called_remembered():
    said = words(guard_of("repeat", 2), [LIST, TEST, bash("w", "x"), READ, READ], keeps=3)
    assert said == "read_file with the same arguments and result, 2 times in 2 rounds"


def test_compactions_speak_for_themselves():
    agent = ForgetfulAgent(guard_of("compaction", 2), session="s")
    agent.does(LIST, READ)
    for _ in range(2):
        agent.compact()
        ticket = agent.does(LIST, READ)
    said = ticket.verdict.evidence[0].what
    assert said == "the same two calls after each of 2 compactions, and nothing new"
