"""The well-known `LOOP_GUARD_*` variables: they edit the rule `identical-conversation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from looptrap.detect.window import HIT_LIMIT
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule
from looptrap.policy.setting.kind import COOLDOWN, WINDOW
from looptrap.schema import Kind, Number

RULE = "identical-conversation"
WINDOW_SECONDS = "LOOP_GUARD_WINDOW_SECONDS"
MAX_HITS = "LOOP_GUARD_MAX_HITS"
COOLDOWN_SECONDS = "LOOP_GUARD_COOLDOWN_SECONDS"

VARIABLES: Mapping[str, Kind] = {
    WINDOW_SECONDS: WINDOW,
    MAX_HITS: Number(low=0, high=HIT_LIMIT - 1, whole=True),
    COOLDOWN_SECONDS: COOLDOWN,
}


@dataclass(frozen=True, slots=True)
class Edited:
    """Policies after the variables were applied."""

    policies: tuple[Policy, ...]
    origins: Mapping[str, str] = field(default_factory=dict)
    """The places whose values came from a variable, and which."""
    warnings: tuple[str, ...] = ()


def edit(policies: Sequence[Policy], values: Mapping[str, Any]) -> Edited:
    """Return the policies with the variables' (typed) values in place of their own."""
    if not values:
        return Edited(tuple(policies))
    if values.get(MAX_HITS) == 0:
        return _switch_off(policies)
    origins: dict[str, str] = {}
    edited = []
    for i, policy in enumerate(policies):
        rules = list(policy.rules)
        for j, rule in enumerate(rules):
            if rule.name == RULE:
                rules[j] = _override(rule, values)
                origins |= _origins(f"policies[{i}].rules[{j}]", values)
        edited.append(replace(policy, rules=tuple(rules)))
    if origins:
        return Edited(tuple(edited), origins)
    return Edited(
        tuple(policies),
        warnings=tuple(f"{name}: has no effect, there is no rule {RULE}" for name in values),
    )


def _override(rule: Rule, values: Mapping[str, Any]) -> Rule:
    hits = values.get(MAX_HITS)
    return rule.override(
        # So many may pass; the next one trips.
        threshold=None if hits is None else hits + 1,
        window=values.get(WINDOW_SECONDS),
        cooldown=values.get(COOLDOWN_SECONDS),
    )


def _origins(place: str, values: Mapping[str, Any]) -> dict[str, str]:
    settings = {WINDOW_SECONDS: "window", MAX_HITS: "thresholds", COOLDOWN_SECONDS: "cooldown"}
    return {f"{place}.{settings[name]}": name for name in values}


def _switch_off(policies: Sequence[Policy]) -> Edited:
    off = tuple(
        replace(policy, rules=tuple(replace(rule, enabled=False) for rule in policy.rules))
        for policy in policies
    )
    return Edited(
        off,
        {
            f"policies[{i}].rules[{j}].enabled": MAX_HITS
            for i, policy in enumerate(off)
            for j in range(len(policy.rules))
        },
        (f"{MAX_HITS}: is 0, so all detection is off",),
    )
