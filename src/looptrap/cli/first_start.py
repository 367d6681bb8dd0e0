"""What programs ask for at their first start: `looptrap run` gives it to them, for one run.

Nothing is written into the user's files, nothing that the user has chosen is changed, and no
approval of tools is given.
"""

from __future__ import annotations

import atexit
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shutil import copy2, copytree, rmtree
from tempfile import mkdtemp

from looptrap.cli.client_program import NOTHING, RunWords, UserFiles
from looptrap.cli.settings_file import Values, merge_file, read_value

# Models

DEFAULT_MODELS = {
    "OPENAI_API_KEY": "openai/gpt-5.4",
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-6",
    "GEMINI_API_KEY": "gemini/gemini-pro-latest",
}
"""The model for each variable with a key, by its name in LiteLLM.

Of Gemini's, OpenHands has the context of those with 2.5 or 3 in their name cached, for which
LiteLLM makes a wrong URL out of a base URL.
"""

_KEY_BEGINNINGS = {"sk-ant-": "ANTHROPIC_API_KEY", "AIza": "GEMINI_API_KEY"}
"""How the keys of a provider begin; OpenAI's begin in several ways."""


def has_option(words: Sequence[str], *names: str) -> bool:
    """Return whether one of these options is among the words, also as `--name=value`."""
    return any(word.partition("=")[0] in names for word in words)


def _key_variable(user: UserFiles, model: str = "") -> str:
    """Return the variable with a key, of the model's provider if there is one; "" for none."""
    found = [name for name in DEFAULT_MODELS if user.env.get(name)]
    provider = model.partition("/")[0]
    of_model = [name for name in found if DEFAULT_MODELS[name].startswith(f"{provider}/")]
    return next(iter([*of_model, *found]), "")


# mini-swe-agent


def mini_answers(_values: Values, words: Sequence[str], user: UserFiles) -> RunWords:
    """Choose the model by the key, and skip the questions, unless they were answered."""
    folder = user.env.get("MSWEA_GLOBAL_CONFIG_DIR")
    file = Path(folder, ".env") if folder else user.path("~/.config/mini-swe-agent/.env")

    def setting(name: str) -> str:
        return user.env.get(name) or read_value(file, (name,))

    if setting("MSWEA_CONFIGURED"):
        return NOTHING
    variables = {"MSWEA_CONFIGURED": "true"}
    if has_option(words, "-m", "--model", "-c", "--config") or setting("MSWEA_MODEL_NAME"):
        return RunWords([], variables)
    key = _key_variable(user)
    if not key:
        return NOTHING
    model = variables["MSWEA_MODEL_NAME"] = DEFAULT_MODELS[key]
    return RunWords([], variables, [f"no model is chosen: mini gets {model}, by {key}; -m chooses"])


# OpenHands

_OPENHANDS_COMMANDS = frozenset(("acp", "cloud", "login", "logout", "mcp", "serve", "view", "web"))
_OVERRIDE = "--override-with-envs"


def openhands_answers(_values: Values, words: Sequence[str], user: UserFiles) -> RunWords:
    """Give it the model and the key in its own variables, unless it has settings."""
    folder = user.env.get("OPENHANDS_PERSISTENCE_DIR") or user.home / ".openhands"
    is_command = bool(words) and words[0] in _OPENHANDS_COMMANDS
    if is_command or Path(folder, "agent_settings.json").exists():
        return NOTHING

    def setting(name: str) -> str:
        return user.env.get(name) or read_value(user.folder / ".env", (name,))

    variables, notes = {}, []
    model, key = setting("LLM_MODEL"), setting("LLM_API_KEY")
    chosen = _key_variable(user, model)
    if not key and not chosen:
        return NOTHING
    if not key:
        variables["LLM_API_KEY"] = user.env[chosen]
    if not model:
        source = "LLM_API_KEY" if key else chosen
        kinds = [kind for start, kind in _KEY_BEGINNINGS.items() if key.startswith(start)]
        kind = next(iter(kinds), "OPENAI_API_KEY") if key else chosen
        model = variables["LLM_MODEL"] = DEFAULT_MODELS[kind]
        notes.append(f"no model is chosen: openhands gets {model}, by {source}; LLM_MODEL chooses")
    return RunWords([] if _OVERRIDE in words else [_OVERRIDE], variables, notes)


# Gemini CLI

_SETTINGS = "settings.json"
TRUST = "GEMINI_CLI_TRUST_WORKSPACE"


def gemini_answers(words: Sequence[str], user: UserFiles, login: Values) -> RunWords:
    """Let it run without a terminal: trust the folder for this run, and choose the login.

    In a terminal it asks, and a person answers. `login` is what is missing in its settings.
    """
    if user.has_terminal and not has_option(words, "-p", "--prompt"):
        return NOTHING
    variables, notes = {}, []
    if _lacks_trust(words, user):
        variables[TRUST] = "true"
        notes.append(
            f"gemini trusts this folder for this run ({TRUST}=true); without a terminal it would"
            " not start"
        )
    if login:
        variables["GEMINI_CLI_HOME"] = str(_lent_home(user, login))
        values = ", ".join(f"{'.'.join(key)} is {value}" for key, value in login.items())
        notes.append(f"{values} for this run; gemini needs it for a base URL")
    return RunWords([], variables, notes)


def _lacks_trust(words: Sequence[str], user: UserFiles) -> bool:
    """Return whether nobody has decided whether the folder is trusted."""
    if any(user.env.get(name) for name in (TRUST, "GEMINI_RESTRICTED_MODE")):
        return False
    file = user.env.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
    path = Path(file) if file else user.path("~/.gemini/trustedFolders.json")
    try:
        decided = json.loads(path.read_bytes())
    except FileNotFoundError:
        decided = {}
    except (OSError, ValueError):
        return False  # Gemini CLI says what is wrong with it
    folder = user.folder.resolve()
    is_decided = any(folder.is_relative_to(str(known)) for known in decided)
    return not is_decided and not has_option(words, "--skip-trust")


def _lent_home(user: UserFiles, login: Values) -> Path:
    """Return a home folder for one run: links to the user's files, and settings with a login.

    Its settings file has no other place. What Gemini CLI itself leaves there, such as sessions, is
    moved to the user's folder at the end.
    """
    own = user.path("~/.gemini/")
    home = Path(mkdtemp(prefix="looptrap-gemini-"))
    folder = home / ".gemini"
    folder.mkdir(mode=0o700)
    atexit.register(partial(return_home, home, own))
    for name in (".env", ".agents"):
        if (own.parent / name).exists():
            (home / name).symlink_to(own.parent / name)
    for entry in own.iterdir() if own.is_dir() else ():
        if entry.name != _SETTINGS:
            (folder / entry.name).symlink_to(entry)
    _, text = merge_file(own / _SETTINGS, login)
    (folder / _SETTINGS).write_text(text, "utf-8")
    return home


def return_home(home: Path, own: Path) -> None:
    """Move what a run has left in its home folder to the user's, and remove it."""
    for entry in (home / ".gemini").iterdir():
        if entry.is_symlink() or entry.name == _SETTINGS:
            continue
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        if entry.is_dir():
            copytree(entry, own / entry.name, symlinks=True, dirs_exist_ok=True)
        else:
            copy2(entry, own / entry.name)
    rmtree(home)
