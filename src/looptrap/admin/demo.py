"""The demo for operators: a loop that is played into the dashboard, at no provider and no cost."""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import TypedDict

import msgspec

from looptrap.admin.api import ApiRequest
from looptrap.admin.audit import record_change
from looptrap.admin.operation import Api, post, struct_body
from looptrap.dialect.model import Outcome, Request, Usage
from looptrap.dialect.registry import read
from looptrap.engine import Ticket
from looptrap.incident.model import DEMO_CALLER
from looptrap.money.price import nano
from looptrap.replay.judge import replay_guard
from looptrap.replay.ruleset import Ruleset
from looptrap.testing.provider import Received, render
from looptrap.testing.reply import ModelTurn
from looptrap.testing.stuck_agent import MODEL_PRICE, StuckAgent, stuck_reply

MAX_CALLS = 20
MAX_REFUSALS = 6
"""Refusals after which the agent gives up."""

CALL_INTERVAL_S = 4.0
"""Seconds between two calls: they are dated back, so that the last one is made now."""

PATH = "/v1/chat/completions"


class PlayRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Play the demo."""


class PlayedDemo(TypedDict):
    """The loop that was played: its calls, those on which a rule acted, and the refused ones."""

    session: str
    calls: int
    acted: int
    refused: int


class DemoApi(Api):
    """Answers at `/api/v1/demo`."""

    @post("/api/v1/demo", "play a loop into the dashboard", body=struct_body(PlayRequest, "{}"))
    async def _play(self, request: ApiRequest) -> PlayedDemo:
        session = f"demo-{token_hex(3)}"
        # In a thread: to judge so many calls at once would hold up others.
        judged = await asyncio.to_thread(judge_loop, Ruleset.of(self._config), session)
        began = self._now() - (len(judged) - 1) * CALL_INTERVAL_S
        for number, (ticket, outcome) in enumerate(judged):
            time = began + number * CALL_INTERVAL_S
            self._app.recorder.record_demo(ticket, outcome, time)
        acted = sum(any(ticket.verdicts()) for ticket, _ in judged)
        refused = sum(outcome is None for _, outcome in judged)
        played: PlayedDemo = {
            "session": session,
            "calls": len(judged),
            "acted": acted,
            "refused": refused,
        }
        await record_change(self._app, request, "demo.play", session, after=played)
        return played


def judge_loop(rules: Ruleset, session: str) -> list[tuple[Ticket, Outcome | None]]:
    """Judge a stuck agent, with counts of its own; a refused call has no outcome."""
    guard, agent = replay_guard(rules), StuckAgent()
    judged: list[tuple[Ticket, Outcome | None]] = []
    refused = 0
    while len(judged) < MAX_CALLS and refused < MAX_REFUSALS:
        body = msgspec.json.encode(agent.request())
        request = Request(method="POST", path=PATH, body=body, caller=DEMO_CALLER, session=session)
        ticket = guard.admit(read(request), len(judged) * CALL_INTERVAL_S)
        is_refused = ticket.verdict.action.refuses
        refused += is_refused
        judged.append((ticket, None if is_refused else _answer(agent, body, len(judged))))
    return judged


def _answer(agent: StuckAgent, body: bytes, number: int) -> Outcome:
    """Have the agent take the answer of a fake provider; return the outcome with its list price."""
    received = Received.of(b"POST", PATH.encode(), [], body)
    turn = stuck_reply().content
    assert isinstance(turn, ModelTurn)
    answer = msgspec.json.decode(b"".join(render(received, turn, number).chunks))
    agent.take(answer)
    usage = Usage(answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
    cost = nano(MODEL_PRICE.of(usage.input_tokens, usage.output_tokens))
    return Outcome(200, usage, cost=cost)
