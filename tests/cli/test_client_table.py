"""The table of programs: how each command is pointed at a gateway, and whose calls go where."""

import json
from pathlib import Path

import pytest

from looptrap.cli.client_program import BaseUrls, UserFiles
from looptrap.cli.client_table import ANY_PROGRAM, CHATGPT_URL, PROGRAMS, find_program
from looptrap.cli.setup import PROGRAM_NAMES
from looptrap.errors import ConfigError

GATEWAY = "http://127.0.0.1:4200"
CODEX_PROVIDER = [
    "-c", 'model_provider="looptrap"',
    "-c", 'model_providers.looptrap.name="Looptrap"',
    "-c", f'model_providers.looptrap.base_url="{GATEWAY}/v1"',
    "-c", 'model_providers.looptrap.wire_api="responses"',
]  # fmt: skip
KEY_OF_ENV = ["-c", 'model_providers.looptrap.env_key="OPENAI_API_KEY"']
KEY_OF_LOGIN = ["-c", "model_providers.looptrap.requires_openai_auth=true"]
PROVIDERS = ".cline/data/settings/providers.json"
SETTINGS = ["--settings", json.dumps({"env": {"ANTHROPIC_BASE_URL": GATEWAY}})]


@pytest.fixture
def user(tmp_path):
    """Return the user with these variables and files."""

    def user(env=None, files=None):
        for name, text in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return UserFiles(env or {}, tmp_path)

    return user


def point(words, user, configured=None):
    program, position = find_program(words)
    known = program.configured(user) if configured is None else configured
    return program.point(words, position, user, BaseUrls(GATEWAY, known))


@pytest.mark.parametrize(
    ("words", "name", "position"),
    [
        pytest.param(["claude", "-p", "x"], "claude", 0, id="a name"),
        pytest.param(["/opt/bin/codex", "exec"], "codex", 0, id="a path"),
        pytest.param(["npx", "-y", "@openai/codex@latest", "exec"], "codex", 2, id="a package"),
        pytest.param(["uvx", "aider-chat"], "aider", 1, id="another package"),
        pytest.param(
            ["npx", "--package", "@openai/codex", "codex", "exec"], "codex", 3, id="an option"
        ),
        pytest.param(["uvx", "--python", "3.12", "aider"], "aider", 3, id="an option and a value"),
        pytest.param(["timeout", "8h", "codex", "exec"], "codex", 2, id="behind another command"),
        pytest.param(["time", "-p", "claude"], "claude", 2, id="an option without a package"),
        pytest.param(["env", "A=1", "claude"], "claude", 2, id="behind a variable"),
        pytest.param(["nice", "make", "test"], "", 0, id="an unknown command behind another"),
        pytest.param(["npx"], "", 0, id="no package"),
        pytest.param(["python", "claude"], "", 0, id="another program"),
        pytest.param(["cursor-agent"], "cursor", 0, id="a second name"),
        pytest.param([""], "", 0, id="nothing"),
    ],
)
def test_a_program_is_known_by_its_name(words, name, position):
    program, found_at = find_program(words)
    assert (program.name, found_at) == (name, position)


def test_setup_offers_every_program_that_can_be_set_up():
    assert sorted(one.name for one in PROGRAMS if one.file or one.steps) == list(PROGRAM_NAMES)


