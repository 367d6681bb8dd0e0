"""What several workers answer, as one: each knows only the calls that came to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from looptrap.admin import budget, provider, status
from looptrap.admin.budget import AccountShown, Budgets
from looptrap.admin.notice import Notice
from looptrap.admin.provider import BreakerShown, Providers, ProviderShown, quantile
from looptrap.admin.status import Status
from looptrap.money.standing import Unit

COMMON = ("no_calls",)
"""Notices that hold only if all workers have them."""

SEVERITY = {"closed": 0, "half_open": 1, "open": 2}


def one_status(answers: Sequence[Status]) -> Status:
    """Return the status of all; what one of them lacks, all lack."""
    first = answers[0]
    histories = [one["history"] for one in answers]
    return {
        **first,
        "started": min(one["started"] for one in answers),
        "store": {
            **first["store"],
            "is_degraded": any(one["store"]["is_degraded"] for one in answers),
        },
        "history": {
            "path": first["history"]["path"],
            "is_writing": all(one["is_writing"] for one in histories),
            "failed": sum(one["failed"] for one in histories),
            "lost": sum(one["lost"] for one in histories),
        },
        "draining": any(one["draining"] for one in answers),
        "notices": _notices([one["notices"] for one in answers]),
        "indicators": [
            max(same, key=lambda one: one["value"])
            for same in zip(*(one["indicators"] for one in answers), strict=False)
        ],
        # Each tells all that it knows, and some hear of it a moment later.
        "open_incidents": max(one["open_incidents"] for one in answers),
    }


def one_list_of_providers(answers: Sequence[Providers]) -> Providers:
    """Return how providers fared with all workers."""
    by_name: dict[str, list[ProviderShown]] = {}
    for told in answers:
        for one in told["providers"]:
            by_name.setdefault(one["name"], []).append(one)
    return {**answers[0], "providers": [_provider(same) for same in by_name.values()]}


def one_list_of_budgets(answers: Sequence[Budgets]) -> Budgets:
    """Return budgets with the accounts that any of the workers has charged lately."""
    every = [one for told in answers for one in told["budgets"]]
    accounts: dict[tuple[str, Unit], dict[str, AccountShown]] = {}
    for one in every:
        known = accounts.setdefault((one["name"], one["unit"]), {})
        known |= {account["fingerprint"]: account for account in one["accounts"]}
    first = {(one["name"], one["unit"]): one for one in reversed(every)}
    return {
        "budgets": [
            {**first[key], "accounts": budget.most_used(known.values())}
            for key, known in accounts.items()
        ],
        "rates": answers[0]["rates"],
    }


MERGED: dict[str, Callable[[Sequence[Any]], Any]] = {
    status.PATH: one_status,
    provider.PATH: one_list_of_providers,
    budget.PATH: one_list_of_budgets,
}
"""How answers become one, by path; all else is in what workers share."""


def _notices(told: Sequence[Sequence[Notice]]) -> list[Notice]:
    """Return every notice once; of those with one code, the longest is the one that tells most."""
    found: dict[str, Notice] = {}
    for notices in told:
        for one in notices:
            known = found.setdefault(one["code"], one)
            if len(one["message"]) > len(known["message"]):
                found[one["code"]] = one
    codes = [{one["code"] for one in notices} for notices in told]
    for code in COMMON:
        if not all(code in some for some in codes):
            found.pop(code, None)
    return sorted(found.values(), key=lambda one: one["level"] != "bad")


def _provider(same: Sequence[ProviderShown]) -> ProviderShown:
    longest = max(len(one["first_bytes"]) for one in same)
    padded = [one["first_bytes"] or [0] * longest for one in same]
    counts = [sum(numbers) for numbers in zip(*padded, strict=True)]
    breakers: dict[tuple[str, str | None], BreakerShown] = {}
    for told in same:
        for one in told["breakers"]:
            key = one["circuit"], one["credential"]
            known = breakers.setdefault(key, one)
            if SEVERITY[one["state"]] > SEVERITY[known["state"]]:
                breakers[key] = one
    merged = {
        **same[0],
        "calls": sum(one["calls"] for one in same),
        "failures": sum(one["failures"] for one in same),
        "p95_first_byte_seconds": quantile(counts),
        "first_bytes": counts,
        "breakers": list(breakers.values()),
    }
    return cast(ProviderShown, merged)
