"""Policies, projects and kill switches: whom rules bind, and how strictly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from looptrap.errors import ConfigError
from looptrap.policy.action import Action
from looptrap.policy.rule import Rule

if TYPE_CHECKING:
    from looptrap.policy.limit import Rate

Mode = Literal["enforce", "shadow"]
Detection = Literal["on", "shadow", "off"]
Compat = Literal["fairvisor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Which calls a policy binds; what is not set matches everything."""

    path_exact: str | None = None
    path_prefix: str | None = None
    methods: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """Name and value; the value `*` asks only that the header is there."""
    models: tuple[str, ...] = ()
    """Model names; `*` and `?` are wild."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Ordered rules and rates, whom and what they bind, and whether they act or only watch."""

    name: str
    mode: Mode = "enforce"
    select: Selector = field(default_factory=Selector)
    rules: tuple[Rule, ...] = ()
    rates: tuple[Rate, ...] = ()
    compat: tuple[Compat, ...] = ()
    """Systems whose own answer headers are sent beside ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A group of callers with settings of its own."""

    name: str
    keys: tuple[str, ...] = ()
    """The names of the gateway keys whose callers belong to it."""
    detection: Detection = "on"
    threshold: int | None = None
    window: float | None = None
    cooldown: float | None = None
    action: Action | None = None

    def adapt(self, policy: Policy) -> Policy | None:
        """Return the policy as it binds this project's calls; None when it does not."""
        if self.detection == "off":
            return None
        return replace(
            policy,
            mode="shadow" if self.detection == "shadow" else policy.mode,
            rules=tuple(
                rule.override(
                    threshold=self.threshold,
                    action=self.action,
                    window=self.window,
                    cooldown=self.cooldown,
                )
                for rule in policy.rules
            ),
        )

    def misfits(self, policies: Iterable[Policy]) -> Iterator[str]:
        """Say, a sentence each, which policies cannot be adapted to this project."""
        for policy in policies:
            try:
                self.adapt(policy)
            except ConfigError as error:
                for problem in error.problems:
                    yield f"policy {policy.name}: {problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSwitch:
    """Refuse every call whose descriptors have these values, until it expires."""

    match: tuple[tuple[str, str], ...]
    """Descriptor (`caller`, `session`, `model`, `header:x-team`, …) and value; all must match."""
    reason: str = ""
    expires: datetime | None = None
    path_exact: str | None = None
    path_prefix: str | None = None