@pytest.mark.parametrize(
    ("command", "files", "added", "variables"),
    [
        pytest.param(["claude"], {}, SETTINGS, {"ANTHROPIC_BASE_URL": GATEWAY}, id="claude"),
        pytest.param(["claude", "--settings=x"], {}, [], {"ANTHROPIC_BASE_URL": GATEWAY},
                     id="claude with settings of its own"),
        pytest.param(["codex"], {}, [*CODEX_PROVIDER, *KEY_OF_ENV], {}, id="codex"),
        pytest.param(["codex"], {".codex/auth.json": '{"OPENAI_API_KEY": "k"}'},
                     [*CODEX_PROVIDER, *KEY_OF_LOGIN], {}, id="codex with a stored key"),
        pytest.param(["codex", "--oss"], {}, [], {}, id="codex with a provider of its own"),
        pytest.param(["gemini"], {}, [], {"GOOGLE_GEMINI_BASE_URL": GATEWAY}, id="gemini"),
        pytest.param(["qwen"], {}, [], {"OPENAI_BASE_URL": f"{GATEWAY}/v1"}, id="qwen"),
        pytest.param(["mini"], {}, [], {"OPENAI_API_BASE": f"{GATEWAY}/v1",
                     "ANTHROPIC_API_BASE": GATEWAY, "GEMINI_API_BASE": f"{GATEWAY}/v1beta"},
                     id="mini"),
        pytest.param(["./agent.py"], {}, [], {"OPENAI_BASE_URL": f"{GATEWAY}/v1",
                     "ANTHROPIC_BASE_URL": GATEWAY, "GOOGLE_GEMINI_BASE_URL": GATEWAY},
                     id="any other"),
    ],
)  # fmt: skip
def test_a_command_is_pointed_at_the_gateway(user, command, files, added, variables):
    words, env, _ = point(command, user({"PATH": "/bin"}, files))
    assert words == [command[0], *added, *command[1:]]
    assert {name: env[name] for name in variables} == variables
    assert (env["PATH"], env["NO_PROXY"]) == ("/bin", "127.0.0.1")


def test_a_proxy_is_not_used_for_the_gateway(user):
    _, env, _ = point(["./agent"], user({"no_proxy": "corp.example"}))
    assert env["no_proxy"] == "corp.example,127.0.0.1"


def test_what_opencode_is_given_in_a_variable_stays(user):
    given = {"theme": "dark", "provider": {"openai": {"options": {"timeout": 5}}}}
    _, env, _ = point(["opencode"], user({"OPENCODE_CONFIG_CONTENT": json.dumps(given)}))
    content = json.loads(env["OPENCODE_CONFIG_CONTENT"])
    assert content["theme"] == "dark"
    assert content["provider"]["openai"]["options"] == {
        "timeout": 5, "baseURL": f"{GATEWAY}/v1",
    }  # fmt: skip
    assert content["provider"]["google"]["options"]["baseURL"] == f"{GATEWAY}/v1beta"


def test_a_variable_of_opencode_that_is_no_json_is_an_error(user):
    with pytest.raises(ConfigError, match="OPENCODE_CONFIG_CONTENT: is not a table in JSON"):
        point(["opencode"], user({"OPENCODE_CONFIG_CONTENT": "{"}))


CORP = """
model_provider = "corp"
[model_providers.corp]
base_url = "https://corp.example/llm"
"""
CHATGPT = '{"tokens": {"access_token": "t"}, "OPENAI_API_KEY": null}'


@pytest.mark.parametrize(
    ("command", "env", "files", "expected"),
    [
        pytest.param(["claude"], {"ANTHROPIC_BASE_URL": "https://a.example"}, {},
                     {"anthropic": "https://a.example"}, id="a variable"),
        pytest.param(["claude"], {"ANTHROPIC_BASE_URL": "https://a.example"},
                     {".claude/settings.json": '{"env": {"ANTHROPIC_BASE_URL": "https://b"}}'},
                     {"anthropic": "https://b"}, id="a file that goes before the variable"),
        pytest.param(["qwen"], {"OPENAI_BASE_URL": "https://a.example/v1"},
                     {".qwen/settings.json": '{"env": {"OPENAI_BASE_URL": "https://b"}}'},
                     {"openai": "https://a.example/v1"}, id="a variable before the file"),
        pytest.param(["claude"], {"OPENAI_BASE_URL": "https://a.example"}, {}, {},
                     id="a variable of other programs"),
        pytest.param(["codex"], {}, {".codex/config.toml": CORP},
                     {"openai": "https://corp.example/llm"}, id="a provider of Codex"),
        pytest.param(["codex"], {}, {".codex/auth.json": CHATGPT}, {"openai": CHATGPT_URL},
                     id="a ChatGPT login"),
        pytest.param(["codex"], {"CODEX_HOME": "/nowhere"}, {".codex/auth.json": CHATGPT}, {},
                     id="another folder of Codex"),
        pytest.param(["claude"], {"ANTHROPIC_BASE_URL": "http://127.0.0.1:4100"}, {}, {},
                     id="a gateway that was set up"),
        pytest.param(["claude"], {"ANTHROPIC_BASE_URL": ""}, {".claude/settings.json": "["}, {},
                     id="nothing that can be read"),
    ],
)  # fmt: skip
def test_the_provider_that_the_user_has_chosen_is_found(user, command, env, files, expected):
    program, _ = find_program(command)
    found = program.configured(user(env, files))
    assert {api: one.url for api, one in found.items()} == expected


