"""What `serve` needs to start, found without starting it: the same for serve, check and doctor."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from looptrap.admin.auth import AdminAuth, configured_access
from looptrap.config import Config
from looptrap.config.kind import MEMORY
from looptrap.config.provider import ProviderSettings
from looptrap.database import sqlite_schema
from looptrap.database.place import is_postgres, shown_place
from looptrap.database.sqlite import describe_error
from looptrap.errors import ConfigError, DatabaseError, Problem
from looptrap.gateway.auth import check_exposure, check_token, token_from_env
from looptrap.gateway.jwt_claims import ClaimsReader
from looptrap.gateway.state_file import GatewayKey, StateFile, secret_from_env
from looptrap.gateway.tls import os_error_text, server_tls_context, upstream_ca_file
from looptrap.gateway.trace import Tracer
from looptrap.incident.alert.channel import channel_problems
from looptrap.policy.policy import Selector
from looptrap.schema.wording import listed
from looptrap.workers.embedded_valkey import find_valkey_program

PLACEHOLDER = re.compile(r"(?<![A-Za-z])(?:RESOURCE|REGION|PROJECT)(?![A-Za-z])")
"""What stands for the operator's own name in an address that `looptrap init` writes."""


@dataclass
class StartCheck:
    """What was found: problems prevent a start, warnings do not."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    keys: tuple[GatewayKey, ...] = ()
    """The gateway keys of the state file that are not revoked."""

    def raise_problems(self) -> None:
        """Raise all problems at once, if there are any."""
        if self.problems:
            raise ConfigError(self.problems)


def check_start(config: Config, env: Mapping[str, str]) -> StartCheck:
    """Find what would prevent a start here, and what would not work after it; change nothing."""
    found = StartCheck()
    gateway = config.gateway

    def attempt(action: Callable[[], object]) -> None:
        try:
            action()
        except ConfigError as error:
            found.problems += error.problems

    def read_keys() -> None:
        state = StateFile(gateway.state).read()
        keys = state.keys if state is not None else ()
        found.keys = tuple(key for key in keys if key.revoked is None)
        if config.store == MEMORY:
            check_exposure(
                gateway.listen.host, has_keys=bool(keys), allow_anonymous=gateway.allow_anonymous
            )

    attempt(lambda: AdminAuth(gateway.admin.host, configured_access(config, env)))
    attempt(lambda: _check_decision_token(config, env))
    found.problems += channel_problems(config.channels, env)
    attempt(lambda: server_tls_context(gateway))
    attempt(lambda: upstream_ca_file(gateway))
    attempt(lambda: ClaimsReader.under(gateway))
    attempt(lambda: Tracer.of(config.traces, env))
    if gateway.workers > 1 and config.store == MEMORY:
        attempt(find_valkey_program)
    found.problems += path_problems(config, env)
    found.problems += _placeholder_problems(config)
    if config.history and not is_postgres(config.history):
        attempt(lambda: history_version(Path(config.history)))
    attempt(read_keys)
    attempt(lambda: found.warnings.extend(_database_warnings(config)))
    found.warnings += _key_warnings(config, env, has_keys=bool(found.keys))
    return found


def _check_decision_token(config: Config, env: Mapping[str, str]) -> None:
    place = "gateway.decision_token_env"
    token = token_from_env(config.gateway.decision_token_env, place, env)
    check_token(place, token, config.gateway.listen.host)


def history_version(path: Path) -> int | None:
    """Return the version of a history in SQLite, without changing it; None where none is found.

    Raises ConfigError for one of another program or a later version.
    """
    if not path.is_file():
        return None
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.isolation_level = None
            sqlite_schema.check(connection)
            return sqlite_schema.pragma(connection, "user_version")
    except (ConfigError, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.OperationalError):
            return None  # in use, or not to be read: that is said elsewhere
        problem = Problem("history", f"{path.absolute()}: {describe_error(error)}")
        raise ConfigError([problem]) from None


def _database_warnings(config: Config) -> Iterator[str]:
    """Look at a shared history without changing it; raise ConfigError if it cannot be used."""
    if is_postgres(config.history):
        try:
            postgres_version(config)
        except DatabaseError as error:
            place = shown_place(config.history)
            if error.is_final:
                raise ConfigError([Problem("history", f"{place}: {error}")]) from None
            yield f"history: {place} cannot be reached, so what is recorded waits on disk: {error}"


def postgres_version(config: Config) -> int:
    """Return the version of the tables of a shared history; 0 if there are none yet.

    Raises ConfigError or DatabaseError if it cannot be used, or not now.
    """
    from looptrap.database.postgres import PostgresDatabase

    database = PostgresDatabase(config.history, "", timeout=config.history_timeout)
    try:
        return database.check()
    finally:
        database.close()


# Paths


def path_problems(config: Config, env: Mapping[str, str]) -> Iterator[Problem]:
    """Find files and folders that the gateway could not write; nothing is made."""
    gateway = config.gateway
    if is_postgres(config.history):
        folder = Path(config.history_spool)
        if reason := unwritable(folder / "batch.spool"):
            yield Problem("history_spool", f"{folder}: cannot write there: {reason}")
    elif config.history and (reason := unwritable(Path(config.history))):
        yield Problem("history", f"{config.history}: cannot write there: {reason}")
    state = Path(gateway.state)
    makes_state = config.store == MEMORY and secret_from_env(env) is None
    if makes_state and not state.exists() and (reason := unwritable(state, makes_folders=False)):
        yield Problem("gateway.state", f"{state}: cannot write there: {reason}")
    if config.capture != "off" and gateway.capture_dir is not None:
        folder = Path(gateway.capture_dir)
        if reason := unwritable(folder / "capture"):
            yield Problem("gateway.capture_dir", f"{folder}: cannot write there: {reason}")


def unwritable(path: Path, *, makes_folders: bool = True) -> str:
    """Return why a file could not be written at a path; empty if it could.

    With `makes_folders`, missing folders above it would be made.
    """
    try:
        if path.is_dir():
            return "is a directory"
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            return "permission denied"
        folder = path.absolute().parent
        while makes_folders and not folder.exists() and folder != folder.parent:
            folder = folder.parent
        if not folder.exists():
            return "no such file or directory"
        if not folder.is_dir():
            return f"{folder} is not a directory"
        is_free = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        return os_error_text(error)
    return "" if is_free else "permission denied"


# Providers and their keys


def _placeholder_problems(config: Config) -> Iterator[Problem]:
    """Find addresses of `looptrap init` that still have a word to replace."""
    for at, provider in enumerate(config.providers):
        for url in provider.base_url:
            if words := dict.fromkeys(PLACEHOLDER.findall(url)):
                message = f"put your own {listed([*words], 'and')} into {url}"
                yield Problem(f"providers[{at}].base_url", message)


def used_providers(config: Config) -> dict[str, ProviderSettings]:
    """Return the providers that calls may go to by these settings, by name."""
    known = config.known_providers()
    names = routed_providers(config)
    names += [provider.name for provider in config.providers]
    if config.gateway.upstream is None and not has_route_for_all(config):
        names += ["openai", "anthropic", "gemini"]
    return {name: known[name] for name in dict.fromkeys(names) if name in known}


def routed_providers(config: Config) -> list[str]:
    """Return the names of the providers that routes lead to, each once."""
    known = config.known_providers()
    links = (link for route in config.routes for link in route.links)
    names = (link.partition("/")[0] if link not in known else link for link in links)
    return list(dict.fromkeys(names))


def has_route_for_all(config: Config) -> bool:
    """Return whether a route takes every call, so that none goes elsewhere."""
    return any(route.select == Selector() for route in config.routes)


def _key_warnings(config: Config, env: Mapping[str, str], *, has_keys: bool) -> Iterator[str]:
    """Find providers whose keys are not set, where calls need them."""
    explicit = {provider.name: i for i, provider in enumerate(config.providers)}
    further = {
        link.partition("/")[0] for route in config.routes if route.chain for link in route.chain[1:]
    }
    for name, provider in used_providers(config).items():
        unset = [one for one in provider.api_key_env or () if not env.get(one)]
        if not (name in explicit or name in further or has_keys):
            continue  # callers send keys of their own
        place = (
            f"providers[{explicit[name]}].api_key_env" if name in explicit else f"provider {name}"
        )
        effect = "callers with a gateway key are refused there"
        if name in further:
            effect = "chains skip it"
        for one in unset:
            yield f"{place}: names the variable {one}, which is not set: {effect}"
