"""The examples run as they are, against the gateway as it is installed."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.serving import clean_environment, served
from tests.docs.test_readme import README, ROOT

from looptrap.config import load
from looptrap.testing import FakeProvider

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SETTINGS = sorted((ROOT / "examples").glob("*.toml"))
LOOPING = [one for one in EXAMPLES if one.stem.endswith("_loop") or one.stem == "in_process"]
REFUSED = "refused by identical-conversation after 6 equal calls"


def run(example: Path, **env: str) -> list[str]:
    """Run an example and return its lines."""
    result = subprocess.run(
        [sys.executable, "-W", "error", example],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**clean_environment(), **env},
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


@pytest.fixture(scope="module")
def provider():
    with FakeProvider.running() as provider:
        yield provider


@pytest.fixture(scope="module")
def gateway(provider, tmp_path_factory):
    with served(provider.url, tmp_path_factory.mktemp("gateway")) as url:
        yield url


@pytest.mark.parametrize("example", LOOPING, ids=lambda path: path.stem)
def test_the_sixth_equal_call_of_an_example_is_refused(example, provider, gateway):
    before = provider.calls
    openai = provider.url if example.stem == "in_process" else gateway
    *answered, last = run(
        example,
        OPENAI_BASE_URL=f"{openai}/v1",
        OPENAI_API_KEY="sk-test",
        ANTHROPIC_BASE_URL=gateway,
        ANTHROPIC_API_KEY="sk-ant-test",
    )
    assert [line.partition(":")[0] for line in answered] == [f"call {n}" for n in range(1, 6)]
    assert last == f"call 6: {REFUSED}"
    assert provider.calls - before == 5


@pytest.mark.parametrize("example", [*EXAMPLES, *SETTINGS], ids=lambda path: path.stem)
def test_an_example_is_read_at_a_glance(example):
    assert len(example.read_text("utf-8").splitlines()) <= 40


@pytest.mark.parametrize("example", SETTINGS, ids=lambda path: path.stem)
def test_an_example_of_settings_is_what_its_page_shows(example):
    assert load(example).warnings == ()
    page = README if example.stem == "team" else ROOT / "docs" / f"{example.stem}.md"
    assert f"```toml\n{example.read_text('utf-8')}```" in page.read_text("utf-8")


def test_there_is_an_example_for_every_way_in():
    assert {path.stem for path in EXAMPLES} >= {"openai_loop", "anthropic_loop", "in_process"}
    assert [path.stem for path in SETTINGS] == ["budgets", "team"]
