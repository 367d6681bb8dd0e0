"""What all tests share."""

import gc
import logging
import os
import shutil
from collections.abc import Sequence
from glob import glob
from typing import NoReturn

import pytest
from tests.examples import load_profile

load_profile()

SLOW_PATHS = (
    "tests/cli/test_run",  # and test_run_process
    "tests/cli/test_serve.py",
    "tests/exhaustion/",
    "tests/frameworks/",
    "tests/release/",
    "tests/replay/test_subprocess_worker.py",
    "tests/store/redis/test_cluster.py",
    "tests/test_field.py",
    "tests/test_harnesses.py",
    "tests/test_scenes.py",
    "tests/wire/test_leftovers.py",
)
"""Where all tests are slow: they start processes, or go through everything in memory or through
all scenarios of LoopBench."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as slow the tests of slow paths, and all that drive a part that PyPI does not have."""
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        is_of_part = "find_part" in item.fixturenames or "postgres" in values
        if is_of_part or item.nodeid.startswith(SLOW_PATHS):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Keep the collector from going through all tests and modules again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def needs(find_part):
    """Return the path of a program that a test drives for real; without it the test is skipped."""
    return lambda program, package: find_part([program], package)


@pytest.fixture(scope="session")
def find_part():
    """Return the path of the first of some programs that is there; without any, skip the test."""

    def find(programs: Sequence[str], package: str) -> str:
        places = f"{os.environ['PATH']}:/usr/sbin"
        for program in programs:
            found = shutil.which(program, path=places) or next(iter(glob(program)), None)  # noqa: PTH207
            if found is not None:
                return found
        skip_without_part(f"{programs[0]} is missing: install the package {package}")

    return find


def skip_without_part(line: str) -> NoReturn:
    """Skip a test that lacks a part; in CI it fails: a skip nobody reads is no test."""
    if os.environ.get("CI"):
        pytest.fail(line)
    pytest.skip(line)


@pytest.fixture(scope="session")
def postgres(find_part):
    """Return a PostgreSQL that all tests of this process share, each in a schema of its own."""
    find_part(["initdb", "/usr/lib/postgresql/*/bin/initdb"], "postgresql")
    from tests.database.postgres_server import postgres_server

    with postgres_server() as server:
        yield server


@pytest.fixture(autouse=True)
def no_filters_of_other_gateways():
    """Take out the filters of gateways that earlier tests in this process have not closed."""
    for name in ("looptrap", "asyncio"):
        logging.getLogger(name).filters.clear()
