"""SECURITY.md names a test for each promise, and each of these tests exists."""

import ast
import re

import pytest
from tests.docs.test_readme import ROOT

PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
PROMISES = PAGE.partition("## What is promised")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (?!promise|---)(.+?) \| (.+) \|$", PROMISES, re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def names_in(path):
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {one.name for one in ast.walk(tree) if isinstance(one, defined)}


@pytest.mark.parametrize(("promise", "held_by"), ROWS, ids=[row[0][:60] for row in ROWS])
def test_a_promise_is_held_by_tests_that_exist(promise, held_by):
    named = TEST.findall(held_by)
    assert named
    for path, name in named:
        assert name in names_in(path), f"{path} has no {name}"


def test_there_are_promises_and_no_times_of_response():
    assert len(ROWS) > 10
    assert not re.search(r"within \w+ (working days|days|weeks|hours)", PAGE)
