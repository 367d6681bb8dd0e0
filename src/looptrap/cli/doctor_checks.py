"""What `looptrap doctor` looks at on this machine and in its store; each check yields findings."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from errno import EADDRINUSE
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from looptrap import __version__
from looptrap.admin.alert import try_channels
from looptrap.cli import interpreter
from looptrap.cli.config import unread_file_warnings
from looptrap.cli.doctor import Finding, Status
from looptrap.cli.gateway_client import is_gateway
from looptrap.cli.init import DEFAULT_FILE
from looptrap.cli.output import plural
from looptrap.cli.provider_probe import probe_providers
from looptrap.cli.start_check import (
    StartCheck,
    check_start,
    history_version,
    postgres_version,
)
from looptrap.config import Config, load
from looptrap.config.kind import MEMORY, Address, StorePlace
from looptrap.database import postgres_schema, sqlite_schema
from looptrap.database.place import is_postgres, shown_place
from looptrap.errors import ConfigError, DatabaseError, Problem
from looptrap.gateway.state_file import StateFile
from looptrap.gateway.tls import os_error_text
from looptrap.incident.alert.channel import make_channels
from looptrap.store.redis.address import StoreAddress, StorePlan, parse_store_url
from looptrap.store.redis.connection import connect
from looptrap.store.redis.topology import Sentinels, servers_of

STORE_TIMEOUT_S = 2.0
SLOW_STORE_MS = 5.0
OLDEST_STORE = (6, 2)
MAX_SKEW_S = 30.0
"""Clocks may differ by so much; a Date header is exact to a second, and the answer took time."""
LOW_DISK_BYTES, FULL_DISK_BYTES = 1 << 30, 100 << 20

PACKAGES = ("aiohttp", "hiredis", "httptools", "msgspec", "uvloop")


def examine(file: str | None, flags: Mapping[str, Any], send: bool) -> list[Finding]:
    """Look at what `looptrap serve` with these flags needs; `send` sends test alerts."""
    findings = [interpreter_finding(), versions_finding()]
    try:
        config = load(file, env=os.environ, flags=flags)
    except ConfigError as error:
        return [*findings, *settings_findings(error.problems, ())]
    start = check_start(config, os.environ)
    warnings = [*unread_file_warnings(file), *config.warnings, *start.warnings]
    findings += settings_findings(start.problems, warnings)
    findings += state_findings(config, start)
    findings += history_findings(config)
    findings += port_findings(config)
    return [*findings, *asyncio.run(_ask_others(config, send))]


async def _ask_others(config: Config, send: bool) -> list[Finding]:
    """Ask providers, store and channels."""
    (providers, skews), (store, more), channels = await asyncio.gather(
        probe_providers(config, os.environ),
        store_findings(config),
        channel_findings(config, os.environ, send),
    )
    return [*providers, *store, clock_finding([*skews, *more]), *channels]


def settings_findings(problems: Sequence[Problem], warnings: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong with the settings, and what `serve` would refuse."""
    for problem in problems:
        yield Finding("settings", "problem", str(problem), _settings_remedy(problem.message))
    for warning in warnings:
        yield Finding("settings", "warning", warning, _settings_remedy(warning))
    if not problems and not warnings:
        yield Finding("settings", "ok", "without mistakes")


def _settings_remedy(message: str) -> str:
    if "variable" in message and "not set" in message:
        return "set it in the environment of `looptrap serve`"
    if "is not read" in message:
        return f"looptrap doctor --config {DEFAULT_FILE}"
    if "database" in message:
        return "move it away, or restore a backup"
    if "permission denied" in message:
        return f"let user {os.geteuid()} write there, or name another place"
    if "cannot write there" in message:
        return "make the folder, or name another place"
    return ""


def interpreter_finding() -> Finding:
    """Return which Python runs, and whether it is a fast one."""
    if interpreter.is_optimised():
        return Finding("python", "ok", interpreter.describe())
    remedy = "use the Python of your distribution, or one built with --enable-optimizations"
    return Finding("python", "warning", f"{interpreter.describe()}: about 20 % slower", remedy)


