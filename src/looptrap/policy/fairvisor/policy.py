"""The policies of a bundle: selector, mode, rates and loop detection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from looptrap.detect.window import HIT_LIMIT, Window, WindowKind
from looptrap.policy.action import Action, Ladder
from looptrap.policy.fairvisor.finding import Findings
from looptrap.policy.fairvisor.limit import read_limits
from looptrap.policy.fairvisor.selector import read_selectors
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule
from looptrap.policy.setting.kind import PLAIN, WINDOW
from looptrap.schema.wording import found, inside

RULE = "loop-detection"
ACTIONS = {"reject": Action.BLOCK, "throttle": Action.THROTTLE, "warn": Action.WARN}


def read_policy(
    findings: Findings, policy: dict[str, Any], place: str, shadow: bool
) -> Iterator[Policy]:
    """Yield the policy, as one or two; none when it binds nothing."""
    findings.name_unknown(place, policy, "id spec")
    name = policy.get("id")
    if not isinstance(name, str) or not name or not re.fullmatch(PLAIN.pattern, name):
        findings.wrong(place, f"id is {found(name)}, must be {PLAIN.words()}, not empty")
    spec = findings.table(policy, place, "spec", required=True)
    if spec is None:
        return
    place = inside(place, "spec")
    findings.name_unknown(
        place, spec, "selector mode rules fallback_limit loop_detection circuit_breaker"
    )
    mode = spec.get("mode", "enforce")
    if mode not in ("enforce", "shadow"):
        findings.wrong(f"{place}.mode", f"is {found(mode)}, must be enforce or shadow")
    rates, by = read_limits(findings, spec, place)
    rule = _loop_detection(findings, spec, place, by)
    _circuit_breaker(findings, spec, place)
    selectors = list(read_selectors(findings, spec, place))
    if rates and len(selectors) > 1:
        findings.warnings.append(
            f"{inside(place, 'selector')}: rates count calls of the exact path and calls under the"
            " prefix apart"
        )
    for i, select in enumerate(selectors):
        yield Policy(
            name=str(name) if i == 0 else f"{name} (exact path)",
            mode="shadow" if shadow or mode == "shadow" else "enforce",
            select=select,
            rules=() if rule is None else (rule,),
            rates=rates,
            compat=("fairvisor",),
        )


def _loop_detection(
    findings: Findings, spec: dict[str, Any], place: str, by: Sequence[str]
) -> Rule | None:
    block = findings.table(spec, place, "loop_detection")
    if block is None:
        return None
    place = inside(place, "loop_detection")
    findings.name_unknown(
        place, block, "enabled window_seconds threshold_identical_requests action similarity"
    )
    if not isinstance(block.get("enabled", False), bool):
        findings.wrong(place, f"enabled must be a boolean (is {found(block['enabled'])})")
    if block.get("enabled") is not True:
        return None
    before = len(findings.problems)
    window = _count(findings, block, place, "window_seconds", 1, int(WINDOW.high))
    threshold = _count(findings, block, place, "threshold_identical_requests", 2, HIT_LIMIT)
    action = block.get("action", "reject")
    if not isinstance(action, str) or action not in ACTIONS:
        findings.wrong(place, f"action must be one of reject, throttle, warn (is {found(action)})")
    if block.get("similarity", "exact") != "exact":
        findings.wrong(place, f"similarity must be exact (is {found(block['similarity'])})")
    if len(findings.problems) > before:
        return None
    return Rule(
        name=RULE,
        watch="request",
        by=("caller", *by),
        window=Window(float(window), WindowKind.REFRESHED),
        ladder=Ladder({ACTIONS[action]: threshold}),
        retry_after=float(window) if action == "reject" else None,
    )


def _count(
    findings: Findings, block: dict[str, Any], place: str, key: str, low: int, high: int
) -> int:
    value = block.get(key)
    if value is None:
        findings.wrong(place, f"when enabled is true, {key} is required")
    elif (
        isinstance(value, bool)
        or value != value
        or not isinstance(value, int | float)
        or value <= 0
        or (isinstance(value, float) and not value.is_integer())
    ):
        findings.wrong(place, f"{key} must be a positive integer (is {found(value)})")
    elif value < low:
        findings.wrong(place, f"{key} must be >= {low} (is {found(value)})")
    elif value > high:
        findings.wrong(place, f"{key} must be <= {high} here (is {found(value)})")
    else:
        return int(value)
    return low


def _circuit_breaker(findings: Findings, spec: dict[str, Any], place: str) -> None:
    block = findings.table(spec, place, "circuit_breaker")
    if block is not None and block.get("enabled"):
        findings.warnings.append(f"{inside(place, 'circuit_breaker')}: is not enforced yet")
