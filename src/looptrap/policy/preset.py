"""Presets: policies that ship with Looptrap, one TOML file each."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from looptrap.dialect.agent import AUTO, BlockStatus
from looptrap.errors import ConfigError
from looptrap.policy.policy import POLICY, Policy
from looptrap.schema import Choice, Field, Listing, Table, read
from looptrap.schema.wording import found, listed, suggestion

DEFAULT = "default"

POLICIES = Listing(POLICY, "tables", unique="name")

BLOCK_STATUS = Choice([AUTO, 400, 403, 422, 429])


class Preset(NamedTuple):
    """The contents of a preset's file."""

    policies: tuple[Policy, ...]
    block_status: BlockStatus
    """The status of a refused loop, unless the operator sets another."""


_PRESET: Table[Preset] = Table(
    fields=[
        Field(name="policies", kind=POLICIES, doc="those of the preset"),
        Field(name="block_status", kind=BLOCK_STATUS, doc="of a refused loop", default=AUTO),
    ],
    build=Preset,
)
_FOLDER = files("looptrap.policy") / "presets"


@cache
def names() -> tuple[str, ...]:
    """Return the names of all presets, `default` first."""
    every = (entry.name for entry in _FOLDER.iterdir())
    stems = (name.removesuffix(".toml") for name in every if name.endswith(".toml"))
    return tuple(sorted(stems, key=lambda name: (name != DEFAULT, name)))


def known(name: str) -> str:
    """Return the name; raise ConfigError when there is no such preset."""
    if name not in names():
        hint = suggestion(name, names())
        raise ConfigError(f"is {found(name)}, must be {listed(names(), 'or')}{hint}")
    return name


def text(name: str) -> str:
    """Return the preset's TOML file."""
    return (_FOLDER / f"{known(name)}.toml").read_text(encoding="utf-8")


def summary(name: str) -> str:
    """Return the first line of the preset's file, a summary."""
    return text(name).partition("\n")[0].removeprefix("# ")


def table(name: str) -> dict[str, Any]:
    """Return the preset as a plain table."""
    return tomllib.loads(text(name))


@cache
def read_preset(name: str) -> Preset:
    """Return the contents of the preset's file."""
    return read(_PRESET, table(name))


def load(name: str) -> tuple[Policy, ...]:
    """Return the preset's policies."""
    return read_preset(name).policies