def versions_finding() -> Finding:
    """Return the versions of what runs."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            return Finding("versions", "problem", f"{name} is missing", "pip install looptrap")
    system = f"{platform.system()} {platform.release()}"
    return Finding("versions", "ok", f"looptrap {__version__}, {', '.join(found)}, {system}")


def state_findings(config: Config, start: StartCheck) -> Iterator[Finding]:
    """Yield whether the state file is private, and how many keys it has."""
    exposure = StateFile(config.gateway.state).exposure()
    if exposure is not None:
        yield Finding("state file", "warning", exposure, f"chmod 600 {config.gateway.state}")
        return
    number = len(start.keys)
    keys = plural(number, "gateway key") if number else "no gateway keys"
    if not Path(config.gateway.state).exists():
        keys = "not made yet"
    yield Finding("state file", "ok", f"{config.gateway.state}: {keys}")


def history_findings(config: Config) -> Iterator[Finding]:
    """Yield the version of the history, and the room on its disk."""
    if not config.history:
        yield Finding("history", "ok", "none is kept")
        return
    if is_postgres(config.history):
        path = Path(config.history_spool)
        yield from _postgres_findings(config)
    else:
        path = Path(config.history)
        yield from _sqlite_findings(path)
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    message = f"{free / (1 << 30):,.1f} GB free at {folder}"
    if free < LOW_DISK_BYTES:
        remedy = "free some, or lower incidents.max_size"
        status: Status = "problem" if free < FULL_DISK_BYTES else "warning"
        yield Finding("disk", status, message, remedy)
    else:
        yield Finding("disk", "ok", message)


def _postgres_findings(config: Config) -> Iterator[Finding]:
    """Yield the version of a shared history; what prevents a start is among the settings."""
    try:
        found = postgres_version(config)
    except (ConfigError, DatabaseError) as error:
        remedy = "look whether PostgreSQL runs, and whether user, password and rights are right"
        yield Finding("history", "problem", str(error).removeprefix("history: "), remedy)
        return
    place = shown_place(config.history)
    if not found:
        yield Finding("history", "ok", f"{place}: its tables are made at the start")
    else:
        yield _version_finding(place, found, len(postgres_schema.MIGRATIONS), "`pg_dump`")


def _sqlite_findings(path: Path) -> Iterator[Finding]:
    """Yield the version of a history in SQLite; what prevents a start is among the settings."""
    try:
        found = history_version(path)
    except ConfigError:
        return
    if found is None:
        message = "cannot be read now" if path.exists() else "not made yet"
        yield Finding("history", "ok", f"{path}: {message}")
    else:
        yield _version_finding(
            str(path), found, len(sqlite_schema.MIGRATIONS), "`looptrap backup FILE`"
        )


def _version_finding(place: str, found: int, latest: int, backup: str) -> Finding:
    if found >= latest:
        return Finding("history", "ok", f"{place}: version {found}")
    message = f"{place}: version {found} of {latest}, migrated at the next start"
    return Finding("history", "warning", message, f"{backup} before you upgrade")


# Ports


def port_findings(config: Config) -> Iterator[Finding]:
    """Yield whether the addresses are free, or taken by a Looptrap."""
    gateway = config.gateway
    is_running = is_looptrap(gateway.admin)
    for setting, address in (("listen", gateway.listen), ("admin", gateway.admin)):
        error = _listen_error(address)
        if error is None:
            yield Finding(f"port {setting}", "ok", f"{address} is free")
        elif error.errno == EADDRINUSE and is_running:
            message = f"{address} is taken, by the Looptrap with its dashboard at {gateway.admin}"
            yield Finding(f"port {setting}", "ok", message)
        else:
            message = f"cannot listen at {address}: {os_error_text(error)}"
            remedy = f"stop what uses it (`ss -ltnp`), or set another --{setting}"
            yield Finding(f"port {setting}", "problem", message, remedy)


def _listen_error(address: Address) -> OSError | None:
    if address.port == 0:
        return None
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address.host, address.port))
    except OSError as error:
        return error
    return None


def is_looptrap(admin: Address) -> bool:
    """Return whether a gateway answers at an admin address."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)
    try:
        return is_gateway(Address(host, admin.port), STORE_TIMEOUT_S)
    except ConfigError:
        return False


# The store


async def store_findings(config: Config) -> tuple[list[Finding], list[float]]:
    """Return how the servers of the store are, and how far their clocks differ from this one."""
    if config.store == MEMORY:
        return [Finding("store", "ok", "memory: counts are lost at a restart")], []
    plan = parse_store_url(config.store)
    place = StorePlace().plain(config.store)
    findings: list[Finding] = []
    skews: list[float] = []
    try:
        servers = await servers_of(plan)
    except OSError as error:
        return [_store_problem(place, error)], []
    if plan.kind == "sentinel":
        findings += [one async for one in _sentinel_findings(plan)]
    for address in servers:
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                found, skew = await _ask_store(address, place)
        except OSError as error:
            findings.append(_store_problem(place, error))
        else:
            findings += found
            skews.append(skew)
    return findings, skews


