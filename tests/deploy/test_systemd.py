"""The unit for systemd: its own reader takes it, it may do little, and it runs what there is."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.cli.serving import LOOPTRAP
from tests.deploy.files import ROOT, configured

FILE = ROOT / "deploy" / "systemd" / "looptrap.service"
TEXT = FILE.read_text("utf-8")
SETTINGS = dict(
    line.split("=", 1) for line in TEXT.splitlines() if "=" in line and not line.startswith("#")
)
EXPOSURE = 15
"""Tenths of what systemd's own scale from 0 to 10 may come to; services have 90 by default."""


@pytest.fixture
def analyse(needs, tmp_path):
    """Have systemd look at the unit, with our program in place of one that is not installed."""
    program = needs("systemd-analyze", "systemd")
    start, *_ = shlex.split(SETTINGS["ExecStart"])

    def run(*arguments, text=TEXT):
        (tmp_path / FILE.name).write_text(text.replace(start, str(LOOPTRAP)))
        command = [program, "--no-pager", *arguments, tmp_path / FILE.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    return run


def test_systemd_takes_it_without_a_word(analyse):
    assert analyse("verify", "--recursive-errors=no") == (0, "")


def test_systemd_would_find_a_setting_that_it_does_not_know(analyse):
    wrong = TEXT.replace("DynamicUser=", "DynamicUsers=")
    _, told = analyse("verify", "--recursive-errors=no", text=wrong)
    assert "DynamicUsers" in told


def test_it_may_do_little(analyse):
    asked = ["security", "--offline=true", f"--threshold={EXPOSURE}"]
    code, told = analyse(*asked)
    assert code == 0, told
    assert analyse(*asked, text=TEXT.replace("SystemCallFilter=", "#"))[0] != 0


@pytest.fixture
def config(tmp_path):
    _, *arguments = shlex.split(SETTINGS["ExecStart"])
    empty = tmp_path / "looptrap.toml"
    empty.touch()
    return configured(arguments, {arguments[-1]: empty}, {})


def test_an_empty_file_of_settings_will_do(config):
    assert config.warnings == ()


def test_the_page_installs_it_as_the_unit_says():
    shown = re.findall(r"^#     (.+)$", TEXT, re.MULTILINE)
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    assert len(shown) == 4
    assert all(f"\n{line}" in page for line in shown)
    program, *_, settings = shlex.split(SETTINGS["ExecStart"])
    assert f"{Path(program).parent}/pip install looptrap" in shown[0]
    assert f"{Path(program).parent}/looptrap init --output {settings}" in shown[1]
    assert shown[2].endswith(SETTINGS["EnvironmentFile"].removeprefix("-"))


def test_what_it_keeps_is_in_the_one_folder_that_it_may_write(config):
    assert SETTINGS["WorkingDirectory"] == f"/var/lib/{SETTINGS['StateDirectory']}"
    assert SETTINGS["ProtectSystem"] == "strict"
    for path in (config.gateway.state, config.history):
        assert "/" not in path


def test_it_has_time_and_files_enough(config):
    assert int(SETTINGS["TimeoutStopSec"]) > config.gateway.grace
    assert int(SETTINGS["LimitNOFILE"]) > 2 * config.gateway.server_limits.max_connections
