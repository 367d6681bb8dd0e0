"""The rate rules of a bundle: not enforced yet, but they say what loop detection counts by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from looptrap.policy.fairvisor.finding import Findings
from looptrap.schema.wording import found, inside, listed, quoted

ALGORITHMS = ("token_bucket", "cost_based", "token_bucket_llm")

_NAMED_KEY = re.compile(r"(jwt|header|query):[A-Za-z0-9_-]+")
_UNKNOWN_HERE = ("ip:country", "ip:asn", "ip:type", "ip:tor", "ua:bot", "ua:bot_category")


def count_by(findings: Findings, spec: dict[str, Any], place: str) -> list[str]:
    """Name the rate rules, which bind nothing yet; return the descriptors they count by."""
    limits = list(findings.tables(spec, place, "rules", required=True))
    fallback = findings.table(spec, place, "fallback_limit")
    if fallback is not None:
        limits.append((inside(place, "fallback_limit"), {"name": "fallback_limit", **fallback}))
    by: list[str] = []
    for where, limit in limits:
        findings.name_unknown(where, limit, "name limit_keys algorithm algorithm_config match")
        name, algorithm = limit.get("name"), limit.get("algorithm")
        if not isinstance(name, str) or not name:
            findings.wrong(where, f"name is {found(name)}, must be text, not empty")
        if algorithm not in ALGORITHMS:
            findings.wrong(
                where, f"algorithm is {found(algorithm)}, must be {listed(ALGORITHMS, 'or')}"
            )
        else:
            findings.warnings.append(
                f"{where}: {algorithm} {quoted(str(name))} is not enforced yet"
            )
        findings.table(limit, where, "algorithm_config", required=True)
        findings.table(limit, where, "match")
        by += [key for key in _limit_keys(findings, limit, where) if key not in by]
    return by


def _limit_keys(findings: Findings, limit: dict[str, Any], place: str) -> Iterator[str]:
    place = inside(place, "limit_keys")
    keys = limit.get("limit_keys")
    if not isinstance(keys, list):
        findings.wrong(place.rpartition(".")[0], f"limit_keys is {found(keys)}, must be a list")
        return
    for i, key in enumerate(keys):
        if isinstance(key, str) and (_NAMED_KEY.fullmatch(key) or key == "ip:address"):
            yield key
        elif key in _UNKNOWN_HERE:
            findings.warnings.append(f"{place}[{i}]: {key} is not supported, counted as empty")
        else:
            findings.wrong(f"{place}[{i}]", f"is {found(key)}, must be a descriptor key")
