"""The unit tests of the dashboard's JavaScript, with node's own test runner."""

import os
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent


def test_modules_of_the_dashboard(needs):
    files = sorted(FOLDER.glob("*.test.js"))
    assert files
    finished = subprocess.run(
        [needs("node", "nodejs"), "--test", *files],
        env={**os.environ, "TZ": "UTC"},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
