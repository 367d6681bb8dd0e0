"""Fairvisor policy bundles: read as they are into policies and kill switches.

Loop detection, rates and kill switches are taken over. Everything else in a bundle is named in a
warning: nothing is dropped silently. Pure: `now` decides what has expired.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from math import ceil
from typing import Any, NamedTuple

from looptrap.detect.window import HIT_LIMIT, Window, WindowKind
from looptrap.errors import ConfigError
from looptrap.policy.action import Action, Ladder
from looptrap.policy.fairvisor_part import Findings, Part
from looptrap.policy.kind import PATH, PLAIN, TOKENS, WINDOW
from looptrap.policy.policy import KillSwitch, Policy, Selector
from looptrap.policy.rate import CALLS, RPS, Rate, Values
from looptrap.policy.rule import Rule
from looptrap.schema import Number
from looptrap.schema.wording import found, inside, listed, quoted, shown

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What a selector without methods matches there; here, reads must be named to be counted."""
ACTIONS = {"reject": Action.BLOCK, "throttle": Action.THROTTLE, "warn": Action.WARN}
ALGORITHMS = ("token_bucket", "cost_based", "token_bucket_llm")
ESTIMATORS = ("simple_word", "header_hint")
FALLBACK = "fallback_limit"

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_SCOPE_KEY = re.compile(r"(jwt|header|query|ip|ua):[A-Za-z0-9_-]+")
_NAMED_KEY = re.compile(r"(jwt|header|query):[A-Za-z0-9_-]+")
_COST_SOURCE = re.compile(r"(header|query):[A-Za-z0-9_-]+")
_COST = Number(low=0, above=True, high=CALLS.high)
_UNKNOWN_HERE = ("ip:country", "ip:asn", "ip:type", "ip:tor", "ua:bot", "ua:bot_category")


class Bundle(NamedTuple):
    """A bundle in Looptrap's terms."""

    policies: tuple[Policy, ...]
    kill_switches: tuple[KillSwitch, ...]
    warnings: tuple[str, ...]


def load(bundle: dict[str, Any], now: datetime) -> Bundle:
    """Return a bundle's policies and kill switches; raise ConfigError with every mistake in it."""
    part = Part(bundle, "", Findings(now))
    policies, switches = _read_bundle(part)
    if part.findings.problems:
        raise ConfigError(part.findings.problems)
    return Bundle(policies, switches, tuple(part.findings.warnings))


def _refuse_doubles(parts: Iterable[Part], key: str) -> None:
    first: dict[str, str] = {}
    for part in parts:
        name = part.get(key)
        if isinstance(name, str) and first.setdefault(name, part.place) != part.place:
            part.wrong(f"{key} is {found(name)}, as in {first[name]}, must differ")


def _read_bundle(bundle: Part) -> tuple[tuple[Policy, ...], tuple[KillSwitch, ...]]:
    bundle.warn_of_unknown(
        "bundle_version issued_at expires_at policies kill_switches global_shadow"
        " kill_switch_override"
    )
    version = bundle.get("bundle_version")
    if isinstance(version, bool) or not isinstance(version, int | float) or not version > 0:
        bundle.wrong(f"bundle_version is {found(version)}, must be a positive number")
    bundle.time("issued_at")
    bundle.end("the bundle")
    is_shadow = _is_overridden(bundle, "global_shadow", "every policy is read in shadow mode")
    is_spared = _is_overridden(bundle, "kill_switch_override", "the kill switches are left out")
    parts = list(bundle.parts("policies", required=True))
    policies = [policy for part in parts for policy in _read_policy(part, is_shadow)]
    _refuse_doubles(parts, "id")
    switches = [_read_kill_switch(part) for part in bundle.parts("kill_switches")]
    active = () if is_spared else tuple(switch for switch in switches if switch is not None)
    return tuple(policies), active


def _is_overridden(bundle: Part, name: str, effect: str) -> bool:
    """Return whether a run-time override is active."""
    block = bundle.part(name)
    if block is None:
        return False
    if not isinstance(block.get("enabled"), bool):
        block.wrong("enabled is required, and must be a boolean")
    if block.get("enabled") is not True:
        return False
    reason = block.get("reason")
    if not isinstance(reason, str) or not 0 < len(reason) <= 256:
        block.wrong("when enabled is true, reason is required: 1 to 256 characters")
    if block.get("expires_at") is None:
        block.wrong("when enabled is true, expires_at is required")
    if block.end("it") is not None:
        block.warn(
            f"is active, so {effect}; it is read at start only, so start again after"
            f" {block.get('expires_at')} for it to end"
        )
    return True


