"""What is published: built as for a release, installed where nothing else is, used as by a user."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from tests.docs.serving import clean_environment

from looptrap import __version__
from looptrap.testing import FakeProvider

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "looptrap"
EXAMPLES = ROOT / "examples"


def run(*command: str | Path, **env: str) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**clean_environment(), **env},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the sdist, and the wheel from it, as a release does."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel, and what it needs, into an environment of its own."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    return folder / "bin"


def test_the_names_carry_the_version(built):
    assert sorted(path.name for path in built.iterdir()) == [
        f"looptrap-{__version__}-py3-none-any.whl",
        f"looptrap-{__version__}.tar.gz",
    ]


def test_the_wheel_holds_the_package_whole_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = run("git", "-C", ROOT, "ls-files", "src/looptrap") if (ROOT / ".git").exists() else ""
    wanted = {name.removeprefix("src/") for name in tracked.splitlines()} or held
    assert held >= wanted
    assert {Path(name).parts[0] for name in held} == {"looptrap"}
    assert not [name for name in held if "__pycache__" in name or name.endswith((".db", ".state"))]


def test_the_sdist_has_what_tests_and_readers_need(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert held >= {
        "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "Makefile", "pyproject.toml",
        "src/looptrap/py.typed", "docs/tutorial.md", "tests/engine/test_guard.py",
        "deploy/compose/compose.yaml",
    }  # fmt: skip
    assert not [name for name in held if name.endswith((".db", ".state", ".pyc"))]


def test_it_runs_where_nothing_else_is_installed(installed, tmp_path):
    assert run(installed / "looptrap", "--version").strip().endswith(f"{__version__} (interpreted)")
    assert "default" in run(installed / "looptrap", "presets")
    assert "Caught on call 8" in run(installed / "looptrap", "demo")
    vendors = "openai", "anthropic", "langchain", "redis", "pytest"
    code = f"from importlib.util import find_spec; print([n for n in {vendors!r} if find_spec(n)])"
    assert run(installed / "python", "-c", code).strip() == "[]"


def test_the_examples_run_against_the_wheel(installed, tmp_path):
    run(installed / "python", "-m", "pip", "install", "--quiet", "openai>=3,<4")
    with FakeProvider.running() as provider:
        for example, told in (("in_process.py", "refused"), ("guarded_tool.py", "Blocked")):
            printed = run(
                installed / "python",
                EXAMPLES / example,
                OPENAI_BASE_URL=f"{provider.url}/v1",
                OPENAI_API_KEY="sk-test",
                PATH=f"{installed}{os.pathsep}{os.environ['PATH']}",
            )
            assert told in printed, example
