"""The table of client programs: one row for each, for `looptrap run` and `looptrap setup`."""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkstemp

from looptrap.cli.client_program import (
    ANTHROPIC,
    ANTHROPIC_V1,
    GEMINI,
    GEMINI_V1,
    NOTHING,
    OPENAI,
    ClientProgram,
    ConfiguredUrl,
    ConfiguredUrls,
    Entry,
    FindEntries,
    RunWords,
    UserFiles,
)
from looptrap.cli.first_start import (
    gemini_answers,
    has_option,
    mini_answers,
    openhands_answers,
)
from looptrap.cli.settings_file import Key, Values, with_values
from looptrap.errors import ConfigError, Problem

CHATGPT_URL = "https://chatgpt.com/backend-api/codex"
"""Where Codex sends its calls if a person is logged in with ChatGPT."""


def _fixed(entries: Mapping[Key, Entry]) -> FindEntries:
    return lambda _user: entries


# Claude Code

_CLAUDE_SETTINGS = "~/.claude/settings.json"


def _claude_arguments(values: Values, words: Sequence[str], _user: UserFiles) -> RunWords:
    """Give the settings as an argument: those of the file go before the environment."""
    if has_option(words, "--settings"):
        return NOTHING
    return RunWords(["--settings", json.dumps(with_values({}, values))], {})


def _claude_warnings(user: UserFiles, words: Sequence[str]) -> Iterator[str]:
    for name in ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"):
        if user.env.get(name, "") not in ("", "0", "false"):
            yield f"{name} is set: calls do not pass the gateway"
    url = user.value(_CLAUDE_SETTINGS, ("env", "ANTHROPIC_BASE_URL"))
    if url and has_option(words, "--settings"):
        yield (
            f"{_CLAUDE_SETTINGS} sets ANTHROPIC_BASE_URL, which goes before the environment:"
            " calls may not pass the gateway"
        )


# Codex

_CODEX_CONFIG, _CODEX_LOGIN = "~/.codex/config.toml", "~/.codex/auth.json"


def _codex_provider(user: UserFiles) -> str:
    """Return the provider with a URL of its own that the user has chosen; "" for OpenAI."""
    name = user.value(_CODEX_CONFIG, ("model_provider",))
    has_url = user.value(_CODEX_CONFIG, ("model_providers", name, "base_url"))
    return name if has_url and name != "looptrap" else ""


def _is_chatgpt_login(user: UserFiles) -> bool:
    """Return whether Codex is logged in with ChatGPT, not with an API key."""
    has_key = bool(user.value(_CODEX_LOGIN, ("OPENAI_API_KEY",)))
    return bool(user.value(_CODEX_LOGIN, ("tokens", "access_token"))) and not has_key


def _codex_upstream(user: UserFiles) -> ConfiguredUrls:
    """Return where the calls of a ChatGPT login go."""
    if _codex_provider(user) or not _is_chatgpt_login(user):
        return {}
    return {OPENAI.api: ConfiguredUrl(_CODEX_LOGIN, CHATGPT_URL, OPENAI)}


def _codex_entries(user: UserFiles) -> Mapping[Key, Entry]:
    """Return the chosen provider with another URL; without one, a provider named looptrap.

    That provider speaks plain HTTP: Codex tries WebSockets for its own.
    """
    if name := _codex_provider(user):
        return {("model_providers", name, "base_url"): OPENAI}
    is_logged_in = _is_chatgpt_login(user) or user.value(_CODEX_LOGIN, ("OPENAI_API_KEY",))
    credential: tuple[str, Entry] = (
        ("requires_openai_auth", True) if is_logged_in else ("env_key", "OPENAI_API_KEY")
    )
    settings: dict[str, Entry] = {
        "name": "Looptrap",
        "base_url": OPENAI,
        "wire_api": "responses",
        credential[0]: credential[1],
    }
    entries: dict[Key, Entry] = {("model_provider",): "looptrap"}
    for name, entry in settings.items():
        entries["model_providers", "looptrap", name] = entry
    return entries


def _codex_arguments(values: Values, words: Sequence[str], _user: UserFiles) -> RunWords:
    if _chooses_provider(words):
        return NOTHING
    pairs = [f"{'.'.join(key)}={json.dumps(value)}" for key, value in values.items()]
    return RunWords([word for pair in pairs for word in ("-c", pair)], {})


