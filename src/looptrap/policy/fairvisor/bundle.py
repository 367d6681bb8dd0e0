"""Reads a bundle: policies, kill switches, run-time overrides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from looptrap.detect.scope import HIT_LIMIT, Window, WindowKind
from looptrap.errors import ConfigError, Problem
from looptrap.policy.action import Action, Ladder
from looptrap.policy.fairvisor.limit import read_limits
from looptrap.policy.kind import PATH, PLAIN, WINDOW
from looptrap.policy.policy import KillSwitch, Policy, Selector
from looptrap.policy.rule import Rule
from looptrap.schema import INVALID, Kind
from looptrap.schema.wording import found, inside

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(slots=True)
class Findings:
    """Mistakes and warnings so far; its methods read parts of tables and record what is wrong."""

    now: datetime
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def tables(
        self, table: dict[str, Any], place: str, key: str, *, required: bool = False
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield place and content of each table in a list of tables."""
        items = table.get(key)
        if items is None and not required:
            return
        if not isinstance(items, list):
            self.wrong(place, f"{key} is {found(items)}, must be a list")
            return
        for i, item in enumerate(items):
            where = f"{inside(place, key)}[{i}]"
            if isinstance(item, dict):
                yield where, item
            else:
                self.wrong(where, f"is {found(item)}, must be a table")

    def table(
        self, table: dict[str, Any], place: str, key: str, *, required: bool = False
    ) -> dict[str, Any] | None:
        """Return the table of that key, if there is one."""
        item = table.get(key)
        if isinstance(item, dict):
            return item
        if item is not None or required:
            self.wrong(place, f"{key} is {found(item)}, must be a table")
        return None

    def time(self, table: dict[str, Any], place: str, key: str) -> datetime | None:
        """Return the time of that key, if there is one."""
        text = table.get(key)
        if text is None:
            return None
        try:
            if not _TIME.fullmatch(text):
                raise ValueError
            return datetime.fromisoformat(text).astimezone(UTC)
        except (TypeError, ValueError):
            self.wrong(inside(place, key), f"is {found(text)}, must be YYYY-MM-DDTHH:MM:SSZ (UTC)")
            return None

    def typed(
        self, kind: Kind, table: dict[str, Any], place: str, key: str, *, required: bool = False
    ) -> Any:
        """Return the value of that key; None where there is none, or one of another kind."""
        value = table.get(key)
        if value is None:
            if required:
                self.wrong(place, f"{key} is required, {kind.words()}")
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has no whole numbers of their own
        read = kind.read(value, inside(place, key), self.problems)
        return None if read is INVALID else read

    def name_unknown(self, place: str, table: dict[str, Any], known: str) -> None:
        """Warn of every key that is none of the known ones."""
        for key in table:
            if key not in known.split():
                self.warnings.append(f"{inside(place, key)}: is not supported, has no effect")

    def wrong(self, place: str, message: str) -> None:
        """Record a mistake."""
        self.problems.append(Problem(place, message))


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What a selector without methods matches there; here, reads must be named to be counted."""

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def read_selectors(findings: Findings, spec: dict[str, Any], place: str) -> Iterator[Selector]:
    """Yield one selector, or two: there an exact path *or* a prefix may match."""
    selector = findings.table(spec, place, "selector", required=True)
    if selector is None:
        return
    place = inside(place, "selector")
    findings.name_unknown(place, selector, "pathExact pathPrefix methods hosts")
    methods, hosts = _methods(findings, selector, place), _hosts(findings, selector, place)
    exact, prefix = (
        read_path(findings, selector, place, key) for key in ("pathExact", "pathPrefix")
    )
    if prefix is not None and not prefix.endswith("/"):
        prefix += "/"
    if exact is None and prefix is None:
        findings.warnings.append(f"{place}: has neither pathExact nor pathPrefix, binds nothing")
    elif not methods:
        findings.warnings.append(f"{inside(place, 'methods')}: names no method, binds nothing")
    else:
        if prefix is not None:
            yield Selector(path_prefix=prefix, methods=methods, hosts=hosts)
        if exact is not None and not (prefix and exact.startswith(prefix)):
            yield Selector(path_exact=exact, methods=methods, hosts=hosts)


def read_path(findings: Findings, selector: dict[str, Any], place: str, key: str) -> str | None:
    """Return the path of that key, if there is one."""
    path = selector.get(key)
    if path is None:
        return None
    if not isinstance(path, str) or not re.fullmatch(PATH.pattern, path):
        findings.wrong(inside(place, key), f"is {found(path)}, must be {PATH.words()}")
        return None
    return path


def _methods(findings: Findings, selector: dict[str, Any], place: str) -> tuple[str, ...]:
    methods = selector.get("methods")
    if methods is None:
        return METHODS
    if not isinstance(methods, list):
        findings.wrong(inside(place, "methods"), f"is {found(methods)}, must be a list")
        return ()
    for i, method in enumerate(methods):
        if not isinstance(method, str) or not method:
            findings.warnings.append(f"{place}.methods[{i}]: is {found(method)}, no method")
    return tuple(method for method in methods if isinstance(method, str) and method)


def _hosts(findings: Findings, selector: dict[str, Any], place: str) -> tuple[str, ...]:
    place = inside(place, "hosts")
    hosts = selector.get("hosts")
    if hosts is None:
        return ()
    if not isinstance(hosts, list) or not hosts:
        findings.wrong(place, "must be a non-empty array of hostnames")
        return ()
    names = []
    for i, host in enumerate(hosts):
        name = re.sub(r":\d+$", "", host.strip().lower()) if isinstance(host, str) else ""
        name = name.removesuffix(".")
        if _HOST.fullmatch(name) and ".." not in name:
            names.append(name)
        else:
            findings.wrong(f"{place}[{i}]", f"is {found(host)}, must be a hostname")
    return tuple(names)


_SCOPE_KEY = re.compile(r"(jwt|header|query|ip|ua):[A-Za-z0-9_-]+")


class Bundle(NamedTuple):
    """A bundle in Looptrap's terms."""

    policies: tuple[Policy, ...]
    kill_switches: tuple[KillSwitch, ...]
    warnings: tuple[str, ...]


