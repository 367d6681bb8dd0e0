"""An agent that is stuck: its tool fails, and it forgets that it has tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from aiohttp import ClientSession

from looptrap.cli.demo.price import PRICE
from looptrap.testing import Received, Reply

TOOL = "read_log"
ARGUMENTS = {"pump": 5}
FAILURE = "the log server timed out"

KEPT = 4
"""Messages after the task that its context window keeps: two rounds, so it never sees a third."""

# About as much as a real agent carries along: every call of a loop pays for it anew.
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


def answer(_received: Received) -> Reply:
    """Answer as a model does that sees a failed tool and no reason not to try it again."""
    return Reply.tool_call(TOOL, ARGUMENTS)


@dataclass(frozen=True, slots=True)
class Step:
    """One call to the model and what came back."""

    number: int
    status: int
    verdict: str = ""
    """What the gateway decided; empty where there is none."""
    input_tokens: int = 0
    output_tokens: int = 0
    code: str = ""
    message: str = ""
    """Why the call was refused, and in which words."""

    @property
    def is_refused(self) -> bool:
        """Was the agent told to stop?"""
        return self.verdict == "block"


class StuckAgent:
    """Asks the model, uses the tool it names, and trims what it remembers."""

    def __init__(self, http: ClientSession, base_url: str) -> None:
        self._http = http
        self._url = f"{base_url}/v1/chat/completions"
        self._recent: list[dict[str, Any]] = []
        self._number = 0

    async def step(self) -> Step:
        """Make one call, and act on its answer."""
        self._number += 1
        body = {"model": PRICE.model, "messages": [*_OPENING, *self._recent], "tools": _TOOLS}
        async with self._http.post(self._url, json=body) as response:
            said = await response.json()
            verdict = response.headers.get("X-Looptrap-Verdict", "")
            step = Step(self._number, response.status, verdict)
            if step.is_refused:
                error = said["error"]
                return replace(step, code=error["code"], message=error["message"])
            response.raise_for_status()
        self._use_tools(said["choices"][0]["message"])
        used = said["usage"]
        return replace(
            step, input_tokens=used["prompt_tokens"], output_tokens=used["completion_tokens"]
        )

    def _use_tools(self, message: dict[str, Any]) -> None:
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"error: {FAILURE}"}
            for call in message["tool_calls"]
        ]
        self._recent = [*self._recent, message, *results][-KEPT:]
