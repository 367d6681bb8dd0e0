"""The public names are typed as people use them."""

import subprocess
import sys
from pathlib import Path

import pytest

import looptrap.retry

USE = Path(__file__).with_name("typed_use.py")


@pytest.mark.slow
def test_a_users_code_is_clean_under_mypy_strict(tmp_path):
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, USE]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_public_name_is_there():
    assert [name for name in looptrap.retry.__all__ if not hasattr(looptrap.retry, name)] == []
    assert sorted(looptrap.retry.__all__) == sorted(set(looptrap.retry.__all__))
