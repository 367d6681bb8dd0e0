"""`looptrap setup`: what is printed, and how it is merged into files that others wrote."""

import json
import tomllib
from datetime import datetime

import pytest
import yaml
from click.testing import CliRunner

from looptrap.cli import main
from looptrap.cli.setup import PROGRAM_NAMES

URL = "http://127.0.0.1:4100"
FILES = {
    "aider": ".aider.conf.yml",
    "claude": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/.env",
    "opencode": ".config/opencode/opencode.json",
    "qwen": ".qwen/settings.json",
}


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """Run the command with an empty home."""
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return lambda *arguments: CliRunner().invoke(main, ["setup", *arguments])


def files_in(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_without_write_nothing_is_written(setup, tmp_path, name):
    shown = setup(name, "--gateway", "http://gate.example:8080")
    assert shown.exit_code == 0
    assert "http://gate.example:8080" in shown.stdout or name == "vscode"
    assert files_in(tmp_path) == {}


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_made_and_stays_as_it_is_the_second_time(setup, tmp_path, name):
    shown = setup(name, "--write")
    assert shown.exit_code == 0
    path = tmp_path / FILES[name]
    assert f"{path} is written." in shown.stdout
    assert URL in path.read_text()
    before = files_in(tmp_path)
    assert f"{path} has these lines already." in setup(name, "--write").stdout
    assert files_in(tmp_path) == before


JSON = '{\n    "theme": "dark",\n    "env": {"A": "b", "ANTHROPIC_BASE_URL": "https://old"}\n}\n'
TOML = """# mine
model = "gpt-5"
model_provider = "openai"  # as ever

[model_providers.other]
base_url = "https://other"
when = 2026-01-01

[profiles.x]
model = "o3"
"""
YAML = """# mine
model: sonnet
set-env:
- A=b
dark-mode: true
"""
ENV = "# mine\nexport GOOGLE_GEMINI_BASE_URL=https://old\nGEMINI_API_KEY=k\n"


@pytest.mark.parametrize(
    ("name", "text", "read", "expected"),
    [
        pytest.param("claude", JSON, json.loads,
                     {"theme": "dark", "env": {"A": "b", "ANTHROPIC_BASE_URL": URL}}, id="JSON"),
        pytest.param("claude", "\n", json.loads, {"env": {"ANTHROPIC_BASE_URL": URL}},
                     id="an empty file"),
        pytest.param("codex", TOML, tomllib.loads, tomllib.loads(TOML) | {
            "model_provider": "looptrap",
            "model_providers": {
                "other": tomllib.loads(TOML)["model_providers"]["other"],
                "looptrap": {"name": "Looptrap", "base_url": f"{URL}/v1",
                             "wire_api": "responses", "env_key": "OPENAI_API_KEY"},
            },
        }, id="TOML"),
        pytest.param("aider", YAML, yaml.safe_load, yaml.safe_load(YAML) | {
            "openai-api-base": f"{URL}/v1",
            "set-env": ["A=b", f"ANTHROPIC_API_BASE={URL}", f"GEMINI_API_BASE={URL}/v1beta"],
        }, id="YAML"),
        pytest.param("gemini", ENV, str.splitlines,
                     ["# mine", f"GOOGLE_GEMINI_BASE_URL={URL}", "GEMINI_API_KEY=k"], id="env"),
    ],
)  # fmt: skip
def test_everything_else_in_a_file_stays(setup, tmp_path, name, text, read, expected):
    path = tmp_path / FILES[name]
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o640)
    shown = setup(name, "--write")
    assert shown.exit_code == 0, shown.output
    assert read(path.read_text()) == expected
    assert ("# mine" in text) == ("# mine" in path.read_text())
    assert path.stat().st_mode & 0o777 == 0o640
    [backup] = path.parent.glob(f"{path.name}.bak-{datetime.now():%Y}*")
    assert backup.read_text() == text
    assert f"the earlier file is {backup.name}" in shown.stdout


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        pytest.param("claude", "{ // mine\n}", "is not plain JSON", id="JSON with comments"),
        pytest.param("claude", "[]", "must be an object", id="a list"),
        pytest.param("claude", '{"env": []}', "must have a table", id="a list in it"),
        pytest.param("codex", "model = ", "is not valid TOML", id="no TOML"),
        pytest.param("codex", "model_providers = { looptrap = { name = 'x' } }",
                     "cannot change", id="TOML in one line"),
        pytest.param("aider", "set-env: [A=b]", "on one line", id="YAML in one line"),
        pytest.param("aider", "{model: x}", "cannot change", id="YAML in braces"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_merged_is_left_as_it_is(setup, tmp_path, name, text, line):
    path = tmp_path / FILES[name]
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    shown = setup(name, "--write")
    assert shown.exit_code == 2
    assert (shown.stderr.count("\n"), shown.stdout) == (1, "")
    assert line in shown.stderr
    assert files_in(tmp_path) == {FILES[name]: text}


def test_a_link_stays_a_link(setup, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / ".claude").mkdir()
    real = tmp_path / "dotfiles" / "claude.json"
    real.write_text("{}")
    (tmp_path / ".claude" / "settings.json").symlink_to(real)
    assert setup("claude", "--write").exit_code == 0
    assert (tmp_path / ".claude" / "settings.json").is_symlink()
    assert URL in real.read_text()


def test_gemini_gets_a_login_only_if_it_has_none(setup, tmp_path):
    setup("gemini", "--write")
    chosen = tmp_path / ".gemini" / "settings.json"
    assert json.loads(chosen.read_text())["security"]["auth"]["selectedType"] == "gemini-api-key"
    chosen.write_text('{"security": {"auth": {"selectedType": "oauth-personal"}}}')
    shown = setup("gemini", "--write")
    assert "oauth-personal" in chosen.read_text()
    assert "Code Assist" in shown.stderr


def test_a_provider_that_was_set_before_is_named(setup, tmp_path):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(
        '{"env": {"ANTHROPIC_BASE_URL": "https://old.example"}}'
    )
    shown = setup("claude", "--write")
    assert "looptrap serve --upstream https://old.example" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(["cursor", "--write"], "--write: does not apply to cursor", id="a GUI"),
        pytest.param(["claude", "--gateway", "x"], "--gateway: 'x': scheme", id="no URL"),
    ],
)
def test_a_mistake_is_one_clear_line(setup, arguments, line):
    shown = setup(*arguments)
    assert (shown.exit_code, shown.stderr.count("\n"), shown.stdout) == (2, 1, "")
    assert shown.stderr.startswith(line)


def test_an_unknown_program_is_a_usage_error(setup):
    shown = setup("emacs")
    assert shown.exit_code == 2
    assert "'claude'" in shown.stderr
