"""What all tests share."""

import os
import shutil
from collections.abc import Sequence

import pytest
from tests.examples import load_profile

load_profile()


@pytest.fixture
def needs(find_part):
    """Return the path of a program that a test drives for real; without it the test is skipped."""
    return lambda program, package: find_part([program], package)


@pytest.fixture(scope="session")
def find_part():
    """Return the path of the first of some programs that is there; without any the test is skipped.

    In CI a missing part is a failure: a skip nobody reads is no test.
    """

    def find(programs: Sequence[str], package: str) -> str:
        places = f"{os.environ['PATH']}:/usr/sbin"
        for program in programs:
            if (path := shutil.which(program, path=places)) is not None:
                return path
        line = f"{programs[0]} is missing: install the package {package}"
        if os.environ.get("CI"):
            pytest.fail(line)
        pytest.skip(line)

    return find
