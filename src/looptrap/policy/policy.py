"""Policies, projects and kill switches: which calls rules bind, and how strictly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, get_args

from looptrap.errors import ConfigError, Problem
from looptrap.policy.action import Action
from looptrap.policy.kind import (
    ACTIONS,
    COOLDOWN,
    HEADER,
    NAME,
    PATH,
    PLAIN,
    SOME_VALUES,
    THRESHOLD,
    TOKEN,
    WINDOW,
    pairs,
)
from looptrap.policy.rate import RATE, Rate
from looptrap.policy.rule import RULE, Rule, RuleChange, change_rule
from looptrap.schema import Choice, Listing, Moment, Table, Text, setting, settings
from looptrap.schema.wording import listed, suggestion

Mode = Literal["enforce", "shadow"]
Detection = Literal["on", "shadow", "off"]
Compat = Literal["fairvisor"]


def _path_mistakes(values: Mapping[str, Any]) -> Iterator[Problem]:
    if "path_exact" in values and "path_prefix" in values:
        yield Problem("", "has path_exact and path_prefix, needs one or the other")


@settings
class Selector:
    """The calls that a policy binds; an unset field matches everything."""

    path_exact: str | None = setting("the whole path", PATH, default=None)
    path_prefix: str | None = setting("how the path begins", PATH, default=None)
    methods: tuple[str, ...] = setting(
        "HTTP methods; a `request` rule counts GET and HEAD only when they are named here",
        Listing(Text(form="an HTTP method", pattern=TOKEN, into=str.upper), "methods"),
        default=(),
    )
    hosts: tuple[str, ...] = setting(
        "host names the call was sent to, without port",
        Listing(
            Text(form="a host name without port", pattern=r"[^\s/:?#@]+", into=str.lower),
            "host names",
        ),
        default=(),
    )
    headers: tuple[tuple[str, str], ...] = setting(
        'names and values; the value `"*"` asks only that the header is there',
        pairs(HEADER, PLAIN, "header names and values"),
        default=(),
    )
    models: tuple[str, ...] = setting(
        "model names; `*` and `?` are wildcards", Listing(Text(), "model names"), default=()
    )


SELECTOR = Table.of(Selector, check=_path_mistakes)


@settings
class Policy:
    """Ordered rules and rates, the calls they bind, and whether they act or only report."""

    name: str = setting("what verdicts and incidents call it", NAME)
    mode: Mode = setting("`shadow` counts and reports, and lets everything pass", default="enforce")
    select: Selector = setting(
        "which calls it binds; what is not set matches everything", SELECTOR, default=Selector()
    )
    rules: tuple[Rule, ...] = setting(
        "its rules; the severest verdict wins, on a tie the first rule",
        Listing(RULE, "tables", unique="name"),
        default=(),
    )
    rates: tuple[Rate, ...] = setting(
        "how fast calls, or their tokens, may come",
        Listing(RATE, "tables", unique="name"),
        default=(),
    )
    compat: tuple[Compat, ...] = setting(
        "systems whose own answer headers are sent beside ours",
        Listing(Choice(get_args(Compat)), "names of systems"),
        default=(),
    )


def _policy_mistakes(values: Mapping[str, Any]) -> Iterator[Problem]:
    if "rules" not in values and "rates" not in values:
        yield Problem("", "has neither rules nor rates, needs one of them, or both")


POLICY = Table.of(Policy, check=_policy_mistakes)


def rule_places(policies: Sequence[Policy], name: str) -> list[tuple[int, int]]:
    """Return the index of the policy and of the rule, for each rule of that name."""
    return [
        (i, j)
        for i, policy in enumerate(policies)
        for j, rule in enumerate(policy.rules)
        if rule.name == name
    ]


def change_rules(
    policies: Sequence[Policy], name: str, change: RuleChange, place: str, problems: list[Problem]
) -> tuple[Policy, ...]:
    """Return the policies with every rule of that name changed; report it if there is none."""
    changed, places = list(policies), rule_places(policies, name)
    if not places:
        names = list(dict.fromkeys(rule.name for one in policies for rule in one.rules))
        hint = suggestion(name, names) or f"; the rules are {listed(names, 'and')}"
        problems.append(Problem(place, f"there is no such rule{hint}"))
    for i, j in places:
        rules = list(changed[i].rules)
        rules[j] = change_rule(rules[j], change, place, problems)
        changed[i] = replace(changed[i], rules=tuple(rules))
    return tuple(changed)


@settings
class Project:
    """A group of callers with settings of its own."""

    name: str = setting("what it is called", NAME)
    keys: tuple[str, ...] = setting(
        "the gateway keys whose callers belong to it",
        Listing(Text(), "names of gateway keys"),
        default=(),
    )
    detection: Detection = setting("`shadow` only reports, `off` does not even count", default="on")
    threshold: int | None = setting(
        "threshold of the severest action of every rule that counts across requests",
        THRESHOLD,
        default=None,
    )
    window: float | None = setting("window of every such rule", WINDOW, default=None)
    cooldown: float | None = setting("cooldown of every rule", COOLDOWN, default=None)
    action: Action | None = setting("every rule's severest action", ACTIONS, default=None)

    def adapt(self, policy: Policy) -> Policy | None:
        """Return the policy for this project's calls; None when it does not apply."""
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
        """Yield a sentence for each policy that cannot be adapted to this project."""
        for policy in policies:
            try:
                self.adapt(policy)
            except ConfigError as error:
                for problem in error.problems:
                    yield f"policy {policy.name}: {problem}"


PROJECT = Table.of(Project)


@settings
class KillSwitch:
    """Refuse every call whose descriptors have these values, until it expires."""

    match: tuple[tuple[str, str], ...] = setting(
        "descriptors and the values they must have; all must match", SOME_VALUES
    )
    reason: str = setting("the reason that the refused client gets", PLAIN, default="")
    expires: datetime | None = setting("when it ends; without it, never", Moment(), default=None)
    path_exact: str | None = setting("only on this path", PATH, default=None)
    path_prefix: str | None = setting("only on paths that begin so", PATH, default=None)


KILL_SWITCH = Table.of(KillSwitch, check=_path_mistakes)
