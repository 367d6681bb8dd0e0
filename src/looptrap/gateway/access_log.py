"""The access log: one line a request, never with prompt text, keys or query values."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from looptrap.call.model import Outcome
from looptrap.gateway.relay import Relay
from looptrap.incident.saving import usd

Write = Callable[[str], object]


class AccessLog:
    """Writes what became of every request."""

    def __init__(
        self, form: Literal["text", "json"], write: Write, clock: Callable[[], float]
    ) -> None:
        self._form = form
        self._write = write
        self._clock = clock

    def __call__(self, relay: Relay, outcome: Outcome) -> None:
        """Write one line about a settled request."""
        line = self._fields(relay, outcome)
        if self._form == "json":
            self._write(json.dumps(line, separators=(",", ":")) + "\n")
        else:
            self._write(" ".join(f"{name}={word(value)}" for name, value in line.items()) + "\n")

    def _fields(self, relay: Relay, outcome: Outcome) -> dict[str, str | int | float]:
        request, verdict = relay.call.request, relay.ticket.verdict
        line: dict[str, str | int | float] = {
            "time": datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds"),
            "method": request.method,
            "path": request.path,
            "status": outcome.status,
            "verdict": verdict.action.value,
            "caller": request.caller,
            "model": relay.call.model,
            "provider": relay.provider,
            "input_tokens": outcome.usage.input_tokens,
            "output_tokens": outcome.usage.output_tokens,
            "request_id": relay.request_id.decode("latin-1"),
        }
        if verdict.rule:
            line |= {"rule": verdict.rule, "count": verdict.count}
        if outcome.cost is not None:
            line["cost_usd"] = usd(outcome.cost)
        if outcome.usage.is_estimated:
            line["estimated"] = 1
        if outcome.cut_off:
            line["cut_off"] = 1
        return {name: value for name, value in line.items() if value != ""}


def word(value: str | float) -> str:
    """Return the value so that it stays one word on one line."""
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)
