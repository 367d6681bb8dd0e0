"""Trying one thing after the other is told from variants of one attempt, also in memory."""

from itertools import count

import pytest
from tests.detect.test_remembered_round import DIGESTER, remembered, shell

from looptrap.detect.round import Round
from looptrap.detect.signals.enumeration import is_enumeration
from looptrap.dialect.model import Message, ToolCall, ToolResult


def looks(*names):
    """Return rounds that look for files which are not there, the latest first."""
    return [
        shell(f"cat {name}.json", f"cat: {name}.json: No such file or directory") for name in names
    ]


def byte_of(name):
    return DIGESTER.words(f"{name}.json", 1)


def names_with_one_byte():
    """Return two names that memory cannot tell apart by their words."""
    first = byte_of("item")
    return "item", next(name for n in count() if byte_of(name := f"part{n}") == first)


NAMES = ["alpha", "beta", "gamma", "delta"]


@pytest.mark.parametrize("keep", [lambda one: one, remembered], ids=["shown", "remembered"])
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(NAMES, True, id="another file each time"),
        pytest.param([*NAMES, *names_with_one_byte()], True, id="two of which are kept alike"),
        pytest.param(["alpha", "beta", "alpha", "beta"], False, id="the same two files"),
        pytest.param(["alpha"] * 4, False, id="one file"),
        pytest.param([*NAMES, "alpha"], False, id="one of them again"),
    ],
)
def test_each_thing_is_another_one(names, expected, keep):
    assert is_enumeration([keep(one) for one in looks(*names)]) is expected


def pages(*numbers, failure='{"status": 404, "body": "Not Found"}'):
    """Return rounds that open numbered pages which are not there, the latest first."""
    return [
        Round(
            Message("assistant", "", (ToolCall("c", "fetch", f'{{"page":{number}}}'),)),
            (Message("tool", "", (), (ToolResult("c", failure),)),),
        )
        for number in numbers
    ]


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        pytest.param(pages(14, 13, 12, 11, 10), True, id="one after the other"),
        pytest.param(pages(10, 20, 30, 40), True, id="in steps of ten"),
        pytest.param(pages(14, 11, 12, 19), False, id="in no order"),
        pytest.param(pages(4, 3, 2, 1, failure="Error: no access"), False, id="all are refused"),
    ],
)
def test_things_are_counted(rounds, expected):
    assert is_enumeration(rounds) is expected
