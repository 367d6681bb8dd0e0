"""Agents whose requests show less than they did: their histories are trimmed or compacted."""

import json
from itertools import count

from tests.detect.runs import Use

from looptrap.dialect.body import read_body
from looptrap.engine import Guard

PATH = "/v1/chat/completions"
SUMMARY = "This session is continued from an earlier one. Summary: the tests are to pass."

_numbers = count(1)


class ForgetfulAgent:
    """One run, judged call by call.

    A request shows the latest `keeps` rounds, or all; and of these the latest `results`, or all.
    """

    def __init__(
        self,
        guard=None,
        *,
        keeps=0,
        results=0,
        tools=(),
        session="",
        task="Make the tests pass.",
        start=1_000_000.0,
    ):
        self._results = results
        self.guard = guard or Guard.from_preset(secret=b"secret")
        self._keeps = keeps
        self._tools = [{"type": "function", "function": {"name": name}} for name in tools]
        self._session = session
        self._opening = [
            {"role": "system", "content": "You fix code."},
            {"role": "user", "content": task},
        ]
        self._rounds = []
        self.now = start

    def compact(self):
        """Leave a summary in place of all rounds."""
        self._opening = [*self._opening[:2], {"role": "user", "content": SUMMARY}]
        self._rounds = []

    def use(self, use):
        """Have called a tool, and got its result."""
        self._rounds.append(_round(use))

    def does(self, *uses):
        """Call tools, ask what to do next after each, and return the last ticket."""
        for use in uses:
            self.use(use)
            self.now += 3
            ticket = self.guard.admit(self.call(), self.now)
        return ticket

    def body(self):
        """Return the next request."""
        shown = self._rounds[-self._keeps :] if self._keeps else self._rounds
        if self._results:
            shown = [*map(_elided, shown[: -self._results]), *shown[-self._results :]]
        messages = [*self._opening, *(message for round_ in shown for message in round_)]
        offered = {"tools": self._tools} if self._tools else {}
        return {"model": "m", "messages": messages} | offered

    def call(self):
        """Return the next request, read."""
        call = read_body(json.dumps(self.body()).encode(), PATH)
        call.request.session = self._session
        return call


def _round(use: Use):
    id = f"call_a{next(_numbers):015}"
    function = {"name": use.tool, "arguments": json.dumps(use.arguments)}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": id, "content": use.result},
    ]


def _elided(round_):
    called, result = round_
    return [called, {**result, "content": "[Old tool result content cleared]"}]
