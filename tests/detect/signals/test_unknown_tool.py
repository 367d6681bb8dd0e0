"""Calls of tools that do not exist."""

import pytest
from tests.detect.runs import Use, count, says, together
from tests.detect.signals.steps import LS, case, in_both_dialects


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "tools", "expected"),
    [
        case([Use("browse", {"n": n}, "?") for n in range(4)], ["bash"], 4, id="not offered"),
        case([LS] * 4, ["bash"], 0, id="offered"),
        case([LS] * 4, [], 0, id="none offered: nothing to compare with"),
        case([Use("browse", {}, "?")] * 3 + [LS], ["bash"], 0, id="then one that is"),
        case([Use("browse", {}, "?"), LS, Use("browse", {}, "?")], ["bash"], 1, id="in a row"),
        case([together(LS, Use("browse", {}, "?"))] * 3, ["bash"], 0, id="along with one that is"),
        case([Use("browse", {}, "?")] * 3 + [says("Hm.")], ["bash"], 0, id="then only words"),
        case(
            [Use("browse", {"n": n}, "Error: unknown tool 'browse'") for n in range(3)],
            [],
            3,
            id="the results say so",
        ),
        case(
            [Use("browse", {"n": n}, "Tool browse does not exist.") for n in range(3)],
            ["browse"],
            3,
            id="the results say so of one that is offered",
        ),
        case(
            [Use("calc", {"q": n}, "Action 'calc' don't exist, use one of: x") for n in range(3)],
            [],
            3,
            id="an action that does not exist",
        ),
        case(
            [Use("calc", {"q": n}, "tried to call unavailable tool 'calc'") for n in range(3)],
            [],
            3,
            id="a tool that is unavailable",
        ),
        case(
            [Use("sql", {"q": n}, "ERROR: function area(int) does not exist") for n in range(3)],
            [],
            0,
            id="a function of the program is not the tool",
        ),
    ],
)
def test_unknown_tool(write, steps, tools, expected):
    assert count("unknown_tool", write, steps, tools=tools) == expected
