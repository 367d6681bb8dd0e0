"""ClientProgram: where a program reads its base URLs, and how it is pointed at a gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from looptrap.cli.gateway_client import DEFAULT_GATEWAY
from looptrap.cli.settings_file import Key, Values, read_value
from looptrap.errors import ConfigError, Problem
from looptrap.wire.origin import Origin

Api = Literal["openai", "anthropic", "gemini"]
"""The APIs, by the names of their well-known providers."""


class UrlForm(NamedTuple):
    """The base URL that a program wants: of which API, and the path that it has there."""

    api: Api
    path: str


OPENAI = UrlForm("openai", "/v1")
ANTHROPIC, ANTHROPIC_V1 = UrlForm("anthropic", ""), UrlForm("anthropic", "/v1")
GEMINI, GEMINI_V1 = UrlForm("gemini", ""), UrlForm("gemini", "/v1beta")


class ConfiguredUrl(NamedTuple):
    """A base URL that the user has set, where, and in which form."""

    place: str
    url: str
    form: UrlForm

    @property
    def path(self) -> str:
        """Its path; raises ConfigError if it is not a base URL."""
        return self.check()[1]

    def check(self) -> tuple[Origin, str]:
        """Return its origin and its path; raise ConfigError if it is not a base URL."""
        try:
            return Origin.of(self.url)
        except ValueError as error:
            raise ConfigError([Problem(self.place, f"{error}; must be a base URL")]) from None


ConfiguredUrls = Mapping[Api, ConfiguredUrl]


FOLDER_VARIABLES = {
    "~/.config/": ("XDG_CONFIG_HOME", "~/.config/"),
    "~/.local/state/": ("XDG_STATE_HOME", "~/.local/state/"),
    "~/.codex/": ("CODEX_HOME", "~/.codex/"),
    "~/.gemini/": ("GEMINI_CLI_HOME", "~/"),
    "~/.cline/data/": ("CLINE_DATA_DIR", "~/.cline/data/"),
}
"""For paths that begin so: the variable with another folder, and what that stands for."""


@dataclass(frozen=True, slots=True)
class UserFiles:
    """The environment and the folders of the user: where programs find their settings."""

    env: Mapping[str, str]
    home: Path
    folder: Path = Path()
    """The one that the command runs in."""
    has_terminal: bool = False
    """Whether a person can answer what a program asks."""

    def path(self, name: str) -> Path:
        """Return the path of a settings file; `~` is the home folder."""
        for beginning, (variable, replaced) in FOLDER_VARIABLES.items():
            if name.startswith(beginning) and (folder := self.env.get(variable)):
                return Path(folder, name.removeprefix(replaced))
        return self.home / name.removeprefix("~/")

    def value(self, name: str, key: Key) -> str:
        """Return a text in a settings file; "" where there is none."""
        return read_value(self.path(name), key)


@dataclass(frozen=True, slots=True)
class BaseUrls:
    """The base URLs of a gateway; each keeps the path of the URL that the user had set."""

    gateway: str
    configured: ConfiguredUrls = field(default_factory=dict)

    def of(self, form: UrlForm) -> str:
        """Return the base URL in a form."""
        known = self.configured.get(form.api)
        if known is None:
            return self.gateway + form.path
        path = known.path
        if path.endswith(known.form.path):
            path = path.removesuffix(known.form.path) + form.path
        return self.gateway + path


def gateway_url(text: str, place: str) -> str:
    """Return the address of a gateway, also from a base URL for OpenAI's clients."""
    ConfiguredUrl(place, text, OPENAI).check()
    return text.rstrip("/").removesuffix(OPENAI.path)


Entry = UrlForm | str | bool
"""A value of a settings file: a base URL in a form, or as it is."""

FindEntries = Callable[[UserFiles], Mapping[Key, Entry]]

NO_PROXY = ("NO_PROXY", "no_proxy")