def _read_kill_switch(switch: Part) -> KillSwitch | None:
    switch.warn_of_unknown("scope_key scope_value route reason expires_at")
    key, value = switch.get("scope_key"), switch.get("scope_value")
    if not isinstance(key, str) or not _SCOPE_KEY.fullmatch(key):
        switch.wrong(f"scope_key must match {_SCOPE_KEY.pattern} (is {found(key)})")
    if not isinstance(value, str) or not value:
        switch.wrong(f"scope_value must be a non-empty string (is {found(value)})")
    reason, route = switch.typed(PLAIN, "reason"), switch.typed(PATH, "route")
    expires = switch.time("expires_at")
    if isinstance(key, str) and key.startswith(("ip:", "ua:")) and key != "ip:address":
        switch.warn(f"{key} is not supported, the switch refuses nothing")
        return None
    return KillSwitch(
        match=((str(key), str(value)),), reason=reason or "", expires=expires, path_exact=route
    )


def _read_policy(policy: Part, is_shadow: bool) -> Iterator[Policy]:
    """Yield one or two policies; none when the policy binds nothing."""
    policy.warn_of_unknown("id spec")
    name = policy.name("id")
    spec = policy.part("spec", required=True)
    if spec is None:
        return
    spec.warn_of_unknown("selector mode rules fallback_limit loop_detection circuit_breaker")
    mode = spec.get("mode", "enforce")
    if mode not in ("enforce", "shadow"):
        spec.wrong(f"is {found(mode)}, must be enforce or shadow", spec.at("mode"))
    rates, by = _read_rates(spec)
    rule = _read_loop_detection(spec, by)
    breaker = spec.part("circuit_breaker")
    if breaker is not None and breaker.get("enabled"):
        breaker.warn("is not enforced yet")
    selectors = list(_read_selectors(spec))
    if rates and len(selectors) > 1:
        spec.warn(
            "rates count calls of the exact path and calls under the prefix apart",
            spec.at("selector"),
        )
    for i, select in enumerate(selectors):
        yield Policy(
            name=name if i == 0 else f"{name} (exact path)",
            mode="shadow" if is_shadow or mode == "shadow" else "enforce",
            select=select,
            rules=() if rule is None else (rule,),
            rates=rates,
            compat=("fairvisor",),
        )


def _read_selectors(spec: Part) -> Iterator[Selector]:
    """Yield one selector, or two: there an exact path *or* a prefix may match."""
    selector = spec.part("selector", required=True)
    if selector is None:
        return
    selector.warn_of_unknown("pathExact pathPrefix methods hosts")
    methods, hosts = _read_methods(selector), _read_hosts(selector)
    exact, prefix = selector.typed(PATH, "pathExact"), selector.typed(PATH, "pathPrefix")
    if prefix is not None and not prefix.endswith("/"):
        prefix += "/"
    if exact is None and prefix is None:
        selector.warn("has neither pathExact nor pathPrefix, binds nothing")
    elif not methods:
        selector.warn("names no method, binds nothing", selector.at("methods"))
    else:
        if prefix is not None:
            yield Selector(path_prefix=prefix, methods=methods, hosts=hosts)
        if exact is not None and not (prefix and exact.startswith(prefix)):
            yield Selector(path_exact=exact, methods=methods, hosts=hosts)


def _read_methods(selector: Part) -> tuple[str, ...]:
    methods, place = selector.get("methods"), selector.at("methods")
    if methods is None:
        return METHODS
    if not isinstance(methods, list):
        selector.wrong(f"is {found(methods)}, must be a list", place)
        return ()
    for i, method in enumerate(methods):
        if not isinstance(method, str) or not method:
            selector.warn(f"is {found(method)}, no method", f"{place}[{i}]")
    return tuple(method for method in methods if isinstance(method, str) and method)


