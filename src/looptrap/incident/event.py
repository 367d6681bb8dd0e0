"""Alert events about loops, budgets and the store. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from math import ceil
from typing import Any
from urllib.parse import quote

import msgspec

from looptrap.bounded import LruMap
from looptrap.incident.model import AlertEvent, Annotation, EventName, Incident, merge_parts
from looptrap.money.meter import BudgetStatus
from looptrap.money.price import format_usd, usd
from looptrap.schema.wording import listed
from looptrap.usage.breach import breach_id

OUTAGE_BUCKET_S = 300.0
"""Outages that instances notice within the same bucket of seconds are one event."""

_DONE = {
    "warn": "warned about",
    "throttle": "slowed down",
    "nudge": "nudged",
    "stop": "stopped",
    "block": "blocked",
}


def event_id(name: EventName, *about: str) -> str:
    """Return an event id: the same on all instances and at every attempt."""
    text = "\0".join((name, *about))
    return f"evt_{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def detected_event(incident: Incident, hits: int) -> AlertEvent:
    """Return the event of a new loop."""
    return _loop_event("loop.detected", incident, hits, "detected", "Loop detected")


def escalated_event(incident: Incident, hits: int) -> AlertEvent:
    """Return the event of a loop that reached its next escalation stage."""
    title = f"Loop goes on, at {incident.stage} times its threshold"
    return _loop_event("loop.escalated", incident, hits, f"{incident.stage}x", title)


def resolved_event(parts: Sequence[Incident], now: float, hits: int) -> AlertEvent:
    """Return the event of a loop that is over; `parts` are the parts of all instances."""
    whole = msgspec.structs.replace(merge_parts(parts), closed=now)
    return _loop_event("loop.resolved", whole, hits, "resolved", "Loop is over")


def with_incident_id(event: AlertEvent, incident_id: str) -> AlertEvent:
    """Return the same event under another incident id."""
    return msgspec.structs.replace(
        event,
        id=event_id(event.name, incident_id, event.stage),
        incident=incident_id,
        data={**event.data, "incident_id": incident_id},
    )


def with_acknowledgement(event: AlertEvent, found: Annotation | None) -> AlertEvent:
    """Return the event of a loop that is over with who acknowledged it, and when, if anyone did."""
    by, at = (found.by, found.time) if found is not None else (None, None)
    data = {**event.data, "acknowledged_by": by, "acknowledged_at": at}
    return msgspec.structs.replace(event, data=data)


def with_link(event: AlertEvent, public_url: str | None) -> AlertEvent:
    """Return the event with the page of the dashboard that shows it; as it is, without an URL."""
    if public_url is None:
        return event
    if event.incident:
        page = f"incidents/{quote(event.incident, safe='')}"
    elif event.name.startswith("budget."):
        breach = event.data.get("breach_id")
        page = f"breaches/{quote(breach, safe='')}" if breach else "callers?by=budgets"
    else:
        page = "status"
    data = {**event.data, "url": f"{public_url.rstrip('/')}/#/{page}"}
    return msgspec.structs.replace(event, data=data)


def store_degraded_event(since: float) -> AlertEvent:
    """Return the event of an unreachable store; instances that notice it together share the id."""
    return AlertEvent(
        id=event_id("store.degraded", str(int(since // OUTAGE_BUCKET_S))),
        name="store.degraded",
        time=since,
        stage="degraded",
        title="The shared store cannot be reached: every instance counts alone",
        data={"since": since},
    )


def _loop_event(
    name: EventName, incident: Incident, hits: int, stage: str, title: str
) -> AlertEvent:
    would = "would have been " if incident.mode == "shadow" else ""
    caller = f" of {incident.caller}" if incident.caller else ""
    done = f"{would}{_DONE[incident.action]}"
    return AlertEvent(
        id=event_id(name, incident.id, stage),
        name=name,
        time=incident.last if incident.closed is None else incident.closed,
        project=incident.project,
        request_id=incident.request_id,
        incident=incident.id,
        stage=stage,
        title=f"{title}: {hits} calls{caller}, {done} by {incident.rule}",
        data=_loop_data(incident, hits, stage),
    )


def _loop_data(incident: Incident, hits: int, stage: str) -> dict[str, Any]:
    data: dict[str, Any] = {
        "incident_id": incident.id,
        "stage": stage,
        "fingerprint": incident.fingerprint,
        "hit_count": hits,
        "threshold": incident.threshold,
        "model": incident.model,
        "cooldown_seconds": ceil(incident.cooldown),
        "action": incident.action,
        "mode": incident.mode,
        "policy": incident.policy,
        "rule": incident.rule,
        "signal": incident.signal,
        "caller": incident.caller,
        "session": incident.session,
        "agent": incident.agent,
        "provider": incident.provider,
        "message": incident.message,
        "evidence": [msgspec.to_builtins(one) for one in incident.evidence],
        "first_seen": incident.opened,
        "last_seen": incident.last,
        "calls": incident.calls,
        "refused": incident.refused,
        "input_tokens": incident.input_tokens,
        "output_tokens": incident.output_tokens,
        "saved_tokens": incident.saved_tokens,
        "spent_usd": incident.spent_usd,
        "saved_usd": incident.saved_usd,
        "projected_usd_an_hour": incident.projected_usd_an_hour,
    }
    if incident.closed is not None:
        data["closed"] = incident.closed
        data["duration_seconds"] = round(incident.last - incident.opened, 3)
    return data


def budget_event(status: BudgetStatus, *, time: float, project: str, request_id: str) -> AlertEvent:
    """Return the event of a budget stage; its id is the same on all instances."""
    return AlertEvent(
        id=f"bud_{status.fingerprint}_{status.ends}_{status.stage}_{status.limit}",
        name="budget.exceeded" if status.action.refuses else "budget.threshold",
        time=time,
        project=project,
        request_id=request_id,
        stage=f"{status.stage}%",
        title=_budget_title(status, time),
        data=_budget_data(status),
    )


def _percent(status: BudgetStatus) -> int:
    return status.used * 100 // status.limit if status.limit else 100


def _budget_title(status: BudgetStatus, now: float) -> str:
    if status.unit == "usd":
        share = f"{format_usd(usd(status.used))} of {format_usd(usd(status.limit))}"
    else:
        share = f"{status.used:,} of {status.limit:,} {status.unit}"
    effect = " refuses calls" if status.action.refuses and status.mode == "enforce" else ""
    title = f"Budget {status.budget}{effect}: {share} used ({_percent(status)} %)"
    if status.by:
        title += f" by {listed([f'{name} {value}' for name, value in status.by], 'and')}"
    if status.ends:
        form = "%H:%M UTC" if status.ends - now <= 86_400 else "%Y-%m-%d %H:%M UTC"
        title += f", until {datetime.fromtimestamp(status.ends, UTC).strftime(form)}"
    return f"{title}, in shadow mode" if status.mode == "shadow" else title


def _budget_data(status: BudgetStatus) -> dict[str, Any]:
    is_usd = status.unit == "usd"
    return {
        "budget": status.budget,
        "by": dict(status.by),
        "unit": status.unit,
        f"used_{status.unit}": usd(status.used) if is_usd else status.used,
        f"limit_{status.unit}": usd(status.limit) if is_usd else status.limit,
        "percent": _percent(status),
        "stage": status.stage,
        "action": status.action.value,
        "mode": status.mode,
        "resets_at": status.ends or None,
        "fingerprint": status.fingerprint,
        **({"breach_id": breach_id(status)} if status.action.refuses else {}),
    }


MAX_REMEMBERED_STAGES = 10_000
"""Stages remembered as alerted; beyond it a stage may be sent twice, under one id."""


class BudgetAlerter:
    """Sends one alert for each stage and limit of each account in each period."""

    def __init__(self, send: Callable[[AlertEvent], None]) -> None:
        self._send = send
        self._alerted: LruMap[tuple[str, int, int, int], None] = LruMap(MAX_REMEMBERED_STAGES)

    def observe(
        self, statuses: Sequence[BudgetStatus], now: float, project: str, request_id: bytes
    ) -> None:
        """Check the budget statuses of a judged call."""
        for one in statuses:
            key = one.fingerprint, one.ends, one.stage, one.limit
            if key not in self._alerted:
                self._alerted[key] = None
                text = request_id.decode("latin-1")
                self._send(budget_event(one, time=now, project=project, request_id=text))