def load(bundle: dict[str, Any], now: datetime) -> Bundle:
    """Return a bundle's policies and kill switches; raise ConfigError with every mistake in it."""
    findings = Findings(now)
    read = _bundle(findings, bundle)
    if findings.problems:
        raise ConfigError(findings.problems)
    return read


def _bundle(findings: Findings, bundle: dict[str, Any]) -> Bundle:
    findings.name_unknown(
        "",
        bundle,
        "bundle_version issued_at expires_at policies kill_switches global_shadow"
        " kill_switch_override",
    )
    version = bundle.get("bundle_version")
    if isinstance(version, bool) or not isinstance(version, int | float) or not version > 0:
        findings.wrong("", f"bundle_version is {found(version)}, must be a positive number")
    findings.time(bundle, "", "issued_at")
    expires = findings.time(bundle, "", "expires_at")
    if expires is not None and expires <= findings.now:
        findings.wrong("expires_at", f"is {bundle['expires_at']}: the bundle has expired")
    shadow = _override(findings, bundle, "global_shadow", "every policy is read in shadow mode")
    spared = _override(findings, bundle, "kill_switch_override", "the kill switches are left out")
    policies = [
        policy
        for place, item in findings.tables(bundle, "", "policies", required=True)
        for policy in read_policy(findings, item, place, shadow)
    ]
    _refuse_doubles(findings, bundle)
    switches = [
        _kill_switch(findings, item, place)
        for place, item in findings.tables(bundle, "", "kill_switches")
    ]
    kept = () if spared else tuple(switch for switch in switches if switch is not None)
    return Bundle(tuple(policies), kept, tuple(findings.warnings))


def _override(findings: Findings, bundle: dict[str, Any], name: str, effect: str) -> bool:
    """Return whether a run-time override is active."""
    block = findings.table(bundle, "", name)
    if block is None:
        return False
    if not isinstance(block.get("enabled"), bool):
        findings.wrong(name, "enabled is required, and must be a boolean")
    if block.get("enabled") is not True:
        return False
    reason = block.get("reason")
    if not isinstance(reason, str) or not 0 < len(reason) <= 256:
        findings.wrong(name, "when enabled is true, reason is required: 1 to 256 characters")
    expires = findings.time(block, name, "expires_at")
    if block.get("expires_at") is None:
        findings.wrong(name, "when enabled is true, expires_at is required")
    elif expires is not None and expires <= findings.now:
        findings.wrong(f"{name}.expires_at", f"is {block['expires_at']}: it has expired")
    if expires is not None:
        findings.warnings.append(
            f"{name}: is active, so {effect}; it is read at start only, so start again after"
            f" {block['expires_at']} for it to end"
        )
    return True


def _kill_switch(findings: Findings, switch: dict[str, Any], place: str) -> KillSwitch | None:
    findings.name_unknown(place, switch, "scope_key scope_value route reason expires_at")
    key, value = switch.get("scope_key"), switch.get("scope_value")
    if not isinstance(key, str) or not _SCOPE_KEY.fullmatch(key):
        findings.wrong(place, f"scope_key must match {_SCOPE_KEY.pattern} (is {found(key)})")
    if not isinstance(value, str) or not value:
        findings.wrong(place, f"scope_value must be a non-empty string (is {found(value)})")
    reason = switch.get("reason") or ""
    if not isinstance(reason, str) or not re.fullmatch(PLAIN.pattern, reason):
        findings.wrong(inside(place, "reason"), f"is {found(reason)}, must be {PLAIN.words()}")
    route = read_path(findings, switch, place, "route")
    expires = findings.time(switch, place, "expires_at")
    if isinstance(key, str) and key.startswith(("ip:", "ua:")) and key != "ip:address":
        findings.warnings.append(f"{place}: {key} is not supported, the switch refuses nothing")
        return None
    return KillSwitch(
        match=((str(key), str(value)),), reason=str(reason), expires=expires, path_exact=route
    )


def _refuse_doubles(findings: Findings, bundle: dict[str, Any]) -> None:
    first: dict[str, str] = {}
    for place, policy in findings.tables(bundle, "", "policies"):
        name = policy.get("id")
        if isinstance(name, str) and first.setdefault(name, place) != place:
            findings.wrong(place, f"id is {found(name)}, as in {first[name]}, must differ")


RULE = "loop-detection"
ACTIONS = {"reject": Action.BLOCK, "throttle": Action.THROTTLE, "warn": Action.WARN}


def read_policy(
    findings: Findings, policy: dict[str, Any], place: str, shadow: bool
) -> Iterator[Policy]:
    """Yield one or two policies; none when the policy binds nothing."""
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