class RunWords(NamedTuple):
    """The words and the environment of a command."""

    words: list[str]
    env: dict[str, str]
    notes: Sequence[str] = ()
    """What is said about them at the start."""


NOTHING = RunWords([], {})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProgram:
    """One program: where it reads base URLs."""

    names: tuple[str, ...]
    """Its command, and the packages that `npx` or `uvx` run it from."""
    variables: Mapping[str, UrlForm] = field(default_factory=dict)
    common_variable: str = ""
    """A variable with one base URL for all APIs, used only where the user has set it."""
    file: str = ""
    """Its settings file …"""
    entries: FindEntries = lambda _user: {}
    """… and what is set there."""
    file_wins: bool = False
    """Whether the file goes before the variables."""
    missing_entries: Mapping[str, Mapping[Key, str | bool]] = field(default_factory=dict)
    """Values of further files that are set if they are missing."""
    upstream: Callable[[UserFiles], ConfiguredUrls] = lambda _user: {}
    """Returns where its calls go by a login, without any base URL."""
    adapt: Callable[[Values, Sequence[str], UserFiles], RunWords] = lambda *_: NOTHING
    """Returns, by the entries and the words behind its name, arguments and variables for one run:
    they give it the entries, or answer what it asks for at its first start."""
    warnings: Callable[[UserFiles, Sequence[str]], Iterator[str]] = lambda _user, _words: iter(())
    """Yields why calls of this user may not pass the gateway."""
    steps: str = ""
    """What a person has to do, where no file is written; `{openai}` and `{anthropic}` are URLs."""

    @property
    def name(self) -> str:
        """Its command."""
        return self.names[0]

    def configured(self, user: UserFiles) -> dict[Api, ConfiguredUrl]:
        """Return the base URLs that the user has set for it, one for each API."""
        variables = [
            ConfiguredUrl(name, user.env.get(name, ""), form)
            for name, form in self.variables.items()
        ]
        entries = [
            ConfiguredUrl(self.file, user.value(self.file, key), form)
            for key, form in self.entries(user).items()
            if isinstance(form, UrlForm)
        ]
        ordered = [*entries, *variables] if self.file_wins else [*variables, *entries]
        found: dict[Api, ConfiguredUrl] = {}
        for one in [*ordered, *self.upstream(user).values()]:
            # What `looptrap setup` has written names no provider.
            if one.url and not one.url.startswith(DEFAULT_GATEWAY):
                found.setdefault(one.form.api, one)
        return found

    def values(self, user: UserFiles, urls: BaseUrls) -> dict[Key, str | bool]:
        """Return the values for its settings file."""
        return {
            key: urls.of(entry) if isinstance(entry, UrlForm) else entry
            for key, entry in self.entries(user).items()
        }

    def missing(self, user: UserFiles) -> dict[str, Values]:
        """Return what is to be added to its further files, without those that lack nothing."""
        found: dict[str, Values] = {}
        for name, values in self.missing_entries.items():
            if missing := {key: one for key, one in values.items() if not user.value(name, key)}:
                found[name] = missing
        return found

    def point(
        self, words: Sequence[str], position: int, user: UserFiles, urls: BaseUrls
    ) -> RunWords:
        """Return a command with this program at a position, pointed at a gateway."""
        env = {**user.env, **{name: urls.of(form) for name, form in self.variables.items()}}
        if url := user.env.get(self.common_variable):
            env[self.common_variable] = (
                urls.gateway + ConfiguredUrl(self.common_variable, url, OPENAI).path
            )
        name, following = words[: position + 1], words[position + 1 :]
        adapted = self.adapt(self.values(user, urls), following, user)
        env |= adapted.env
        for variable in NO_PROXY:
            # Else a proxy would get the calls to this machine.
            hosts = [user.env.get(variable), Origin.of(urls.gateway)[0].host]
            env[variable] = ",".join(filter(None, hosts))
        return RunWords([*name, *adapted.words, *following], env, adapted.notes)
