"""Configuration: TOML, Fairvisor bundles, state files, and parameters of the admin API."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from fuzz.target import Target
from looptrap.admin.api import LIMIT, SINCE, UNTIL
from looptrap.cli.output import parse_since
from looptrap.config import Config, load
from looptrap.config.description import of_policy, of_rate, of_rule
from looptrap.config.setting import CONFIG, SCALARS, variable
from looptrap.dialect.content import UNREADABLE
from looptrap.engine import Guard
from looptrap.errors import ConfigError
from looptrap.gateway.shared_settings.runtime_override import read_kill_switch
from looptrap.gateway.state_file import StateFile
from looptrap.policy import fairvisor, preset
from looptrap.schema import Table, from_text, read
from looptrap.schema.wording import shown

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HERE = Path(__file__).parents[2]
BUNDLE = {
    "bundle_version": 1,
    "issued_at": "2025-01-01T00:00:00Z",
    "policies": [
        {
            "id": "agents",
            "spec": {
                "selector": {"pathPrefix": "/v1/", "methods": ["POST"], "hosts": ["a.example"]},
                "mode": "enforce",
                "loop_detection": {
                    "enabled": True,
                    "window_seconds": 60,
                    "threshold_identical_requests": 5,
                    "action": "reject",
                },
                "rules": [
                    {
                        "name": "rate",
                        "limit_keys": ["jwt:org_id", "header:x-team"],
                        "algorithm": "token_bucket",
                        "algorithm_config": {"tokens_per_second": 5, "burst": 10},
                    }
                ],
            },
        }
    ],
    "kill_switches": [{"scope_key": "jwt:org_id", "scope_value": "x", "reason": "leaked"}],
}
PARAMETERS: Table[dict[str, object]] = Table(build=dict, fields=[LIMIT, SINCE, UNTIL])


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="looptrap-fuzz-")


def _file(name: str, data: bytes) -> Path:
    path = Path(_folder().name) / name
    path.write_bytes(data)
    return path


def check_config(data: bytes) -> None:
    """A file is a configuration or a ConfigError; what is accepted can be told and judged by."""
    try:
        config = load(_file("looptrap.toml", data), env={}, now=NOW)
    except ConfigError as error:
        _told(str(error))
        return
    _usable(config)


def check_bundle(data: bytes) -> None:
    """The same of a bundle; and a bundle of any plain values is read, or a ConfigError."""
    try:
        config = load(_file("bundle.json", data), env={}, now=NOW)
    except ConfigError as error:
        _told(str(error))
        return
    _usable(config)


def check_plain(data: bytes) -> None:
    """Plain values, as the admin API takes them: settings, kill switches, bundles."""
    try:
        value = msgspec.json.decode(data)
    except UNREADABLE:
        return
    for accept in (lambda: read(CONFIG, value), lambda: read_kill_switch(value)):
        try:
            accept()
        except ConfigError as error:
            _told(str(error))
    if isinstance(value, dict):
        try:
            fairvisor.load(value, NOW)
        except ConfigError as error:
            _told(str(error))


def check_text(data: bytes) -> None:
    """One text as every setting: in the environment, as a parameter, as an age."""
    text = data.decode("utf-8", "surrogateescape").replace("\0", "")
    for name in map(variable, SCALARS):
        try:
            load(None, env={name: text}, now=NOW)
        except ConfigError as error:
            _told(str(error))
    for field in PARAMETERS.fields:
        try:
            read(PARAMETERS, {field.name: from_text(field.kind, text)})
        except ConfigError as error:
            _told(str(error))
    try:
        parse_since(text, "--since", NOW)
    except ConfigError as error:
        _told(str(error))


def check_state(data: bytes) -> None:
    """A state file is read, or a ConfigError that repeats no value of it."""
    try:
        StateFile(_file("state", data)).read()
    except ConfigError as error:
        _told(str(error))


def _told(message: str) -> None:
    assert message
    odd = [one for one in message if not one.isprintable() and one != "\n"]
    assert not odd, f"a message for people holds {odd[:3]!r}"


def _usable(config: Config) -> None:
    Guard(config.policies, kill_switches=config.kill_switches, secret=b"fuzz" * 8)
    for _, value, _ in config.effective():
        _told(shown(value))
    for policy in config.policies:
        _told(of_policy(policy))
        for rule in policy.rules:
            _told(of_rule(rule))
        for rate in policy.rates:
            _told(of_rate(rate))
    for warning in config.warnings:
        _told(warning)


def files() -> Iterator[bytes]:
    """Yield the presets, and files that people start from."""
    yield from (preset.text(name).encode() for name in preset.names())
    for path in (*HERE.glob("examples/*.toml"), *HERE.glob("deploy/**/*.toml")):
        yield path.read_bytes()
    yield (
        b'store = "memory"\nblock_status = 429\n[gateway]\nlisten = "127.0.0.1:4100"\n'
        b'[[providers]]\nname = "a"\nbase_url = "https://a.example/v1"\n'
        b'[[routes]]\nchain = ["a/m"]\n[[budgets]]\nby = ["session"]\nlimit_usd = 5\n'
        b'[tools.poll]\nexempt = true\n[prices."m"]\ninput = 3.0\noutput = 15.0\n'
        b'[[channels]]\nkind = "webhook"\nurl = "https://a.example/h"\nevents = ["loop.*"]\n'
        b'[[kill_switches]]\nmatch = { caller = "c" }\nexpires = 2026-12-01T00:00:00Z\n'
    )


def bundles() -> Iterator[bytes]:
    """Yield a bundle with one of everything."""
    yield msgspec.json.encode(BUNDLE)
    shadow = {"enabled": True, "reason": "trial", "expires_at": "2027-01-01T00:00:00Z"}
    yield msgspec.json.encode(BUNDLE | {"global_shadow": shadow, "kill_switch_override": shadow})


def plain() -> Iterator[bytes]:
    """Yield the default preset and a kill switch in plain form, and bundles."""
    yield msgspec.json.encode(preset.table(preset.DEFAULT))
    yield b'{"match":{"caller":"c"},"reason":"leaked","expires":"2026-12-01T00:00:00Z"}'
    yield from bundles()


def texts() -> Iterator[bytes]:
    """Yield values of settings."""
    yield from (
        b"429", b"0.05", b"redis://user:password@host:6379/1?db=1", b"digests", b"default", b"24h",
        b"127.0.0.1:4100", b"32MB", b"2026-11-16T09:00:00+00:00", b"a, b, c", b"true",
    )  # fmt: skip


def states() -> Iterator[bytes]:
    """Yield a state file as it is written."""
    path = Path(_folder().name) / "made"
    StateFile(path).secret()
    yield path.read_bytes()


WORDS = (
    b"[[policies]]\n", b"[[policies.rules]]\n", b"[gateway]\n", b"name = ", b"watch = ",
    b'"repeat"',
    b"threshold = ", b"thresholds = {", b"window = ", b"= -1\n", b"= inf\n", b"= nan\n",
    b"'''", b'"""',
    b"1979-05-27T07:32:00Z", b"by = [", b"1e400", b"\\u0000", b"select = { ",
)  # fmt: skip
TARGETS = [
    Target(name="config", check=check_config, seeds=files, words=WORDS),
    Target(name="bundle", check=check_bundle, seeds=bundles),
    Target(name="plain", check=check_plain, seeds=plain),
    Target(name="text", check=check_text, seeds=texts, words=(b"://", b"@", b"MB", b"h", b"[::1]")),
    Target(name="state", check=check_state, seeds=states),
]
