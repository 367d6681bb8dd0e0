"""The algorithms of rate rules: what of their settings becomes a rate."""

from __future__ import annotations

import re
from math import ceil
from typing import Any

from looptrap.policy.fairvisor.finding import Findings
from looptrap.policy.setting.kind import TOKENS
from looptrap.policy.setting.rate import CALLS, RPS
from looptrap.schema import Number
from looptrap.schema.wording import found, inside, quoted, shown

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
            f"{inside(place, 'estimator')}: header_hint is not supported, tokens are told from the"
            " size of the request"
        )