def _read_hosts(selector: Part) -> tuple[str, ...]:
    hosts, place = selector.get("hosts"), selector.at("hosts")
    if hosts is None:
        return ()
    if not isinstance(hosts, list) or not hosts:
        selector.wrong("must be a non-empty array of hostnames", place)
        return ()
    names = []
    for i, host in enumerate(hosts):
        name = re.sub(r":\d+$", "", host.strip().lower()) if isinstance(host, str) else ""
        name = name.removesuffix(".")
        if _HOST.fullmatch(name) and ".." not in name:
            names.append(name)
        else:
            selector.wrong(f"is {found(host)}, must be a hostname", f"{place}[{i}]")
    return tuple(names)


def _read_loop_detection(spec: Part, by: Iterable[str]) -> Rule | None:
    block = spec.part("loop_detection")
    if block is None:
        return None
    block.warn_of_unknown("enabled window_seconds threshold_identical_requests action similarity")
    if not isinstance(block.get("enabled", False), bool):
        block.wrong(f"enabled must be a boolean (is {found(block.get('enabled'))})")
    if block.get("enabled") is not True:
        return None
    window = _read_count(block, "window_seconds", 1, int(WINDOW.high))
    threshold = _read_count(block, "threshold_identical_requests", 2, HIT_LIMIT)
    action, similarity = block.get("action", "reject"), block.get("similarity", "exact")
    if not isinstance(action, str) or action not in ACTIONS:
        block.wrong(f"action must be one of reject, throttle, warn (is {found(action)})")
        return None
    if similarity != "exact":
        block.wrong(f"similarity must be exact (is {found(similarity)})")
    return Rule(
        name="loop-detection",
        watch="request",
        by=("caller", *by),
        window=Window(float(window), WindowKind.REFRESHED),
        ladder=Ladder({ACTIONS[action]: threshold}),
        retry_after=float(window) if action == "reject" else None,
    )


def _read_count(block: Part, key: str, low: int, high: int) -> int:
    value = block.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None:
        block.wrong(f"when enabled is true, {key} is required")
    elif not is_number or not value > 0 or (isinstance(value, float) and not value.is_integer()):
        block.wrong(f"{key} must be a positive integer (is {found(value)})")
    elif value < low:
        block.wrong(f"{key} must be >= {low} (is {found(value)})")
    elif value > high:
        block.wrong(f"{key} must be <= {high} here (is {found(value)})")
    else:
        return int(value)
    return low


class _Limit(NamedTuple):
    """A rule of a policy, and the calls that it binds."""

    rule: Part
    match: Values | None
    """The values of the calls that it binds; None when it binds none."""
    unless: tuple[Values, ...] = ()


def _read_rates(spec: Part) -> tuple[tuple[Rate, ...], tuple[str, ...]]:
    """Return the rates of a policy, and the descriptors that all its rules count by."""
    limits = [_Limit(rule, _read_match(rule)) for rule in spec.parts("rules", required=True)]
    fallback = spec.part(FALLBACK)
    if fallback is not None:
        # It binds the calls that no rule binds: none, where a rule binds all.
        matches = [limit.match for limit in limits]
        if () in matches:
            fallback.warn("never applies, a rule without match binds all")
        if "match" in fallback.table:
            fallback.warn("has no effect", fallback.at("match"))
        named = Part({"name": FALLBACK, **fallback.table}, fallback.place, fallback.findings)
        others = tuple(match for match in matches if match)
        limits.append(_Limit(named, None if () in matches else (), others))
    by: dict[str, None] = {}
    rates = []
    for rule, match, unless in limits:
        rule.warn_of_unknown("name limit_keys algorithm algorithm_config match")
        name, algorithm = rule.name("name"), rule.get("algorithm")
        if algorithm not in ALGORITHMS:
            allowed = listed(ALGORITHMS, "or")
            rule.wrong(f"algorithm is {found(algorithm)}, must be {allowed}")
        keys = tuple(_read_limit_keys(rule))
        by |= dict.fromkeys(keys)
        settings = _read_algorithm(rule, name)
        if settings and match is not None:
            rates.append(Rate(name=name, by=keys, match=match, unless=unless, **settings))
    _refuse_doubles((limit.rule for limit in limits), "name")
    return tuple(rates), tuple(by)


def _read_limit_keys(rule: Part) -> Iterator[str]:
    keys = rule.get("limit_keys")
    if not isinstance(keys, list):
        rule.wrong(f"limit_keys is {found(keys)}, must be a list")
        return
    for i, key in enumerate(keys):
        if _is_known(rule, key, f"{rule.at('limit_keys')}[{i}]", "counted as empty"):
            yield key