def _chooses_provider(words: Sequence[str]) -> bool:
    return any("model_provider" in word or word == "--oss" for word in words)


def _codex_warnings(_user: UserFiles, words: Sequence[str]) -> Iterator[str]:
    if _chooses_provider(words):
        yield "its arguments choose a provider: calls do not pass the gateway"


# Gemini CLI and Qwen Code

_AUTH_TYPE = ("security", "auth", "selectedType")
_GEMINI_SETTINGS = "~/.gemini/settings.json"
_GEMINI_LOGIN: Values = {_AUTH_TYPE: "gemini-api-key"}


def _gemini_login(user: UserFiles) -> str:
    """Return the login that the user has chosen; "" for none."""
    for name in ("GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI"):
        if user.env.get(name) == "true":
            return name
    return user.value(_GEMINI_SETTINGS, _AUTH_TYPE)


def _lacks_gemini_login(user: UserFiles) -> bool:
    """Return whether there is a key, and no login is chosen: then it refuses a base URL."""
    key = user.env.get("GEMINI_API_KEY") or user.value("~/.gemini/.env", ("GEMINI_API_KEY",))
    return bool(key) and not _gemini_login(user)


def _gemini_answers(_values: Values, words: Sequence[str], user: UserFiles) -> RunWords:
    return gemini_answers(words, user, _GEMINI_LOGIN if _lacks_gemini_login(user) else {})


def _gemini_warnings(user: UserFiles, _words: Sequence[str]) -> Iterator[str]:
    login = _gemini_login(user)
    if login not in ("", "gemini-api-key"):
        yield (
            "calls pass the gateway only with an API key, not with a Google login (Code Assist) or"
            " Vertex AI"
        )
    elif not login and not _lacks_gemini_login(user):
        yield (
            f"there is no GEMINI_API_KEY, and {_GEMINI_SETTINGS} chooses no login: with a base URL"
            " it needs both"
        )


def _cursor_warnings(_user: UserFiles, _words: Sequence[str]) -> Iterator[str]:
    yield "calls go to Cursor's servers: they do not pass the gateway"


def _qwen_warnings(user: UserFiles, _words: Sequence[str]) -> Iterator[str]:
    if user.value("~/.qwen/settings.json", _AUTH_TYPE) == "qwen-oauth":
        yield "calls of a Qwen login do not pass the gateway, only those with an API key"


_QWEN_LOGINS = {"OPENAI_API_KEY": "openai", "ANTHROPIC_API_KEY": "anthropic"}
_QWEN_MODELS = ("OPENAI_MODEL", "QWEN_MODEL", "ANTHROPIC_MODEL", "GEMINI_MODEL")


def _qwen_arguments(_values: Values, words: Sequence[str], user: UserFiles) -> RunWords:
    """Choose the login by the key where nothing else chooses one: it would end without."""
    login = next((one for key, one in _QWEN_LOGINS.items() if user.env.get(key)), "")
    is_chosen = (
        bool(user.value("~/.qwen/settings.json", _AUTH_TYPE))
        or any(user.env.get(name) for name in _QWEN_MODELS)
        or has_option(words, "--auth-type")
    )
    is_command = bool(words) and not words[0].startswith("-") and " " not in words[0]
    if not login or is_chosen or is_command:
        return NOTHING
    return RunWords(["--auth-type", login], {})


# Cline

_CLINE_PROVIDERS = "~/.cline/data/settings/providers.json"
_CLINE_URLS = {"anthropic": ANTHROPIC_V1, "openai-native": OPENAI}
"""The providers whose base URL Cline takes from that file."""


def _cline_entries(_user: UserFiles) -> Mapping[Key, Entry]:
    """Return the URLs, with what else Cline demands of a provider."""
    entries: dict[Key, Entry] = {}
    for name, form in _CLINE_URLS.items():
        entries["providers", name, "settings", "provider"] = name
        entries["providers", name, "settings", "baseUrl"] = form
        entries["providers", name, "tokenSource"] = "manual"
        entries["providers", name, "updatedAt"] = "2026-01-01T00:00:00.000Z"
    return entries


