"""The image: what its build installs is whole, and runs as nobody where nothing can be written."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.deploy.files import DOCKERFILE, ROOT
from tests.store.serving import PATIENCE, free_port, until

from looptrap import __version__

TEXT = DOCKERFILE.read_text("utf-8")
COPIED = [
    path
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", TEXT, re.MULTILINE)
    for path in line.split()
]
USER = re.search(r"^USER ([1-9]\d*):\1$", TEXT, re.MULTILINE)[1]
FOLDER = re.search(r"^WORKDIR (/var\S+)", TEXT, re.MULTILINE)[1]
HEALTH, ENTRYPOINT, CMD = (
    json.loads(re.search(rf"^ *{word} (\[.+\])$", TEXT, re.MULTILINE)[1])
    for word in ("CMD", "ENTRYPOINT", "^CMD")
)
BIN = Path(sys.executable).parent

# As the engine does: nothing can be written but the folder, and there is nothing to be had.
CONTAINED = """
mount --bind "$FOLDER" "$FOLDER"
mount -o remount,bind,ro /
cd "$FOLDER"
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""


def test_hadolint_has_nothing_to_say():
    done = subprocess.run(
        [BIN / "hadolint", DOCKERFILE], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_image_is_small_pinned_and_not_roots():
    stages = re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE)
    assert stages == ["${PYTHON_IMAGE}"] * 2
    (base,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", TEXT, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim", base)
    assert f"install -d -o {USER} -g {USER} -m 0700 {FOLDER}" in TEXT
    assert f"looptrap:{__version__} " in TEXT
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    assert set(re.findall(r"looptrap:(\d\S+)", page)) == {__version__}
    assert f"--build-arg PYTHON_IMAGE={base}@sha256:" in page


def test_all_that_the_build_downloads_is_pinned_by_hashes():
    uncommented = [line for line in TEXT.splitlines() if not line.startswith("#")]
    commands = re.sub(r"\\\n\s+", "", "\n".join(uncommented))
    downloading = re.findall(r"pip (?:--python \S+ )?(?:install|wheel|download) [^&\n]+", commands)
    assert len(downloading) == 4
    first, *others = downloading
    assert "--require-hashes --only-binary :all: --requirement requirements.lock" in first
    for command in others:
        is_offline = "--no-index --find-links wheels" in command
        assert is_offline or "--no-deps --no-build-isolation" in command, command


def test_the_image_copies_what_there_is_and_the_engine_is_sent_nothing_else():
    assert all((ROOT / path).exists() for path in COPIED)
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    everything, *rules = [line for line in lines if not line.startswith("#")]
    assert everything == "*"
    assert [rule[1:] for rule in rules if rule.startswith("!")] == COPIED


def test_the_extras_that_are_named_exist():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (named,) = re.findall(r"--build-arg EXTRAS=\[(\S+)\]", TEXT)
    assert set(named.split(",")) <= set(known["optional-dependencies"])


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Install the wheel that the build makes, from the copied files alone.

    What it depends on is taken from the environment of the tests, which has it.
    """
    (made,) = re.findall(r"pip (wheel .+ \.)$", TEXT, re.MULTILINE)
    source, installed = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("image")
    for path in COPIED:
        copy = shutil.copytree if (ROOT / path).is_dir() else shutil.copy
        copy(ROOT / path, source / path)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    for command in (made.split(), ["install", "--no-deps", "--target", installed]):
        given = [*pip, *command, *source.glob("wheels/*.whl")]
        done = subprocess.run(given, cwd=source, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return installed


def files_in(folder):
    return {
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.slow
def test_what_is_installed_is_whole_and_compiled(image):
    assert files_in(image / "looptrap") == files_in(ROOT / "src" / "looptrap")
    for module in (image / "looptrap").rglob("*.py"):
        assert list(module.parent.glob(f"__pycache__/{module.stem}.*.pyc")), module


class Container:
    """A process in namespaces of its own, as near to a container as it gets without an engine."""

    def __init__(self, image, folder):
        self.folder = folder
        self.ports = {"4100": free_port(), "4101": free_port()}
        listen, admin = (f"127.0.0.1:{port}" for port in self.ports.values())
        declared = dict(re.findall(r"(PYTHON\w+)=(\S+)", TEXT))
        self.env = {
            **declared,
            "PATH": f"{image / 'bin'}:{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(image),
            "FOLDER": str(folder),
            "LOOPTRAP_LISTEN": listen,
            "LOOPTRAP_ADMIN": admin,
        }

    def command(self, *arguments):
        who = [f"--map-user={USER}", f"--map-group={USER}", "--keep-caps"]
        return ["unshare", "--user", *who, "--mount", "sh", "-ec", CONTAINED, "sh", *arguments]

    def run(self, *arguments):
        """Run something in there, and return how it ended."""
        command = self.command(*arguments)
        return subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=PATIENCE
        )

    def is_healthy(self):
        command = [part.replace("4101", str(self.ports["4101"])) for part in HEALTH]
        return self.run(*command).returncode == 0


@pytest.fixture
def container(image, tmp_path, needs):
    needs("setpriv", "util-linux")
    one = Container(image, tmp_path)
    if (tried := one.run("true")).returncode != 0:
        pytest.skip(f"this machine lets nobody make namespaces: {tried.stderr}")
    return one


def test_it_runs_as_nobody_where_nothing_else_can_be_written(container):
    asked = "import os, looptrap; print(os.getuid(), looptrap.__file__); open('../x', 'w')"
    done = container.run("python", "-c", asked)
    assert done.stdout.split() == [USER, f"{container.env['PYTHONPATH']}/looptrap/__init__.py"]
    assert "Read-only file system" in done.stderr


def test_it_serves_is_healthy_keeps_all_in_its_folder_and_stops_when_told(container):
    assert not container.is_healthy()
    command = container.command(*ENTRYPOINT, *CMD)
    with subprocess.Popen(command, env=container.env, stderr=subprocess.PIPE) as process:
        try:
            until(container.is_healthy)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    kept = {path.name for path in container.folder.iterdir()}
    assert {"looptrap.db", "looptrap.state"} <= kept
    assert all(name.startswith("looptrap.") for name in kept)
