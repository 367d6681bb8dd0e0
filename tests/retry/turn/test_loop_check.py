"""The same tool call three times: the model is told to try something else."""

import pytest

from looptrap.retry import Turn

INTERRUPTION = (
    "You have called the same tool 3 times with the same arguments. The approach is not working."
    " Try a different strategy."
)


def told(*uses):
    """Return what each of these tool calls is answered with."""
    with Turn() as turn:
        return [turn.tool_message(*use) for use in uses]


def test_the_third_equal_call_is_interrupted():
    use = ("search", {"query": "flights", "page": 1}, "no results")
    assert told(use, use, use, use) == [None, None, INTERRUPTION, INTERRUPTION]


def test_key_order_and_spacing_make_no_difference():
    assert (
        told(
            ("search", {"query": "flights", "page": 1}, "none"),
            ("search", '{"page": 1,   "query": "flights"}', "none"),
            ("search", {"page": 1, "query": "flights"}, "none"),
        )[-1]
        == INTERRUPTION
    )


def test_without_results_the_arguments_decide():
    use = ("search", {"query": "flights"})
    assert told(use, use, use)[-1] == INTERRUPTION


@pytest.mark.parametrize(
    "third",
    [
        ("search", {"query": "trains"}, "none"),
        ("browse", {"query": "flights"}, "none"),
        ("search", {"query": "flights"}, "LH 123 at 7:40"),
    ],
    ids=["other arguments", "another tool", "another result"],
)
def test_what_is_not_the_same_is_not_interrupted(third):
    use = ("search", {"query": "flights"}, "none")
    assert told(use, use, third) == [None, None, None]


def test_others_in_between_do_not_hide_it():
    use = ("search", {"query": "flights"}, "none")
    other = ("read", {"file": "notes.txt"}, "buy milk")
    assert told(use, other, use, ("read", {"file": "b.txt"}, "eggs"), use)[-1] == INTERRUPTION


def test_polling_is_honest_for_longer():
    use = ("get_status", {"job": "build-7"}, "running")
    assert told(*[use] * 4) == [None] * 4
    assert told(*[use] * 20)[-1] == INTERRUPTION


@pytest.mark.parametrize(
    "value",
    [None, "", "not json", 3, [1, 2], {"a": object()}, object, b"\xff"],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_handed_in_is_taken(value):
    with Turn() as turn:
        for _ in range(3):
            turn.tool_message("tool", value, value)


def test_each_agent_has_its_own_history():
    use = ("search", {"query": "flights"}, "none")
    with Turn() as outer, Turn() as inner:
        assert [turn.tool_message(*use) for turn in (outer, inner, outer, inner)] == [None] * 4
