"""The agent of the demo: stuck at a tool that always fails. It does no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from looptrap.testing.reply import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPrice:
    """A model's list price at a date: dollars a million tokens, without any discount."""

    model: str
    input: float
    output: float
    listed: str

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return dollars."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000

    def __str__(self) -> str:
        return (
            f"List price of {self.model}, {self.listed}: ${self.input:.2f} a million input tokens,"
            f" ${self.output:.2f} output"
        )


MODEL_PRICE = ListPrice(model="gpt-5.4", input=2.50, output=15.00, listed="October 2026")
"""The model that the demo's agent calls."""

TOOL = "read_log"
ARGUMENTS = {"pump": 5}
FAILURE = "the log server timed out"

CONTEXT_MESSAGES = 4
"""Messages in its context window after the task: two rounds, so it never sees a third."""

# About as long as a real agent's prompt: every call of a loop pays for it again.
_HANDBOOK = "\n".join(
    f"Pump {number}: check bearing, seal and coupling in this order; above 7.1 mm/s vibration shut"
    " it down, note the hour, read its log and report to the shift engineer."
    for number in range(1, 241)
)
_OPENING = [
    {"role": "system", "content": f"You keep a waterworks running.\n{_HANDBOOK}"},
    {"role": "user", "content": "Pump 5 vibrates. Find out why."},
]
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": TOOL,
            "description": "Read the latest lines of a pump's log.",
            "parameters": {"type": "object", "properties": {"pump": {"type": "integer"}}},
        },
    }
]


class StuckAgent:
    """Makes requests in the Chat Completions API, runs the tool that is called, trims its context.

    A refused agent sends the same request again.
    """

    def __init__(self) -> None:
        self._recent: list[dict[str, Any]] = []

    def request(self) -> dict[str, Any]:
        """Return the body of its next request."""
        return {"model": MODEL_PRICE.model, "messages": [*_OPENING, *self._recent], "tools": _TOOLS}

    def take(self, answer: dict[str, Any]) -> None:
        """Run the tools that the model calls: each fails."""
        message = answer["choices"][0]["message"]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"error: {FAILURE}"}
            for call in message["tool_calls"]
        ]
        self._recent = [*self._recent, message, *results][-CONTEXT_MESSAGES:]


def stuck_reply() -> Reply:
    """Return the answer of a model that sees a failed tool and calls it again."""
    return Reply.tool_call(TOOL, ARGUMENTS)
