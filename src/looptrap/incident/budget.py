"""What people are told of budgets that come to an end. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from looptrap.incident.model import Event
from looptrap.incident.saving import shown, usd
from looptrap.money.standing import Standing
from looptrap.schema.wording import listed

DAY = 86_400


def budget_reached(standing: Standing, *, time: float, project: str, request_id: str) -> Event:
    """Return that so much of a budget is used; all instances tell it under one id."""
    return Event(
        id=f"bud_{standing.fingerprint}_{standing.ends}_{standing.stage}",
        name="budget.exceeded" if standing.action.refuses else "budget.threshold",
        time=time,
        project=project,
        request_id=request_id,
        stage=f"{standing.stage}%",
        title=_title(standing, time),
        data=_data(standing),
    )


def percent_of(standing: Standing) -> int:
    """Return how much of its limit is used, in per cent."""
    return standing.used * 100 // standing.limit if standing.limit else 100


def _title(standing: Standing, now: float) -> str:
    used, limit = _amount(standing, standing.used), _amount(standing, standing.limit)
    tokens = " tokens" if standing.unit == "tokens" else ""
    share = f"{used} of {limit}{tokens} used ({percent_of(standing)} %)"
    whose = listed([f"{name} {value}" for name, value in standing.by], "and")
    shadow = ", in shadow mode" if standing.mode == "shadow" else ""
    by = f" by {whose}" if whose else ""
    return f"Budget {standing.budget}: {share}{by}{_until(standing.ends, now)}{shadow}"


def _amount(standing: Standing, amount: int) -> str:
    return shown(usd(amount)) if standing.unit == "usd" else f"{amount:,}"


def _until(ends: int, now: float) -> str:
    if not ends:
        return ""
    form = "%H:%M UTC" if ends - now <= DAY else "%Y-%m-%d %H:%M UTC"
    return f", until {datetime.fromtimestamp(ends, UTC).strftime(form)}"


def _data(standing: Standing) -> dict[str, Any]:
    is_usd = standing.unit == "usd"
    return {
        "budget": standing.budget,
        "by": dict(standing.by),
        "unit": standing.unit,
        f"used_{standing.unit}": usd(standing.used) if is_usd else standing.used,
        f"limit_{standing.unit}": usd(standing.limit) if is_usd else standing.limit,
        "percent": percent_of(standing),
        "stage": standing.stage,
        "action": standing.action.value,
        "mode": standing.mode,
        "resets_at": standing.ends or None,
        "fingerprint": standing.fingerprint,
    }
