"""Passages: one call that a client made, from its verdict to what became of it. No I/O."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from looptrap.admission import Ticket
from looptrap.answer.answer import Answer
from looptrap.answer.bill import Bill, unanswered
from looptrap.answer.hearing import hearing_of
from looptrap.answer.listener import Listener
from looptrap.call.model import Outcome
from looptrap.call.usage import NO_USAGE, Usage
from looptrap.detect.signals.chant import REPEATED
from looptrap.money.dollar import in_header
from looptrap.money.forecast import is_charged
from looptrap.policy.header import COST, UNPRICED, Headers, headers_of

if TYPE_CHECKING:
    from looptrap.client.keeper import Keeper

log = logging.getLogger("looptrap")


class Passage:
    """What is to be done with a call, and what its answer says while it passes."""

    def __init__(self, keeper: Keeper, ticket: Ticket, provider: str) -> None:
        self._keeper = keeper
        self._bill: Bill | None = None
        self._listener: Listener | None = None
        self._is_settled = False
        self._status = 0
        self._used: tuple[Usage, int | None] = (NO_USAGE, 0)
        self.ticket = ticket
        self.provider = provider
        """Whom the client asks."""
        self.request_id = ""
        """Made when it is first needed."""
        self.answer: Answer | None = None
        """What the client gets in place of the provider's answer."""
        self.delay = 0.0
        """Seconds to wait before it is sent."""
        self.body: bytes | None = None
        """What to send in place of the body, where that is another."""

    @property
    def is_charged(self) -> bool:
        """Whether its answer is worth reading: it uses tokens."""
        return is_charged(self.ticket.call)

    @property
    def is_over(self) -> bool:
        """Whether the answer was cut: the provider need not say more."""
        return self._listener is not None and self._listener.is_over

    def begin(self, status: int, length: int | None, is_encoded: bool) -> Headers:
        """Take the head of the answer; return what to say in it of the verdict."""
        self._status = status
        ticket = self.ticket
        if status < 400 and self.is_charged:
            self._bill = Bill(ticket.call, length)
            is_short = length is not None and length < REPEATED
            if ticket.listening and not is_short and not is_encoded:
                self._listener = self._listen(can_cut=length is None)
        return headers_of(ticket.verdict, ticket.shadow, ticket.pace)

    def take(self, chunk: bytes) -> bytes:
        """Take the next piece of the answer; return what the client gets of it."""
        try:
            if self._bill is not None:
                self._bill.take(chunk)
            return chunk if self._listener is None else self._listener.take(chunk)
        except Exception:
            # What is not understood passes: better an answer unread than none.
            log.exception("an answer passes unread")
            self._bill = self._listener = None
            return chunk

    def end(self) -> None:
        """Settle a call whose answer is complete, or was cut here."""
        self._settle(cut_off=self.is_over)

    def give_up(self, *, is_awaited: bool = True) -> None:
        """Settle a call that brought no answer, or only part of one that nobody wants any more.

        What is no longer awaited, and had not begun to answer, is paid for: the provider works on.
        """
        self._settle(cut_off=True, is_lost=not is_awaited and not self._status)

    def refused(self) -> None:
        """Settle a call that never left."""
        self._is_settled = True
        self._keeper.settle(self, None)

    def cost_header(self) -> tuple[bytes, bytes] | None:
        """Return what an answer that is complete cost; None where it does not say."""
        usage, cost = self._used
        if usage is NO_USAGE or usage.is_estimated:
            return None
        return COST, UNPRICED if cost is None else in_header(cost)

    def _listen(self, *, can_cut: bool) -> Listener | None:
        call, keeper = self.ticket.call, self._keeper
        hearing = hearing_of(call.dialect, call.stream)
        if hearing is None:
            return None
        return Listener(
            call,
            hearing,
            lambda text: keeper.guard.hear(self.ticket, text),
            can_cut=can_cut,
            request_id=lambda: keeper.id_of(self),
            block_status=keeper.block_status,
        )

    def _settle(self, *, cut_off: bool, is_lost: bool = False) -> None:
        if self._is_settled:
            return
        self._is_settled = True
        listener, heard = self._listener, 0
        try:
            if listener is not None and cut_off:
                heard = listener.tokens
            elif listener is not None:
                listener.finish()
            if self._bill is not None:
                usage = self._bill.usage(heard, is_cut=cut_off)
                self._used = usage, self._keeper.cost(self, usage)
            elif is_lost and self.is_charged:
                usage = unanswered(self.ticket.call)
                self._used = usage, self._keeper.cost(self, usage)
            usage, cost = self._used
            outcome = Outcome(self._status, usage, cut_off, cost)
            self._keeper.settle(self, outcome)
        except Exception:
            log.exception("a call is not settled")
