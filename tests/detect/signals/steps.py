"""Steps that the runs of several signals are made of, and how their tables are written."""

import pytest
from tests.detect.runs import DIALECTS, Use, bash, says

WORDS = "parser lexer token grammar syntax visitor walker emitter linker loader buffer".split()
LS, CAT = bash("ls", "a.txt"), bash("cat a.txt", "hello")
NO_FILE = "cat: No such file or directory"
GOODBYE = says("Thank you, and goodbye! Have a wonderful day.")

in_both_dialects = pytest.mark.parametrize(
    "write", [pytest.param(write, id=name) for name, write in DIALECTS.items()]
)
case = pytest.param


def edit(old, result="Error: old text not found"):
    return Use("edit", {"path": "total.py", "old": old, "new": "return sum(xs) + 1"}, result)


def reading(page):
    """A call without arguments that brings another page each time."""
    lines = range(page * 40, page * 40 + 40)
    return Use("scroll_down", {}, "\n".join(f"{n * 7919 % 1000} = {n * n}" for n in lines))
