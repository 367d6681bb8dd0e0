"""The keeper: judges what a client is about to send, as the gateway would."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from itertools import count
from secrets import token_hex
from typing import assert_never

from msgspec.structs import replace

from looptrap.admission import Guard
from looptrap.answer.bill import BYTES_A_TOKEN
from looptrap.answer.nudge import nudged
from looptrap.answer.refuse import refusal
from looptrap.answer.stop import final_message
from looptrap.call.header import PROGRESS, TURN, is_retry, session_of
from looptrap.call.model import Call, Outcome, Request
from looptrap.call.read import read
from looptrap.call.usage import Usage
from looptrap.client.journal import Journal
from looptrap.client.passage import Passage
from looptrap.policy.action import Action
from looptrap.policy.decide import is_nudge_due

Field = tuple[bytes, bytes]

OUR_PREFIX = b"x-looptrap-"

log = logging.getLogger("looptrap")


class Keeper:
    """Judges calls for every copy of a client, on any thread."""

    def __init__(
        self,
        guard: Guard,
        *,
        caller: str = "",
        block_status: int = 429,
        journal: Journal | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.guard = guard
        self.block_status = block_status
        self.journal = journal
        self.clock = clock
        self._caller = caller
        self._prefix = token_hex(6)
        self._numbers = count(1)

    def judge(
        self,
        method: str,
        target: bytes,
        headers: Sequence[Field],
        body: bytes | None,
        provider: str,
    ) -> Passage | None:
        """Judge a request, with lower-case names of headers; None where that failed.

        Then it passes: protection must not become the outage. Without a `body`, rules that need
        one abstain.
        """
        try:
            return self._judge(method, target, headers, body, provider)
        except Exception:
            log.exception("a call passes unjudged")
            return None

    def _judge(
        self,
        method: str,
        target: bytes,
        headers: Sequence[Field],
        body: bytes | None,
        provider: str,
    ) -> Passage:
        sent = dict(headers)
        path, _, query = target.decode("latin-1").partition("?")
        call = read(
            Request(
                method,
                path,
                query,
                headers,
                body or b"",
                caller=self._caller,
                session=session_of(sent, self.guard.session_headers),
                is_retry=is_retry(sent),
                progress=sent.get(PROGRESS, b"").decode("latin-1"),
                lacks_body=body is None,
            )
        )
        passage = Passage(self, self.guard.admit(call, self.clock()), provider)
        passage.request_id = sent.get(b"x-request-id", b"").decode("latin-1")
        self._act(passage)
        return passage

    def _act(self, passage: Passage) -> None:
        verdict = passage.ticket.verdict
        action = verdict.action
        match action:
            case Action.ALLOW | Action.WARN:
                pass
            case Action.THROTTLE:
                passage.delay = verdict.delay
            case Action.NUDGE:
                if is_nudge_due(verdict):
                    passage.body = nudged(passage.ticket.call, verdict)
            case Action.STOP | Action.BLOCK:
                self._refuse(passage)
            case _:
                assert_never(action)

    def _refuse(self, passage: Passage) -> None:
        """Answer here: with a final message where that is wanted and can be, else a refusal."""
        ticket, request_id = passage.ticket, self.id_of(passage)
        if ticket.verdict.action is Action.STOP:
            passage.answer = final_message(
                ticket.call,
                ticket.verdict,
                shadow=ticket.shadow,
                request_id=request_id,
                now=self.clock(),
            )
        if passage.answer is None:
            passage.answer = refusal(
                ticket.call,
                ticket.verdict,
                shadow=ticket.shadow,
                pace=ticket.pace,
                request_id=request_id,
                block_status=self.block_status,
            )
            ticket.verdict = replace(ticket.verdict, action=Action.BLOCK)
        passage.refused()

    # What passages ask for

    def id_of(self, passage: Passage) -> str:
        """Return the id of a request: the client's own, or one made when it is first needed."""
        if not passage.request_id:
            passage.request_id = f"lt-{self._prefix}-{next(self._numbers):x}"
        return passage.request_id

    def cost(self, passage: Passage, usage: Usage) -> int | None:
        """Return what that cost, in nano-dollars; None where no price is known."""
        return self.guard.cost(passage.ticket.call.model, usage, self.clock())

    def settle(self, passage: Passage, outcome: Outcome | None) -> None:
        """Record what became of a call; None when it never left."""
        ticket, now = passage.ticket, self.clock()
        self.guard.conclude(ticket, outcome, now, passage.provider)
        if self.journal is not None:
            self.journal.settled(
                ticket,
                outcome,
                now,
                request_id=passage.request_id,
                provider=passage.provider,
                estimate=self._input_cost,
            )

    def _input_cost(self, call: Call) -> int | None:
        asked = len(call.request.body) // BYTES_A_TOKEN
        return self.guard.cost(call.model, Usage(asked), self.clock())


def is_ours(name: bytes) -> bool:
    """Say whether a header is for us alone; an agent further on may be part of the same turn."""
    return name.startswith(OUR_PREFIX) and name != TURN
