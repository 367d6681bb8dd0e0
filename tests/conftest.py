"""What all tests share."""

import os
import shutil

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


@pytest.fixture
def needs():
    """Return the path of a program that a test drives for real; without it the test is skipped.

    In CI a missing part is a failure: a skip nobody reads is no test.
    """

    def find(program: str, package: str) -> str:
        path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
        if path is None:
            line = f"{program} is missing: install the package {package}"
            if os.environ.get("CI"):
                pytest.fail(line)
            pytest.skip(line)
        return path

    return find
