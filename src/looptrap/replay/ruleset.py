"""Rulesets: what calls are judged by, as one value that can be JSON or TOML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from looptrap.config import Config
from looptrap.config.setting import CONFIG
from looptrap.detect.window import HIT_LIMIT
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy, Project
from looptrap.policy.rule import ANSWERS, Rule, ToolRule
from looptrap.schema import Table, read
from looptrap.schema.wording import inside, toml_lines

MAX_ROUNDS = 40
"""The most rounds that a rule can consider."""

MIN_THRESHOLD = 2
"""A first call is never a repeat."""


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Policies, and the settings of projects and tools."""

    policies: tuple[Policy, ...]
    projects: tuple[Project, ...] = ()
    tools: Mapping[str, ToolRule] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config) -> Ruleset:
        """Return the ruleset of a configuration."""
        return cls(config.policies, config.projects, config.tools)

    @classmethod
    def read(cls, plain: object) -> Ruleset:
        """Return the ruleset of a plain value; raises ConfigError."""
        return read(RULESET_TABLE, plain)

    def plain(self) -> dict[str, Any]:
        """Return the ruleset as plain values for JSON."""
        return RULESET_TABLE.plain(self)

    def toml(self) -> str:
        """Return the ruleset as a configuration file."""
        return "\n".join(_lines(self.plain())) + "\n"

    def rules(self) -> Iterator[tuple[Policy, Rule]]:
        """Yield the enabled rules with their policies."""
        return ((policy, rule) for policy in self.policies for rule in policy.rules if rule.enabled)

    def enforced(self) -> Ruleset:
        """Return the ruleset with all policies enforced: a replay shows what they would do."""
        policies = tuple(replace(policy, mode="enforce") for policy in self.policies)
        return replace(self, policies=policies)

    def for_all(self, project: Project) -> Ruleset:
        """Return the ruleset with that project's settings for every call.

        Where the project's detection is not on, there is no policy.
        """
        is_on = project.detection == "on"
        adapted = [project.adapt(policy) for policy in self.policies if is_on]
        policies = tuple(
            _change_rules(policy, _fit_for_answers) for policy in adapted if policy is not None
        )
        return replace(self, policies=policies, projects=())

    def scaled(self, factor: float) -> Ruleset:
        """Return the ruleset with every threshold times `factor`, within the allowed bounds."""
        policies = tuple(
            _change_rules(policy, _in_reach) for policy in scale_policies(self.policies, factor)
        )
        return replace(self, policies=policies)


def _change_rules(policy: Policy, change: Callable[[Rule], Rule]) -> Policy:
    return replace(policy, rules=tuple(map(change, policy.rules)))


def _fit_for_answers(rule: Rule) -> Rule:
    """Return a rule without actions that come too late for an answer: it only warns."""
    is_late = rule.ladder.severest in (Action.THROTTLE, Action.NUDGE)
    if rule.watch not in ANSWERS or not is_late:
        return rule
    return replace(rule, ladder=Ladder({Action.WARN: rule.ladder.first}))


def _in_reach(rule: Rule) -> Rule:
    """Return a rule that considers as many rounds as its thresholds need."""
    if not 0 < rule.looks_at < rule.ladder.last:
        return rule
    ladder = scale_ladder(rule.ladder, 1, MAX_ROUNDS)
    return replace(rule, ladder=ladder, rounds=max(rule.looks_at, ladder.last))


def scale_policies(policies: Iterable[Policy], factor: float) -> tuple[Policy, ...]:
    """Return the policies with every threshold times `factor`."""

    def scaled(rule: Rule) -> Rule:
        return replace(rule, ladder=scale_ladder(rule.ladder, factor, rule.max_threshold))

    return tuple(_change_rules(policy, scaled) for policy in policies)


def scale_ladder(ladder: Ladder, factor: float, limit: int = HIT_LIMIT) -> Ladder:
    """Return the ladder times `factor`, with distinct steps.

    Equal steps are moved up by one; those beyond `limit` are moved down.
    """
    thresholds: dict[Action, int] = {}
    lowest = min(MIN_THRESHOLD, ladder.first)
    for action, threshold in ladder.steps:
        thresholds[action] = max(round(threshold * factor), lowest)
        lowest = thresholds[action] + 1
    for action in reversed(thresholds):
        thresholds[action] = min(thresholds[action], limit)
        limit = thresholds[action] - 1
    return Ladder(thresholds)


RULESET_TABLE: Table[Ruleset] = Table(
    build=Ruleset,
    fields=[one for one in CONFIG.fields if one.name in ("policies", "projects", "tools")],
)


def _lines(plain: Mapping[str, Any]) -> Iterator[str]:
    for policy in plain["policies"]:
        yield "[[policies]]"
        yield from toml_lines(policy)
        for kind in ("rules", "rates"):
            for table in policy.get(kind, ()):
                yield f"\n[[policies.{kind}]]"
                yield from toml_lines(table)
        yield ""
    if not plain["policies"]:
        yield "policies = []\n"
    for project in plain["projects"]:
        yield "[[projects]]"
        yield from toml_lines(project)
        yield ""
    for name, tool in plain["tools"].items():
        yield f"[{inside('tools', name)}]"
        yield from toml_lines(tool)
        yield ""
