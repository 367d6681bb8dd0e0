"""A round: which result belongs to which call."""

import pytest

from looptrap.detect.round import Round
from looptrap.dialect.model import Message, ToolCall, ToolResult


def round_of(calls, results):
    calls = tuple(ToolCall(id_, name, "{}") for id_, name in calls)
    results = tuple(ToolResult(id_, text, name=name) for id_, name, text in results)
    return Round(Message("assistant", "", calls), [Message("tool", "", (), results)])


@pytest.mark.parametrize(
    ("calls", "results", "texts"),
    [
        pytest.param([("a", "ls")], [("a", "", "x")], ["x"], id="the same id"),
        pytest.param(
            [("a", "ls"), ("b", "ls")],
            [("b", "", "second"), ("a", "", "first")],
            ["first", "second"],
            id="ids in another order",
        ),
        pytest.param([("", "ls")], [("", "ls", "x")], ["x"], id="no ids, the same name"),
        pytest.param([("", "ls")], [("ls-17", "ls", "x")], ["x"], id="an id of the result only"),
        pytest.param(
            [("", "ls"), ("", "cat")],
            [("cat-1", "cat", "c"), ("ls-1", "ls", "l")],
            ["l", "c"],
            id="ids of results only, in another order",
        ),
        pytest.param([("a", "ls")], [], [None], id="no result"),
        pytest.param(
            [("a", "ls"), ("b", "cat")], [("b", "", "c")], [None, "c"], id="one result is missing"
        ),
    ],
)
def test_results_are_matched_with_calls(calls, results, texts):
    found = round_of(calls, results).results
    assert [result and result.text for result in found] == texts
