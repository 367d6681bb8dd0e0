"""Which Python `make` takes: an optimised one where there is a choice."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from looptrap.cli import interpreter

ROOT = Path(__file__).parent.parent
USED = "-fprofile-use -fprofile-correction"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, True, id="asked for"
        ),
        pytest.param(
            {"CONFIG_ARGS": "", "PGO_PROF_GEN_FLAG": "-f", "PGO_PROF_USE_FLAG": USED},
            False,
            id="configured without",
        ),
        pytest.param(
            {"CONFIG_ARGS": "", "PGO_PROF_GEN_FLAG": "-f", "PGO_PROF_USE_FLAG": ""},
            True,
            id="Debian's, whose flags are taken out afterwards",
        ),
        pytest.param({}, False, id="nothing known"),
    ],
)
def test_a_build_is_optimised_if_a_profile_guided_it(settings, expected):
    assert interpreter.is_optimised(settings.get) is expected


def test_it_says_what_it_is_as_a_program():
    done = subprocess.run([sys.executable, interpreter.__file__], capture_output=True, text=True)
    assert done.stdout.strip() == interpreter.describe()
    assert done.returncode == (not interpreter.is_optimised())


FAKES = {"plain": (1, 0), "fast": (0, 0), "half": (0, 1)}
"""Pythons: what `interpreter.py` and `venv` exit with."""


@pytest.mark.parametrize(
    ("found", "given", "chosen"),
    [
        pytest.param("plain fast", "", "fast", id="the optimised one"),
        pytest.param("fast plain", "", "fast", id="the first is optimised"),
        pytest.param("half fast", "", "fast", id="one that cannot make environments is no choice"),
        pytest.param("missing plain half", "", "python3", id="none: python3"),
        pytest.param("fast", "plain", "plain", id="the user's own wins"),
    ],
)
def test_make_takes_an_optimised_python(tmp_path, found, given, chosen):
    if shutil.which("make") is None:
        pytest.skip("make is missing: install the package make")
    venv, names = tmp_path / "venv", [*FAKES, "python3"]
    for name in names:
        asked, made = FAKES.get(name, (1, 0))
        file = tmp_path / name
        file.write_text(
            "#!/bin/sh\n"
            f'case "$*" in *interpreter.py) echo fake; exit {asked};; *venv*) ;; *) exit;; esac\n'
            f"[ {made} = 0 ] && mkdir -p {venv} && echo {name} >{venv}/made-by\n"
        )
        file.chmod(0o755)
    command = ["make", "-C", ROOT, f"VENV={venv}", f"PYTHONS={found}", f"PYTHON={given}"]
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(
        [*command, venv / ".made"], env={"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (venv / "made-by").read_text().strip() == chosen
    assert (venv / ".made").exists()