def _read_match(rule: Part) -> Values | None:
    """Return the values that a call must have for a rule to bind it; None when it binds none."""
    match = rule.part("match")
    values, is_known = [], True
    for key, value in match.table.items() if match is not None else ():
        place = inside(rule.at("match"), key)
        if not _is_known(rule, key, place, "the rule limits nothing"):
            is_known = False
        elif isinstance(value, str | int | float) and value != "":
            values.append((key, _lua_text(value)))
        else:
            rule.wrong(f"is {found(value)}, must be text, not empty, or a number", place)
    return tuple(values) if is_known else None


def _is_known(rule: Part, key: object, place: str, effect: str) -> bool:
    if isinstance(key, str) and (_NAMED_KEY.fullmatch(key) or key == "ip:address"):
        return True
    if key in _UNKNOWN_HERE:
        rule.warn(f"{key} is not supported, {effect}", place)
    else:
        rule.wrong(f"is {found(key)}, must be a descriptor key", place)
    return False


def _lua_text(value: str | float) -> str:
    """Return a value as Lua writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.14g}" if isinstance(value, float) else str(value)


def _read_algorithm(rule: Part, name: str) -> dict[str, Any]:
    """Return the settings of the rate that a rule becomes; none when it becomes none."""
    config = rule.part("algorithm_config", required=True)
    if config is None:
        return {}
    before = len(rule.findings.problems)
    settings: dict[str, Any] = {}
    match rule.get("algorithm"):
        case "token_bucket":
            settings = _read_call_bucket(config)
        case "token_bucket_llm":
            settings = _read_token_bucket(config)
        case "cost_based":
            rule.warn(f"cost_based {quoted(name)} is not enforced yet")
    return settings if len(rule.findings.problems) == before else {}


def _read_call_bucket(config: Part) -> dict[str, Any]:
    config.warn_of_unknown(
        "algorithm tokens_per_second rps burst cost_source fixed_cost default_cost"
    )
    key = "rps" if config.get("tokens_per_second") is None else "tokens_per_second"
    rps = config.typed(RPS, key)
    if config.get(key) is None:
        config.wrong("tokens_per_second or rps is required")
    burst = config.typed(CALLS, "burst", required=True)
    if rps and burst and burst < rps:
        config.wrong(f"burst is {burst}, must be >= tokens_per_second, {shown(rps)}")
    source = config.get("cost_source", "fixed")
    if source != "fixed" and not (isinstance(source, str) and _COST_SOURCE.fullmatch(source)):
        config.wrong(
            f"cost_source is {found(source)}, must be fixed, header:<name> or query:<name>"
        )
    fixed, default = (_read_cost(config, key) for key in ("fixed_cost", "default_cost"))
    settings = {"rps": rps, "burst": burst}
    if source == "fixed":
        return {**settings, "default_cost": fixed}
    return {**settings, "cost": source, "default_cost": default}


def _read_cost(config: Part, key: str) -> int:
    cost = config.typed(_COST, key) or 1.0
    if cost != ceil(cost):
        config.warn(f"is {cost:g}, counted as {ceil(cost)}", config.at(key))
    return ceil(cost)


def _read_token_bucket(config: Part) -> dict[str, Any]:
    config.warn_of_unknown(
        "algorithm tokens_per_minute tokens_per_day burst_tokens default_max_completion"
        " token_source"
    )
    minute = config.typed(TOKENS, "tokens_per_minute", required=True)
    burst = config.typed(TOKENS, "burst_tokens")
    if minute and burst and burst < minute:
        config.wrong(f"burst_tokens is {burst}, must be >= tokens_per_minute, {minute}")
    if (source := config.part("token_source")) is not None:
        _check_token_source(source)
    return {
        "kind": "token_bucket_llm",
        "tokens_per_minute": minute,
        "tokens_per_day": config.typed(TOKENS, "tokens_per_day"),
        "burst_tokens": burst,
        "output_tokens": config.typed(TOKENS, "default_max_completion") or 1_000,
    }


def _check_token_source(source: Part) -> None:
    source.warn_of_unknown("estimator")
    estimator = source.get("estimator", "simple_word")
    if estimator not in ESTIMATORS:
        source.wrong(f"estimator is {found(estimator)}, must be simple_word or header_hint")
    elif estimator == "header_hint":
        source.warn(
            "header_hint is not supported, tokens are estimated from the size of the request",
            source.at("estimator"),
        )
