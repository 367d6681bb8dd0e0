"""Reads the rate rules of a bundle, whose descriptors loop detection counts by too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from looptrap.policy.kind import PLAIN, TOKENS
from looptrap.policy.rate import CALLS, RPS, Rate, Values
from looptrap.schema import Number
from looptrap.schema.wording import found, inside, listed, quoted, shown

if TYPE_CHECKING:
    from looptrap.policy.fairvisor.bundle import Findings

ALGORITHMS = ("token_bucket", "cost_based", "token_bucket_llm")

_SOURCE = re.compile(r"(header|query):[A-Za-z0-9_-]+")
_COST = Number(low=0, above=True, high=CALLS.high)
_ESTIMATORS = ("simple_word", "header_hint")


def read_rate(findings: Findings, limit: dict[str, Any], place: str) -> dict[str, Any] | None:
    """Return the settings of the rate that a rule becomes; None when it becomes none."""
    config = findings.table(limit, place, "algorithm_config", required=True)
    if config is None:
        return None
    before = len(findings.problems)
    name, inner = limit.get("name"), inside(place, "algorithm_config")
    settings: dict[str, Any] = {}
    match limit.get("algorithm"):
        case "token_bucket":
            settings = _bucket(findings, config, inner)
        case "token_bucket_llm":
            settings = _token_bucket(findings, config, inner)
        case "cost_based":
            findings.warnings.append(f"{place}: cost_based {quoted(str(name))} is not enforced yet")
    if not settings or len(findings.problems) > before:
        return None
    return {"name": str(name), "kind": limit["algorithm"], **settings}


def _bucket(findings: Findings, config: dict[str, Any], place: str) -> dict[str, Any]:
    known = "algorithm tokens_per_second rps burst cost_source fixed_cost default_cost"
    findings.name_unknown(place, config, known)
    rps = findings.typed(RPS, config, place, "tokens_per_second")
    if config.get("tokens_per_second") is None:
        rps = findings.typed(RPS, config, place, "rps")
        if config.get("rps") is None:
            findings.wrong(place, "tokens_per_second or rps is required")
    burst = findings.typed(CALLS, config, place, "burst", required=True)
    if rps and burst and burst < rps:
        findings.wrong(place, f"burst is {burst}, must be >= tokens_per_second, {shown(rps)}")
    source = config.get("cost_source", "fixed")
    if source != "fixed" and not (isinstance(source, str) and _SOURCE.fullmatch(source)):
        findings.wrong(
            place, f"cost_source is {found(source)}, must be fixed, header:<name> or query:<name>"
        )
    costs = {name: _cost(findings, config, place, name) for name in ("fixed_cost", "default_cost")}
    cost = None if source == "fixed" else source
    default = costs["fixed_cost" if cost is None else "default_cost"]
    return {"rps": rps, "burst": burst, "cost": cost, "default_cost": default}


def _cost(findings: Findings, config: dict[str, Any], place: str, name: str) -> int:
    cost = findings.typed(_COST, config, place, name) or 1.0
    if cost != ceil(cost):
        findings.warnings.append(f"{inside(place, name)}: is {cost:g}, counted as {ceil(cost)}")
    return ceil(cost)


def _token_bucket(findings: Findings, config: dict[str, Any], place: str) -> dict[str, Any]:
    known = "algorithm tokens_per_minute tokens_per_day burst_tokens default_max_completion"
    findings.name_unknown(place, config, f"{known} token_source")
    minute = findings.typed(TOKENS, config, place, "tokens_per_minute", required=True)
    burst = findings.typed(TOKENS, config, place, "burst_tokens")
    if minute and burst and burst < minute:
        findings.wrong(place, f"burst_tokens is {burst}, must be >= tokens_per_minute, {minute}")
    _token_source(findings, config, place)
    return {
        "tokens_per_minute": minute,
        "tokens_per_day": findings.typed(TOKENS, config, place, "tokens_per_day"),
        "burst_tokens": burst,
        "output_tokens": findings.typed(TOKENS, config, place, "default_max_completion") or 1_000,
    }


def _token_source(findings: Findings, config: dict[str, Any], place: str) -> None:
    source = findings.table(config, place, "token_source") or {}
    place = inside(place, "token_source")
    findings.name_unknown(place, source, "estimator")
    estimator = source.get("estimator", "simple_word")
    if estimator not in _ESTIMATORS:
        findings.wrong(
            place, f"estimator is {found(estimator)}, must be simple_word or header_hint"
        )
    elif estimator == "header_hint":
        findings.warnings.append(
            f"{inside(place, 'estimator')}: header_hint is not supported, tokens are estimated from"
            " the size of the request"
        )


FALLBACK = "fallback_limit"

_NAMED_KEY = re.compile(r"(jwt|header|query):[A-Za-z0-9_-]+")
_UNKNOWN_HERE = ("ip:country", "ip:asn", "ip:type", "ip:tor", "ua:bot", "ua:bot_category")


class Limits(NamedTuple):
    """The rates of a policy."""

    rates: tuple[Rate, ...]
    by: tuple[str, ...]
    """All descriptors that they count by."""


class _Limit(NamedTuple):
    place: str
    rule: dict[str, Any]
    match: Values | None
    """The values of the calls that it binds; None when it binds none."""
    unless: tuple[Values, ...] = ()


def read_limits(findings: Findings, spec: dict[str, Any], place: str) -> Limits:
    """Return the rates of a policy, and the descriptors that all its rules count by."""
    rules = list(findings.tables(spec, place, "rules", required=True))
    matches = [_match(findings, rule, where) for where, rule in rules]
    limits = [_Limit(*rule, match) for rule, match in zip(rules, matches, strict=True)]
    fallback = findings.table(spec, place, FALLBACK)
    if fallback is not None:
        # It binds the calls that no rule binds: none, where a rule binds all.
        where = inside(place, FALLBACK)
        is_bound = () in matches
        if is_bound:
            findings.warnings.append(f"{where}: never applies, a rule without match binds all")
        if "match" in fallback:
            findings.warnings.append(f"{inside(where, 'match')}: has no effect")
        others = tuple(match for match in matches if match)
        named = {"name": FALLBACK, **fallback}
        limits.append(_Limit(where, named, None if is_bound else (), others))
    by: dict[str, None] = {}
    rates = []
    for where, rule, match, unless in limits:
        keys = _read(findings, rule, where)
        by |= dict.fromkeys(keys)
        rate = read_rate(findings, rule, where)
        if rate is not None and match is not None:
            rates.append(Rate(by=tuple(keys), match=match, unless=unless, **rate))
    _refuse_doubles(findings, limits)
    return Limits(tuple(rates), tuple(by))


def _read(findings: Findings, limit: dict[str, Any], place: str) -> list[str]:
    """Check a rule except its algorithm's settings; return the descriptors it counts by."""
    findings.name_unknown(place, limit, "name limit_keys algorithm algorithm_config match")
    name, algorithm = limit.get("name"), limit.get("algorithm")
    if not isinstance(name, str) or not name or not re.fullmatch(PLAIN.pattern, name):
        findings.wrong(place, f"name is {found(name)}, must be {PLAIN.words()}, not empty")
    if algorithm not in ALGORITHMS:
        allowed = listed(ALGORITHMS, "or")
        findings.wrong(place, f"algorithm is {found(algorithm)}, must be {allowed}")
    return list(_limit_keys(findings, limit, place))