def _cline_variable(values: Values, _words: Sequence[str], user: UserFiles) -> RunWords:
    """Give it a copy of its file, which has keys in it: only the user can read the copy.

    And keep its process in the background from making the calls: that may have read another file.
    """
    path = user.path(_CLINE_PROVIDERS)
    try:
        known = json.loads(path.read_bytes()) if path.exists() else {"version": 1}
        merged = with_values(known, values)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError([Problem(str(path), f"cannot be read: {error}")]) from None
    handle, name = mkstemp(prefix="looptrap-cline-", suffix=".json")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "w", encoding="utf-8") as copy:
        json.dump(merged, copy)
    return RunWords(
        [], {"CLINE_PROVIDER_SETTINGS_PATH": name, "CLINE_SESSION_BACKEND_MODE": "local"}
    )


def _cline_warnings(user: UserFiles, words: Sequence[str]) -> Iterator[str]:
    flags = [at for at, word in enumerate(words[:-1]) if word in ("-P", "--provider")]
    provider = (
        words[flags[-1] + 1] if flags else user.value(_CLINE_PROVIDERS, ("lastUsedProvider",))
    )
    if provider not in _CLINE_URLS:
        yield (
            f"calls pass the gateway only with the providers {' and '.join(_CLINE_URLS)}, and with"
            " a key of yours: choose one with --provider, or log in with `cline auth`"
        )


# OpenCode, and programs that use LiteLLM


def _opencode_variable(values: Values, _words: Sequence[str], user: UserFiles) -> RunWords:
    """Add the entries to what the user may give it in the same way."""
    name = "OPENCODE_CONFIG_CONTENT"
    try:
        merged = with_values(json.loads(user.env.get(name) or "{}"), values)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError([Problem(name, f"is not a table in JSON: {error}")]) from None
    return RunWords([], {name: json.dumps(merged)})


LITELLM = {
    "OPENAI_BASE_URL": OPENAI,
    "OPENAI_API_BASE": OPENAI,
    "ANTHROPIC_API_BASE": ANTHROPIC,
    "ANTHROPIC_BASE_URL": ANTHROPIC,
    "GEMINI_API_BASE": GEMINI_V1,
}

