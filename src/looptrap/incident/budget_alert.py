"""Alerts about budgets: one for each stage of an account, once in its period. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from looptrap.incident.model import AlertEvent
from looptrap.money.meter import BudgetStatus
from looptrap.schema.wording import listed
from looptrap.usage.savings import format_usd, usd

DAY_S = 86_400


def budget_event(
    standing: BudgetStatus, *, time: float, project: str, request_id: str
) -> AlertEvent:
    """Return that so much of a budget is used; all instances tell it under one id."""
    return AlertEvent(
        id=f"bud_{standing.fingerprint}_{standing.ends}_{standing.stage}",
        name="budget.exceeded" if standing.action.refuses else "budget.threshold",
        time=time,
        project=project,
        request_id=request_id,
        stage=f"{standing.stage}%",
        title=_title(standing, time),
        data=_data(standing),
    )


def percent_used(standing: BudgetStatus) -> int:
    """Return how much of its limit is used, in per cent."""
    return standing.used * 100 // standing.limit if standing.limit else 100


def _title(standing: BudgetStatus, now: float) -> str:
    used, limit = _amount(standing, standing.used), _amount(standing, standing.limit)
    tokens = " tokens" if standing.unit == "tokens" else ""
    share = f"{used} of {limit}{tokens} used ({percent_used(standing)} %)"
    whose = listed([f"{name} {value}" for name, value in standing.by], "and")
    shadow = ", in shadow mode" if standing.mode == "shadow" else ""
    by = f" by {whose}" if whose else ""
    return f"Budget {standing.budget}: {share}{by}{_until(standing.ends, now)}{shadow}"


def _amount(standing: BudgetStatus, amount: int) -> str:
    return format_usd(usd(amount)) if standing.unit == "usd" else f"{amount:,}"


def _until(ends: int, now: float) -> str:
    if not ends:
        return ""
    form = "%H:%M UTC" if ends - now <= DAY_S else "%Y-%m-%d %H:%M UTC"
    return f", until {datetime.fromtimestamp(ends, UTC).strftime(form)}"


def _data(standing: BudgetStatus) -> dict[str, Any]:
    is_usd = standing.unit == "usd"
    return {
        "budget": standing.budget,
        "by": dict(standing.by),
        "unit": standing.unit,
        f"used_{standing.unit}": usd(standing.used) if is_usd else standing.used,
        f"limit_{standing.unit}": usd(standing.limit) if is_usd else standing.limit,
        "percent": percent_used(standing),
        "stage": standing.stage,
        "action": standing.action.value,
        "mode": standing.mode,
        "resets_at": standing.ends or None,
        "fingerprint": standing.fingerprint,
    }


MAX_REMEMBERED_STAGES = 10_000
"""Stages that are known to be told; whoever has to be told of more is told twice, under one id."""


class BudgetAlerter:
    """Has people told of each stage of each account, once in its period."""

    def __init__(self, tell: Callable[[AlertEvent], None]) -> None:
        self._tell = tell
        self._told: dict[tuple[str, int, int], None] = {}

    def settled(
        self, standings: Sequence[BudgetStatus], now: float, project: str, request_id: bytes
    ) -> None:
        """Take how budgets stood when a call was judged."""
        for one in standings:
            key = one.fingerprint, one.ends, one.stage
            if key in self._told:
                continue
            if len(self._told) >= MAX_REMEMBERED_STAGES:
                del self._told[next(iter(self._told))]
            self._told[key] = None
            asked = request_id.decode("latin-1")
            self._tell(budget_event(one, time=now, project=project, request_id=asked))
