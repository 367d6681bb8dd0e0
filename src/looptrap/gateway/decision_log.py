"""The decision log: one line a decision that is not `allow`, never with prompt text or keys."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Literal

from looptrap.gateway.access_log import LogWriter, WriteText, format_line, stream_writer
from looptrap.incident.model import Sighting
from looptrap.usage.savings import usd


def decision_log(
    form: Literal["text", "json"], write: WriteText | None = None
) -> LogWriter[Sighting]:
    """Return what writes sightings in one of the two forms, to stderr unless told otherwise."""
    return LogWriter(
        "decision-log",
        lambda seen: format_line(form, _fields(seen)),
        write or stream_writer(sys.stderr),
    )


def _fields(seen: Sighting) -> dict[str, str | int | float]:
    fields: dict[str, str | int | float] = {
        "time": datetime.fromtimestamp(seen.time, UTC).isoformat(timespec="milliseconds"),
        "decision": seen.action,
        "mode": "shadow" if seen.mode == "shadow" else "",
        "reason": seen.reason,
        "rule": seen.rule,
        "signal": seen.signal,
        "count": seen.count,
        "caller": seen.caller,
        "project": seen.project,
        "session": seen.session,
        "model": seen.model,
        "fingerprint": seen.fingerprint,
        "request_id": seen.request_id,
        "message": seen.message,
    }
    if seen.cost is not None:
        fields["cost_usd"] = usd(seen.cost)
    return {name: value for name, value in fields.items() if value != ""}