PROGRAMS = (
    ClientProgram(
        names=("claude", "@anthropic-ai/claude-code"),
        variables={"ANTHROPIC_BASE_URL": ANTHROPIC},
        file=_CLAUDE_SETTINGS,
        entries=_fixed({("env", "ANTHROPIC_BASE_URL"): ANTHROPIC}),
        file_wins=True,
        adapt=_claude_arguments,
        warnings=_claude_warnings,
    ),
    ClientProgram(
        names=("codex", "@openai/codex"),
        file=_CODEX_CONFIG,
        entries=_codex_entries,
        upstream=_codex_upstream,
        adapt=_codex_arguments,
        warnings=_codex_warnings,
    ),
    ClientProgram(
        names=("gemini", "@google/gemini-cli"),
        variables={"GOOGLE_GEMINI_BASE_URL": GEMINI},
        file="~/.gemini/.env",
        entries=_fixed({("GOOGLE_GEMINI_BASE_URL",): GEMINI}),
        missing_entries={_GEMINI_SETTINGS: _GEMINI_LOGIN},
        adapt=_gemini_answers,
        warnings=_gemini_warnings,
    ),
    ClientProgram(
        names=("qwen", "@qwen-code/qwen-code"),
        variables={"OPENAI_BASE_URL": OPENAI, "ANTHROPIC_BASE_URL": ANTHROPIC},
        file="~/.qwen/settings.json",
        entries=_fixed(
            {
                ("env", "OPENAI_BASE_URL"): OPENAI,
                ("env", "ANTHROPIC_BASE_URL"): ANTHROPIC,
            }
        ),
        adapt=_qwen_arguments,
        warnings=_qwen_warnings,
    ),
    ClientProgram(
        names=("opencode", "opencode-ai"),
        file="~/.config/opencode/opencode.json",
        entries=_fixed(
            {
                ("provider", "anthropic", "options", "baseURL"): ANTHROPIC_V1,
                ("provider", "openai", "options", "baseURL"): OPENAI,
                ("provider", "google", "options", "baseURL"): GEMINI_V1,
            }
        ),
        adapt=_opencode_variable,
    ),
    ClientProgram(
        names=("aider", "aider-chat"),
        variables=LITELLM,
        file="~/.aider.conf.yml",
        entries=_fixed(
            {
                ("openai-api-base",): OPENAI,
                ("set-env", "ANTHROPIC_API_BASE"): ANTHROPIC,
                ("set-env", "GEMINI_API_BASE"): GEMINI_V1,
            }
        ),
    ),
    ClientProgram(names=("mini", "mini-swe-agent"), variables=LITELLM, adapt=mini_answers),
    ClientProgram(
        names=("openhands",),
        variables=LITELLM,
        common_variable="LLM_BASE_URL",
        adapt=openhands_answers,
    ),
    ClientProgram(
        names=("cline",),
        file=_CLINE_PROVIDERS,
        entries=_cline_entries,
        adapt=_cline_variable,
        warnings=_cline_warnings,
        steps="""\
Cline keeps its base URL with the login of a provider. For its command line, with a key of OpenAI:

  cline auth --provider openai-native --apikey KEY --modelid MODEL --baseurl {openai}

With a key of Anthropic, `cline auth` takes no base URL. Log in without one, and add it to the
settings of anthropic in ~/.cline/data/settings/providers.json:

  "baseUrl": "{anthropic}/v1"

In VS Code: open Cline's settings, choose the API provider Anthropic, check "Use custom base
URL" and enter {anthropic}; or choose OpenAI Compatible, and enter {openai}.""",
    ),
    ClientProgram(
        names=("cursor", "cursor-agent"),
        warnings=_cursor_warnings,
        steps="""\
Cursor has no settings file for this, and its own models cannot be guarded. For your own OpenAI key:

  1. Open Cursor Settings > Models > API Keys.
  2. Enter your OpenAI API key, and switch it on.
  3. Switch on "Override OpenAI Base URL", and enter {openai}.

The override applies to all models of OpenAI, those of a Cursor plan too: switch it off to use
these. It does not apply to Tab completions.

Cursor's servers send these calls, so they must be able to reach the gateway: an address of this
machine alone does not work. Give the gateway a public address with TLS, and gateway keys.""",
    ),
    ClientProgram(
        names=("vscode",),
        steps="""\
Each extension of VS Code has its own settings:

  Claude Code     looptrap setup claude
  Codex           looptrap setup codex
  Cline           looptrap setup cline
  Continue        in ~/.continue/config.yaml, for each model:
                    apiBase: {openai}    (provider openai)
                    apiBase: {anthropic}/v1    (provider anthropic)
  GitHub Copilot  with a key of yours (VS Code 1.122 or newer): run "Chat: Manage Language
                  Models", select Add Models > Custom Endpoint, and give each model a URL:
                    {openai}/chat/completions    (API type Chat Completions)
                    {openai}/responses    (API type Responses)
                    {anthropic}/v1/messages    (API type Messages)
                  Copilot's own models are called by GitHub's servers: these calls cannot be
                  guarded""",
    ),
)
"""One row for each program."""

ANY_PROGRAM = ClientProgram(names=("",), variables={**LITELLM, "GOOGLE_GEMINI_BASE_URL": GEMINI})
"""For a command that is not in the table: all variables that SDKs and frameworks read."""

PACKAGE_RUNNERS = frozenset(
    ("bun", "bunx", "npm", "npx", "pipx", "pnpm", "pnpx", "uv", "uvx", "yarn")
)
"""Commands that run a program out of a package."""

PACKAGE_OPTIONS = frozenset(("--from", "--package", "--with", "-p"))
"""Their options with a package, behind which the program follows."""

WRAPPERS = frozenset(("caffeinate", "env", "nice", "nohup", "setsid", "stdbuf", "time", "timeout"))
"""Commands that run another one with something changed."""


def find_program(words: Sequence[str]) -> tuple[ClientProgram, int]:
    """Return the program that a command runs, and the position of its name."""
    first = Path(words[0]).name
    for position in range(len(words) if first in PACKAGE_RUNNERS | WRAPPERS else 1):
        if first in PACKAGE_RUNNERS and words[position - 1] in PACKAGE_OPTIONS:
            continue
        word = words[position]
        package = word[0] + word[1:].partition("@")[0] if word else ""
        for program in PROGRAMS:
            if Path(word).name in program.names or package in program.names:
                return program, position
    return ANY_PROGRAM, 0


def program_named(name: str) -> ClientProgram:
    """Return the program of a name in the table."""
    return next(program for program in PROGRAMS if program.name == name)