async def _sentinel_findings(plan: StorePlan) -> AsyncIterator[Finding]:
    """Yield a warning for each sentinel that is no help."""
    sentinels = Sentinels(plan)
    for address in plan.servers:
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                await sentinels.ask(address)
        except OSError as error:
            remedy = "check whether it runs, its address and sentinel_password"
            yield Finding("sentinel", "warning", f"{address}: {_reason(error)}", remedy)


def _store_problem(place: str, error: OSError) -> Finding:
    remedy = "check whether it runs, its address and password; until then each gateway counts alone"
    return Finding("store", "problem", f"{place}: {_reason(error)}", remedy)


def _reason(error: OSError) -> str:
    """Return why a server gave no answer; a time-out has no text of its own."""
    return str(error) or f"no answer within {STORE_TIMEOUT_S:g} s"


async def _ask_store(address: StoreAddress, place: str) -> tuple[list[Finding], float]:
    connection = await connect(address)
    try:
        began = time.perf_counter()
        await connection.call(b"PING")
        milliseconds = (time.perf_counter() - began) * 1000
        seconds, micros = await connection.call(b"TIME")
        skew = time.time() - int(seconds) - int(micros) / 1e6
        info = _info(await connection.call(b"INFO", b"server"))
        try:
            reply = await connection.call(b"CONFIG", b"GET", b"maxmemory*")
            settings = _pairs(reply)
        except OSError:
            settings = {}  # hosted stores refuse this
    finally:
        connection.close()
    return list(_judge_store(place, milliseconds, info, settings)), skew


def _judge_store(
    place: str, milliseconds: float, info: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[Finding]:
    name = "Valkey" if "valkey_version" in info else "Redis"
    text = info.get("valkey_version") or info.get("redis_version", "")
    number = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    what = f"{place}: {name} {text}, {milliseconds:.1f} ms"
    if name == "Redis" and number and number < OLDEST_STORE:
        yield Finding("store", "problem", what, "upgrade it to Redis 6.2 or Valkey")
    elif milliseconds > SLOW_STORE_MS:
        yield Finding("store", "warning", what, "every call waits for it: run it nearer")
    else:
        yield Finding("store", "ok", what)
    policy, limit = settings.get("maxmemory-policy"), settings.get("maxmemory")
    if policy is None:
        remedy = "see that its eviction policy is volatile-ttl"
        yield Finding("eviction", "warning", "the store does not say what it evicts", remedy)
    elif policy == "volatile-ttl" or limit == "0":
        bound = "no memory limit" if limit == "0" else f"a limit of {int(limit or 0) >> 20} MB"
        yield Finding("eviction", "ok", f"{policy}, {bound}")
    else:
        effect = (
            "when it is full, gateways count alone"
            if policy == "noeviction"
            else "when it is full, it drops keys and settings of gateways"
            if policy.startswith("allkeys")
            else "when it is full, it drops counts in the wrong order"
        )
        remedy = "CONFIG SET maxmemory-policy volatile-ttl"
        yield Finding("eviction", "warning", f"{policy}: {effect}", remedy)


def _info(reply: bytes) -> dict[str, str]:
    lines = reply.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _pairs(reply: Sequence[bytes]) -> dict[str, str]:
    texts = [one.decode("utf-8", "replace") for one in reply]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def clock_finding(skews: Sequence[float]) -> Finding:
    """Return whether this machine's clock agrees with that of most others."""
    if not skews:
        return Finding("clock", "warning", "not compared: nothing answered with its time")
    skew = sorted(skews)[len(skews) // 2]
    if abs(skew) <= MAX_SKEW_S:
        return Finding("clock", "ok", f"differs by less than {max(1.0, abs(skew)):.0f} s")
    side = "ahead" if skew > 0 else "behind"
    remedy = "set it by NTP (`timedatectl set-ntp true`): budgets and signatures depend on it"
    return Finding("clock", "problem", f"{abs(skew):.0f} s {side}", remedy)


# Alerts


async def channel_findings(config: Config, env: Mapping[str, str], send: bool) -> list[Finding]:
    """Return how the channels of alerts are; with `send`, whether they take a test alert."""
    if not config.channels:
        remedy = "`looptrap init --alert slack` shows how to add a channel"
        return [Finding("alerts", "warning", "no channel: loops are not reported", remedy)]
    try:
        channels = make_channels(config.channels, env)
    except ConfigError:
        return []  # found with the settings
    if not send:
        message = "configured; --send sends a test alert"
        return [Finding(f"channel {one.name}", "ok", message) for one in channels]
    return [
        Finding(f"channel {result['channel']}", "ok", "took a test alert")
        if result["ok"]
        else Finding(
            f"channel {result['channel']}",
            "problem",
            f"did not take a test alert: {result['error']}",
            "check its URL and secret",
        )
        for result in await try_channels(channels)
    ]