@pytest.mark.parametrize(
    ("files", "url"),
    [
        pytest.param({".codex/config.toml": CORP}, f"{GATEWAY}/llm", id="a provider"),
        pytest.param({".codex/auth.json": CHATGPT}, f"{GATEWAY}/backend-api/codex", id="ChatGPT"),
    ],
)
def test_codex_keeps_the_path_of_its_provider(user, files, url):
    words, _, _ = point(["codex"], user(files=files))
    [pair] = [word for word in words if "base_url" in word]
    assert pair.partition("=")[2] == json.dumps(url)


QWEN_LOGIN = '{"security": {"auth": {"selectedType": "openai"}}}'


@pytest.mark.parametrize(
    ("words", "env", "files", "added"),
    [
        pytest.param(["qwen", "-p", "x"], {"OPENAI_API_KEY": "k"}, {}, "openai", id="OpenAI"),
        pytest.param(["qwen"], {"ANTHROPIC_API_KEY": "k"}, {}, "anthropic", id="Anthropic"),
        pytest.param(["npx", "qwen", "Mend it"], {"OPENAI_API_KEY": "k"}, {}, "openai", id="npx"),
        pytest.param(["qwen", "-p", "x"], {}, {}, "", id="no key"),
        pytest.param(["qwen", "mcp", "list"], {"OPENAI_API_KEY": "k"}, {}, "", id="a subcommand"),
        pytest.param(
            ["qwen", "--auth-type=anthropic"], {"OPENAI_API_KEY": "k"}, {}, "", id="an argument"
        ),
        pytest.param(
            ["qwen"], {"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, {}, "", id="a variable"
        ),
        pytest.param(
            ["qwen"], {"OPENAI_API_KEY": "k"}, {".qwen/settings.json": QWEN_LOGIN}, "", id="a login"
        ),
    ],
)
def test_qwen_gets_the_login_of_its_key_where_nothing_chooses_one(user, words, env, files, added):
    found, _, _ = point(words, user(env, files))
    position = find_program(words)[1] + 1
    expected = ["--auth-type", added] if added else []
    assert found == [*words[:position], *expected, *words[position:]]


def test_one_url_for_all_apis_is_replaced_only_where_it_is_set(user):
    assert "LLM_BASE_URL" not in point(["openhands"], user())[1]
    _, env, _ = point(["openhands"], user({"LLM_BASE_URL": "https://proxy.example/llm"}), {})
    assert env["LLM_BASE_URL"] == f"{GATEWAY}/llm"


@pytest.mark.parametrize(
    ("command", "env", "files", "warning"),
    [
        pytest.param(["claude"], {"CLAUDE_CODE_USE_BEDROCK": "1"}, {},
                     "CLAUDE_CODE_USE_BEDROCK is set", id="Bedrock"),
        pytest.param(["claude", "--settings", "x"], {},
                     {".claude/settings.json": '{"env": {"ANTHROPIC_BASE_URL": "https://b"}}'},
                     "goes before the environment", id="settings of its own"),
        pytest.param(["codex", "-c", "model_provider=x"], {}, {}, "choose a provider",
                     id="a provider by an argument"),
        pytest.param(["gemini"], {}, {}, "no GEMINI_API_KEY", id="gemini without a login"),
        pytest.param(["gemini"], {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, {}, "Vertex AI",
                     id="gemini with Vertex AI"),
        pytest.param(["gemini"], {}, {".gemini/settings.json":
                     '{"security": {"auth": {"selectedType": "oauth-personal"}}}'},
                     "Code Assist", id="gemini with a Google login"),
        pytest.param(["qwen"], {}, {".qwen/settings.json":
                     '{"security": {"auth": {"selectedType": "qwen-oauth"}}}'},
                     "Qwen login", id="qwen with a login"),
        pytest.param(["cursor-agent"], {}, {}, "Cursor's servers", id="cursor-agent"),
    ],
)  # fmt: skip
def test_calls_that_cannot_pass_the_gateway_are_announced(user, command, env, files, warning):
    program, _ = find_program(command)
    [said] = program.warnings(user(env, files), command)
    assert warning in said


def test_nothing_is_announced_without_reason(user):
    files = {
        ".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}',
        PROVIDERS: '{"lastUsedProvider": "anthropic"}',
    }
    for program in (*PROGRAMS, ANY_PROGRAM):
        if program.name != "cursor":
            assert list(program.warnings(user(files=files), [program.name])) == []


# Cline


def cline_file(words, user):
    """Return what Cline reads when it is pointed at a gateway."""
    env = point(words, user).env
    assert env["CLINE_SESSION_BACKEND_MODE"] == "local"
    path = Path(env["CLINE_PROVIDER_SETTINGS_PATH"])
    assert path.stat().st_mode & 0o077 == 0
    read = json.loads(path.read_text())
    path.unlink()
    return read


def test_cline_gets_its_providers_with_other_urls(user):
    known = {
        "version": 1,
        "lastUsedProvider": "anthropic",
        "providers": {"anthropic": {"settings": {"provider": "anthropic", "apiKey": "sk-1"}}},
    }
    read = cline_file(["cline", "go"], user(files={PROVIDERS: json.dumps(known)}))
    assert read["lastUsedProvider"] == "anthropic"
    settings = {name: one["settings"] for name, one in read["providers"].items()}
    assert settings == {
        "anthropic": {"provider": "anthropic", "apiKey": "sk-1", "baseUrl": f"{GATEWAY}/v1"},
        "openai-native": {"provider": "openai-native", "baseUrl": f"{GATEWAY}/v1"},
    }


def test_a_cline_that_was_never_used_gets_a_file(user):
    read = cline_file(["cline", "-P", "anthropic", "go"], user())
    assert (read["version"], list(read["providers"])) == (1, ["anthropic", "openai-native"])


def test_a_file_of_cline_that_cannot_be_read_is_an_error(user):
    with pytest.raises(ConfigError, match="cannot be read"):
        point(["cline"], user(files={PROVIDERS: "{"}))


@pytest.mark.parametrize(
    ("words", "latest", "is_warned"),
    [
        pytest.param(["cline", "go"], "", True, id="a login of Cline"),
        pytest.param(["cline", "go"], "anthropic", False, id="a key for Anthropic"),
        pytest.param(["cline", "-P", "openai-native"], "", False, id="a provider in arguments"),
        pytest.param(["cline", "--provider", "groq"], "anthropic", True, id="another provider"),
    ],
)
def test_a_provider_of_cline_that_is_not_guarded_is_warned_of(words, latest, is_warned, user):
    program, _ = find_program(words)
    files = {PROVIDERS: json.dumps({"lastUsedProvider": latest})}
    assert bool(list(program.warnings(user(files=files), words))) is is_warned
