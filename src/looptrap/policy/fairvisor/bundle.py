"""A whole bundle: policies, kill switches, run-time overrides."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

from looptrap.errors import ConfigError
from looptrap.policy.fairvisor.finding import Findings
from looptrap.policy.fairvisor.policy import read_policy
from looptrap.policy.fairvisor.selector import read_path
from looptrap.policy.policy import KillSwitch, Policy
from looptrap.policy.setting.kind import PLAIN
from looptrap.schema.wording import found, inside

_SCOPE_KEY = re.compile(r"(jwt|header|query|ip|ua):[A-Za-z0-9_-]+")


class Bundle(NamedTuple):
    """What a bundle asks of Looptrap."""

    policies: tuple[Policy, ...]
    kill_switches: tuple[KillSwitch, ...]
    warnings: tuple[str, ...]


def load(bundle: dict[str, Any], now: datetime) -> Bundle:
    """Return what the bundle asks for; raise ConfigError with every mistake in it."""
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
    """Say whether a run-time override is active."""
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