def _limit_keys(findings: Findings, limit: dict[str, Any], place: str) -> Iterator[str]:
    keys = limit.get("limit_keys")
    if not isinstance(keys, list):
        findings.wrong(place, f"limit_keys is {found(keys)}, must be a list")
        return
    place = inside(place, "limit_keys")
    for i, key in enumerate(keys):
        if _is_known(findings, key, f"{place}[{i}]", "counted as empty"):
            yield key


def _match(findings: Findings, limit: dict[str, Any], place: str) -> Values | None:
    """Return the values that a call must have for a rule to bind it; None when it binds none."""
    match = findings.table(limit, place, "match") or {}
    place = inside(place, "match")
    values, is_told = [], True
    for key, value in match.items():
        where = inside(place, key)
        if not _is_known(findings, key, where, "the rule limits nothing"):
            is_told = False
        elif isinstance(value, str | int | float) and value != "":
            values.append((key, _text(value)))
        else:
            findings.wrong(where, f"is {found(value)}, must be text, not empty, or a number")
    return tuple(values) if is_told else None


def _is_known(findings: Findings, key: object, place: str, effect: str) -> bool:
    if isinstance(key, str) and (_NAMED_KEY.fullmatch(key) or key == "ip:address"):
        return True
    if key in _UNKNOWN_HERE:
        findings.warnings.append(f"{place}: {key} is not supported, {effect}")
    else:
        findings.wrong(place, f"is {found(key)}, must be a descriptor key")
    return False


def _text(value: str | float) -> str:
    """Return a value as Lua writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.14g}" if isinstance(value, float) else str(value)


def _refuse_doubles(findings: Findings, limits: Sequence[_Limit]) -> None:
    first: dict[str, str] = {}
    for place, rule, _, _ in limits:
        name = rule.get("name")
        if isinstance(name, str) and first.setdefault(name, place) != place:
            findings.wrong(place, f"name is {found(name)}, as in {first[name]}, must differ")
