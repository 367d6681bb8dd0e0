"""The rate rules of a bundle; they also say what loop detection counts by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from looptrap.policy.fairvisor.algorithm import ALGORITHMS, read_rate
from looptrap.policy.fairvisor.finding import Findings
from looptrap.policy.rate import Rate, Values
from looptrap.policy.setting.kind import PLAIN
from looptrap.schema.wording import found, inside, listed

FALLBACK = "fallback_limit"

_NAMED_KEY = re.compile(r"(jwt|header|query):[A-Za-z0-9_-]+")
_UNKNOWN_HERE = ("ip:country", "ip:asn", "ip:type", "ip:tor", "ua:bot", "ua:bot_category")


class Limits(NamedTuple):
    """What the rate rules of a policy ask for."""

    rates: tuple[Rate, ...]
    by: tuple[str, ...]
    """All descriptors that they count by."""


class _Limit(NamedTuple):
    place: str
    rule: dict[str, Any]
    match: Values | None
    """What a call must have to be bound; None when none is."""
    unless: tuple[Values, ...] = ()


def read_limits(findings: Findings, spec: dict[str, Any], place: str) -> Limits:
    """Return the rates of a policy, and the descriptors that all its rules count by."""
    rules = list(findings.tables(spec, place, "rules", required=True))
    matches = [_match(findings, rule, where) for where, rule in rules]
    limits = [_Limit(*rule, match) for rule, match in zip(rules, matches, strict=True)]
    fallback = findings.table(spec, place, FALLBACK)
    if fallback is not None:
        # It binds what none of the rules binds: never anything, where one of them binds all.
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
    """Note what is wrong with a rule beside its algorithm's settings; return what it counts by."""
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
