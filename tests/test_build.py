"""Which build runs: compiled or interpreted."""

from looptrap.build import build_kind, mypyc_attr
from looptrap.wire import request


def test_the_kind_of_build_is_that_of_the_modules_on_the_path_of_a_call():
    assert build_kind() == ("interpreted" if request.__file__.endswith(".py") else "compiled")


def test_marks_for_the_compiler_leave_a_class_as_it_is():
    assert mypyc_attr(allow_interpreted_subclasses=True)(dict) is dict
