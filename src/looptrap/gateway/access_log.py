"""The access log: one line a request, never with prompt text, keys or query values."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from looptrap.call.model import LONGEST_NAME, Outcome
from looptrap.gateway.relay import Relay
from looptrap.gateway.scribe import Scribe, Write, onto
from looptrap.incident.saving import usd

Fields = dict[str, str | int | float]


class AccessLog(Scribe[Fields]):
    """Writes what became of every request."""

    def __init__(
        self,
        form: Literal["text", "json"],
        clock: Callable[[], float],
        write: Write | None = None,
    ) -> None:
        super().__init__("access-log", partial(line, form), write or onto(sys.stdout))
        self._clock = clock

    def __call__(self, relay: Relay, outcome: Outcome) -> None:
        """Take note of a settled request."""
        self.add(self._fields(relay, outcome))

    def _fields(self, relay: Relay, outcome: Outcome) -> Fields:
        request, verdict = relay.call.request, relay.ticket.verdict
        fields: Fields = {
            "time": datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds"),
            "method": request.method,
            "path": request.path,
            "status": relay.status,
            "verdict": verdict.action.value,
            "caller": request.caller,
            "model": relay.call.model[:LONGEST_NAME],
            "provider": relay.provider,
            "input_tokens": outcome.usage.input_tokens,
            "output_tokens": outcome.usage.output_tokens,
            "request_id": relay.request_id.decode("latin-1"),
        }
        if verdict.rule:
            fields |= {"rule": verdict.rule, "count": verdict.count}
        if outcome.cost is not None:
            fields["cost_usd"] = usd(outcome.cost)
        if outcome.usage.is_estimated:
            fields["estimated"] = 1
        if outcome.cut_off:
            fields["cut_off"] = 1
        return {name: value for name, value in fields.items() if value != ""}


def line(form: Literal["text", "json"], fields: Mapping[str, str | int | float]) -> str:
    """Return fields as one line of a log."""
    if form == "json":
        return json.dumps(fields, separators=(",", ":")) + "\n"
    return " ".join(f"{name}={_word(value)}" for name, value in fields.items()) + "\n"


def _word(value: str | float) -> str:
    """Return the value so that it stays one word on one line."""
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)
