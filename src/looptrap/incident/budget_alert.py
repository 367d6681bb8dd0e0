"""Budget alerts: one for each stage of an account in each period. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from looptrap.bounded import LruMap
from looptrap.incident.model import AlertEvent
from looptrap.money.meter import BudgetStatus
from looptrap.schema.wording import listed
from looptrap.usage.savings import format_usd, usd

DAY_S = 86_400


def budget_event(status: BudgetStatus, *, time: float, project: str, request_id: str) -> AlertEvent:
    """Return the event of a budget stage; its id is the same on all instances."""
    return AlertEvent(
        id=f"bud_{status.fingerprint}_{status.ends}_{status.stage}",
        name="budget.exceeded" if status.action.refuses else "budget.threshold",
        time=time,
        project=project,
        request_id=request_id,
        stage=f"{status.stage}%",
        title=_title(status, time),
        data=_data(status),
    )


def percent_used(status: BudgetStatus) -> int:
    """Return the used share of the limit, in per cent."""
    return status.used * 100 // status.limit if status.limit else 100


def _title(status: BudgetStatus, now: float) -> str:
    used, limit = _amount(status, status.used), _amount(status, status.limit)
    tokens = " tokens" if status.unit == "tokens" else ""
    share = f"{used} of {limit}{tokens} used ({percent_used(status)} %)"
    callers = listed([f"{name} {value}" for name, value in status.by], "and")
    shadow = ", in shadow mode" if status.mode == "shadow" else ""
    by = f" by {callers}" if callers else ""
    return f"Budget {status.budget}: {share}{by}{_until(status.ends, now)}{shadow}"


def _amount(status: BudgetStatus, amount: int) -> str:
    return format_usd(usd(amount)) if status.unit == "usd" else f"{amount:,}"


def _until(ends: int, now: float) -> str:
    if not ends:
        return ""
    form = "%H:%M UTC" if ends - now <= DAY_S else "%Y-%m-%d %H:%M UTC"
    return f", until {datetime.fromtimestamp(ends, UTC).strftime(form)}"


def _data(status: BudgetStatus) -> dict[str, Any]:
    is_usd = status.unit == "usd"
    return {
        "budget": status.budget,
        "by": dict(status.by),
        "unit": status.unit,
        f"used_{status.unit}": usd(status.used) if is_usd else status.used,
        f"limit_{status.unit}": usd(status.limit) if is_usd else status.limit,
        "percent": percent_used(status),
        "stage": status.stage,
        "action": status.action.value,
        "mode": status.mode,
        "resets_at": status.ends or None,
        "fingerprint": status.fingerprint,
    }


MAX_REMEMBERED_STAGES = 10_000
"""Stages remembered as alerted; beyond it a stage may be sent twice, under one id."""


class BudgetAlerter:
    """Sends one alert for each stage of each account in each period."""

    def __init__(self, send: Callable[[AlertEvent], None]) -> None:
        self._send = send
        self._alerted: LruMap[tuple[str, int, int], None] = LruMap(MAX_REMEMBERED_STAGES)

    def observe(
        self, statuses: Sequence[BudgetStatus], now: float, project: str, request_id: bytes
    ) -> None:
        """Check the budget statuses of a judged call."""
        for one in statuses:
            key = one.fingerprint, one.ends, one.stage
            if key in self._alerted:
                continue
            self._alerted[key] = None
            text = request_id.decode("latin-1")
            self._send(budget_event(one, time=now, project=project, request_id=text))
