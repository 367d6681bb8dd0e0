"""What programs ask for at their first start is given for one run, and nothing is kept of it."""

import json

import pytest

from looptrap.cli import first_start
from looptrap.cli.client_program import BaseUrls, UserFiles
from looptrap.cli.client_table import find_program
from looptrap.cli.first_start import DEFAULT_MODELS, TRUST, return_home

OPENAI, ANTHROPIC, GEMINI = ({name: f"key of {name}"} for name in DEFAULT_MODELS)
HEADLESS = ["openhands", "--headless", "-t", "x"]


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a command in a folder of the home: its words, variables and notes."""
    monkeypatch.setattr(first_start.atexit, "register", lambda _clean: None)
    monkeypatch.setattr(first_start, "mkdtemp", lambda prefix: str(make(tmp_path / "lent")))

    def start(words, env=None, files=None, *, has_terminal=False):
        for name, text in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        user = UserFiles(env or {}, tmp_path, make(tmp_path / "work"), has_terminal)
        program, position = find_program(words)
        return program.point(words, position, user, BaseUrls("http://127.0.0.1:4200"))

    return start


def make(folder):
    folder.mkdir(exist_ok=True)
    return folder


def given(started, *names):
    return {name: started.env[name] for name in names if name in started.env}


# Models

MINI = "MSWEA_MODEL_NAME", "MSWEA_CONFIGURED"
MINI_FILE = ".config/mini-swe-agent/.env"


@pytest.mark.parametrize(
    ("env", "model"),
    [
        pytest.param(OPENAI, "openai/gpt-5.4", id="OpenAI"),
        pytest.param(ANTHROPIC, "anthropic/claude-sonnet-4-6", id="Anthropic"),
        pytest.param(GEMINI, "gemini/gemini-pro-latest", id="Gemini"),
        pytest.param(GEMINI | OPENAI, "openai/gpt-5.4", id="the first of several"),
    ],
)
def test_mini_gets_a_model_of_the_provider_whose_key_is_there(start, env, model):
    started = start(["mini", "-t", "x"], env)
    assert given(started, *MINI) == {"MSWEA_MODEL_NAME": model, "MSWEA_CONFIGURED": "true"}
    assert started.words == ["mini", "-t", "x"]
    [note] = started.notes
    assert model in note


@pytest.mark.parametrize(
    ("words", "env", "files", "expected"),
    [
        pytest.param(["-m", "m"], OPENAI, {}, {"MSWEA_CONFIGURED": "true"}, id="an argument"),
        pytest.param(["--model=m"], OPENAI, {}, {"MSWEA_CONFIGURED": "true"}, id="a long one"),
        pytest.param(["-c", "my.yaml"], OPENAI, {}, {"MSWEA_CONFIGURED": "true"}, id="a file"),
        pytest.param([], OPENAI | {"MSWEA_MODEL_NAME": "m"}, {},
                     {"MSWEA_MODEL_NAME": "m", "MSWEA_CONFIGURED": "true"}, id="a variable"),
        pytest.param([], OPENAI, {MINI_FILE: "MSWEA_MODEL_NAME='m'\n"},
                     {"MSWEA_CONFIGURED": "true"}, id="its settings"),
        pytest.param([], OPENAI, {MINI_FILE: "MSWEA_CONFIGURED='true'\n"}, {}, id="answered"),
        pytest.param([], OPENAI | {"MSWEA_GLOBAL_CONFIG_DIR": "/none"},
                     {MINI_FILE: "MSWEA_CONFIGURED='true'\n"},
                     {"MSWEA_MODEL_NAME": "openai/gpt-5.4", "MSWEA_CONFIGURED": "true"},
                     id="settings elsewhere"),
        pytest.param([], {}, {}, {}, id="no key"),
    ],
)  # fmt: skip
def test_mini_keeps_what_the_user_has_chosen(start, words, env, files, expected):
    started = start(["mini", *words], env, files)
    assert given(started, *MINI) == expected
    assert bool(started.notes) == (expected.get("MSWEA_MODEL_NAME") == "openai/gpt-5.4")


@pytest.mark.parametrize(
    ("env", "model", "key"),
    [
        pytest.param(OPENAI, "openai/gpt-5.4", "key of OPENAI_API_KEY", id="OpenAI"),
        pytest.param(ANTHROPIC, "anthropic/claude-sonnet-4-6", "key of ANTHROPIC_API_KEY",
                     id="Anthropic"),
        pytest.param(GEMINI, "gemini/gemini-pro-latest", "key of GEMINI_API_KEY", id="Gemini"),
        pytest.param({"LLM_API_KEY": "sk-x"}, "openai/gpt-5.4", "sk-x", id="its own variable"),
        pytest.param({"LLM_API_KEY": "sk-ant-x"}, "anthropic/claude-sonnet-4-6", "sk-ant-x",
                     id="its own, with a key of Anthropic"),
        pytest.param({"LLM_API_KEY": "AIzaX"} | OPENAI, "gemini/gemini-pro-latest", "AIzaX",
                     id="its own before others"),
    ],
)  # fmt: skip
def test_openhands_gets_a_model_by_the_key(start, env, model, key):
    started = start(HEADLESS, env)
    assert started.words == ["openhands", "--override-with-envs", "--headless", "-t", "x"]
    assert given(started, "LLM_MODEL", "LLM_API_KEY") == {"LLM_MODEL": model, "LLM_API_KEY": key}
    [note] = started.notes
    assert model in note


@pytest.mark.parametrize(
    ("env", "files", "expected"),
    [
        pytest.param({"LLM_MODEL": "m", "LLM_API_KEY": "k"}, {},
                     {"LLM_MODEL": "m", "LLM_API_KEY": "k"}, id="both are set"),
        pytest.param(OPENAI | ANTHROPIC | {"LLM_MODEL": "anthropic/claude-x"}, {},
                     {"LLM_MODEL": "anthropic/claude-x",
                      "LLM_API_KEY": "key of ANTHROPIC_API_KEY"}, id="a model"),
        pytest.param(OPENAI, {"work/.env": "LLM_MODEL=m\nLLM_API_KEY=k\n"}, {}, id="a file"),
    ],
)  # fmt: skip
def test_openhands_keeps_what_the_user_has_chosen(start, env, files, expected):
    started = start(HEADLESS, env, files)
    assert started.words[1] == "--override-with-envs"
    assert given(started, "LLM_MODEL", "LLM_API_KEY") == expected
    assert not started.notes


@pytest.mark.parametrize(
    ("words", "env", "files"),
    [
        pytest.param(HEADLESS, OPENAI, {".openhands/agent_settings.json": "{}"}, id="settings"),
        pytest.param(["openhands", "serve"], OPENAI, {}, id="another command"),
        pytest.param(HEADLESS, {}, {}, id="no key"),
    ],
)
def test_openhands_is_left_alone_otherwise(start, words, env, files):
    started = start(words, env, files)
    assert started.words == words
    assert given(started, "LLM_MODEL", "LLM_API_KEY") == {}


def test_a_flag_of_openhands_is_not_given_twice(start):
    words = [*HEADLESS, "--override-with-envs"]
    assert start(words, OPENAI).words == words


# Gemini CLI

SETTINGS = ".gemini/settings.json"
LOGIN = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
CHOSEN = {SETTINGS: '{"security": {"auth": {"selectedType": "oauth-personal"}}}'}
PROMPT = ["gemini", "-p", "x"]


def lent(tmp_path):
    return json.loads((tmp_path / "lent" / SETTINGS).read_text())


@pytest.mark.parametrize(
    ("env", "files"),
    [
        pytest.param(GEMINI, {}, id="a fresh machine"),
        pytest.param(GEMINI, {SETTINGS: '{"ui": {"theme": "Ayu"}}'}, id="other settings"),
        pytest.param({}, {".gemini/.env": "GEMINI_API_KEY=k"}, id="a key in its file"),
    ],
)
def test_gemini_gets_a_login_in_settings_of_its_own(start, tmp_path, env, files):
    started = start(PROMPT, env, files)
    assert started.env["GEMINI_CLI_HOME"] == str(tmp_path / "lent")
    assert lent(tmp_path) == json.loads(files.get(SETTINGS, "{}")) | LOGIN
    assert {name: (tmp_path / name).read_text() for name in files} == files
    assert (tmp_path / ".gemini").exists() == bool(files)
    assert "selectedType is gemini-api-key for this run" in started.notes[-1]


def test_the_files_of_the_user_are_there_for_gemini(start, tmp_path):
    files = {".gemini/GEMINI.md": "Be brief.", ".gemini/tmp/p/chat": "{}", ".env": "A=1"}
    start(PROMPT, GEMINI, files)
    assert {name: (tmp_path / "lent" / name).read_text() for name in files} == files


def test_what_gemini_leaves_is_moved_to_its_folder_and_the_rest_is_removed(start, tmp_path):
    start(PROMPT, GEMINI, {".gemini/tmp/old": "old"})
    home, own = tmp_path / "lent", tmp_path / ".gemini"
    for name in ("projects.json", "tmp/new", "history/p/x"):
        (home / ".gemini" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / ".gemini" / name).write_text(name)
    return_home(home, own)
    assert not home.exists()
    left = {str(one.relative_to(own)) for one in own.rglob("*") if one.is_file()}
    assert left == {"projects.json", "tmp/old", "tmp/new", "history/p/x"}


@pytest.mark.parametrize(
    ("words", "env", "files", "has_terminal", "trusted"),
    [
        pytest.param(PROMPT, {}, {}, True, True, id="a prompt"),
        pytest.param(["gemini", "--prompt=x"], {}, {}, True, True, id="a long option"),
        pytest.param(["gemini"], {}, {}, False, True, id="no terminal"),
        pytest.param(["gemini"], {}, {}, True, False, id="a person answers"),
        pytest.param([*PROMPT, "--skip-trust"], {}, {}, False, False, id="by an option"),
        pytest.param(PROMPT, {TRUST: "false"}, {}, False, False, id="by a variable"),
        pytest.param(PROMPT, {"GEMINI_RESTRICTED_MODE": "true"}, {}, False, False,
                     id="restricted"),
        pytest.param(PROMPT, {}, {"work": "DO_NOT_TRUST"}, False, False, id="not trusted"),
        pytest.param(PROMPT, {}, {"": "DO_NOT_TRUST"}, False, False, id="nor what is above"),
        pytest.param(PROMPT, {}, {"work": "TRUST_FOLDER"}, False, False, id="trusted for good"),
        pytest.param(PROMPT, {}, {"other": "TRUST_FOLDER"}, False, True, id="another folder"),
    ],
)  # fmt: skip
def test_gemini_trusts_a_folder_for_one_run_where_nobody_has_decided(
    start, tmp_path, words, env, files, has_terminal, trusted
):
    decided = {str(tmp_path / name): level for name, level in files.items()}
    known = {".gemini/trustedFolders.json": json.dumps(decided)} if files else {}
    started = start(words, env, CHOSEN | known, has_terminal=has_terminal)
    assert started.env.get(TRUST) == ("true" if trusted else env.get(TRUST))
    assert len(started.notes) == trusted
    assert started.words == words


@pytest.mark.parametrize(
    ("env", "files", "has_terminal"),
    [
        pytest.param(GEMINI, CHOSEN, False, id="a login is chosen"),
        pytest.param(GEMINI | {"GOOGLE_GENAI_USE_GCA": "true"}, {}, False, id="by a variable"),
        pytest.param({}, {}, False, id="no key"),
    ],
)
def test_gemini_keeps_its_home_otherwise(start, tmp_path, env, files, has_terminal):
    started = start(PROMPT, env, files, has_terminal=has_terminal)
    assert "GEMINI_CLI_HOME" not in started.env
    assert not (tmp_path / "lent").exists()


def test_in_a_terminal_gemini_asks_for_the_login(start):
    assert "GEMINI_CLI_HOME" not in start(["gemini"], GEMINI, has_terminal=True).env


def test_no_program_is_told_to_approve_tools(start):
    for words in (PROMPT, HEADLESS, ["mini", "-t", "x"], ["qwen", "-p", "x"]):
        started = start(words, OPENAI | GEMINI)
        added = [one for one in started.words if one not in words]
        assert set(added) <= {"--override-with-envs", "--auth-type", "openai"}
