"""The command as it is installed: version, help, and no more imports than needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from looptrap import __version__
from looptrap.build import build_kind

LOOPTRAP = Path(sys.executable).with_name("looptrap")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LOOPTRAP, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_says_its_version():
    assert run("--version").stdout == f"looptrap, version {__version__} ({build_kind()})\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("looptrap in", {"incidents", "init"}, id="commands"),
        pytest.param("looptrap init --provider an", {"anthropic"}, id="values"),
        pytest.param("looptrap doctor --se", {"--send"}, id="options"),
    ],
)
def test_shells_complete_words(words, expected):
    env = {
        "_LOOPTRAP_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run([LOOPTRAP], capture_output=True, text=True, env=env, timeout=60)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == expected


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_the_commands(flag):
    shown = run(flag).stdout
    assert "check" in shown
    assert "presets" in shown


def test_output_in_a_pipe_has_no_colours():
    shown = run("presets")
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout


def test_help_and_version_load_nothing_heavy():
    listing = "import sys, looptrap.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    heavy = {"rich", "aiohttp", "uvloop", "httptools", "looptrap.config", "looptrap.wire"}
    assert heavy.isdisjoint(loaded)
