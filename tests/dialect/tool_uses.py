"""Tool calls of a history with their results, as tests compare them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from looptrap.dialect.model import Call, ToolCall, ToolResult


@dataclass(frozen=True)
class ToolUse:
    """A tool call with its result, if one has come back."""

    call: ToolCall
    result: ToolResult | None


def tool_uses(call: Call) -> list[ToolUse]:
    """Return every tool call of the history with the result that followed it.

    Results are matched by id; where either side has none (Gemini), by name, in order.
    """
    calls: list[ToolCall] = []
    found: list[ToolResult | None] = []
    by_id: defaultdict[str, deque[int]] = defaultdict(deque)
    by_name: defaultdict[str, deque[int]] = defaultdict(deque)
    for message in call.messages:
        for made in message.calls:
            by_id[made.id].append(len(calls))
            by_name[made.name].append(len(calls))
            calls.append(made)
            found.append(None)
        for result in message.results:
            place = _first_open(by_id[result.call_id], found) if result.call_id else None
            if place is None and result.name:
                place = _first_open(by_name[result.name], found)
            if place is not None:
                found[place] = result
    return list(map(ToolUse, calls, found))


def _first_open(places: deque[int], found: Sequence[ToolResult | None]) -> int | None:
    """Return the first place without a result, dropping those that have one."""
    while places:
        if found[places[0]] is None:
            return places[0]
        places.popleft()
    return None
