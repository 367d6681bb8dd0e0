"""Enforcer: judges the calls that a client is about to send, as the gateway would."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from looptrap.client.history import LocalHistory
from looptrap.dialect.header import PROGRESS, TURN, is_retry, session_of
from looptrap.dialect.model import BYTES_PER_TOKEN, Call, Outcome, Request, Usage
from looptrap.dialect.registry import read
from looptrap.engine import Guard, RequestIds, Transaction

HeaderField = tuple[bytes, bytes]

HEADER_PREFIX = b"x-looptrap-"

log = logging.getLogger("looptrap")


class GuardedCall(Transaction):
    """The transaction of a call that a client sends itself; an error of ours never stops it."""

    __slots__ = ("_enforcer", "_is_settled")

    def __init__(self, enforcer: Enforcer, call: Call, provider: str, request_id: bytes) -> None:
        super().__init__(
            enforcer.guard,
            call,
            provider=provider,
            request_id=request_id,
            ids=enforcer.ids,
            block_status=enforcer.block_status,
        )
        self._enforcer = enforcer
        self._is_settled = False

    def on_chunk(self, chunk: bytes) -> bytes:
        """Read the next chunk; where that fails, the answer passes unread."""
        try:
            return super().on_chunk(chunk)
        except Exception:
            log.exception("an answer passes unread")
            self.stop_reading()
            return chunk

    def finish(self) -> None:
        """Settle a call whose answer is complete, or was cut here."""
        self._end(cut_off=self.is_cut)

    def abort(self, *, is_awaited: bool = True) -> None:
        """Settle a call without an answer, or with part of one; unless it is settled.

        A provider works on a call that is no longer awaited: its answer is paid for.
        """
        if not self._is_settled and not is_awaited and not self.status:
            self.lose(self._enforcer.clock())
        self._end(cut_off=True)

    def settle_unsent(self) -> None:
        """Settle a call that was not sent."""
        self._is_settled = True
        self._enforcer.settle(self, None)

    def _end(self, *, cut_off: bool) -> None:
        if self._is_settled:
            return
        self._is_settled = True
        try:
            if not cut_off:
                super().finish()
            outcome = self.outcome(self._enforcer.clock(), cut_off=cut_off)
            self._enforcer.settle(self, outcome)
        except Exception:
            log.exception("a call is not settled")


class Enforcer:
    """Judges calls for every copy of a client, on any thread."""

    def __init__(
        self,
        guard: Guard,
        *,
        caller: str = "",
        block_status: int = 429,
        incident_history: LocalHistory | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.guard = guard
        self.block_status = block_status
        self.incident_history = incident_history
        self.clock = clock
        self.ids = RequestIds()
        self._caller = caller

    def judge(
        self,
        method: str,
        target: bytes,
        headers: Sequence[HeaderField],
        body: bytes | None,
        provider: str,
    ) -> GuardedCall | None:
        """Judge a request, with lower-case names of headers; None where that failed.

        Then it passes: protection must not become the outage. Without a `body`, rules that need
        one abstain.
        """
        try:
            guarded_call = self.begin(method, target, headers, body, provider, self._caller)
            guarded_call.enforce(self.clock())
            if guarded_call.answer is not None:
                guarded_call.settle_unsent()
        except Exception:
            log.exception("a call passes unjudged")
            return None
        return guarded_call

    def begin(
        self,
        method: str,
        target: bytes,
        headers: Sequence[HeaderField],
        body: bytes | None,
        provider: str,
        caller: str,
    ) -> GuardedCall:
        """Judge a request of a caller."""
        sent = dict(headers)
        path, _, query = target.decode("latin-1").partition("?")
        call = read(
            Request(
                method,
                path,
                query,
                headers,
                body or b"",
                caller=caller,
                session=session_of(sent, self.guard.session_headers),
                is_retry=is_retry(sent),
                progress=sent.get(PROGRESS, b"").decode("latin-1"),
                lacks_body=body is None,
            )
        )
        guarded_call = GuardedCall(self, call, provider, sent.get(b"x-request-id", b""))
        self.guard.begin(guarded_call, self.clock())
        return guarded_call

    def settle(self, guarded_call: GuardedCall, outcome: Outcome | None) -> None:
        """Record what became of a call; None when it was not sent."""
        ticket, now, provider = guarded_call.ticket, self.clock(), guarded_call.provider
        self.guard.conclude(ticket, outcome, now, provider)
        if self.incident_history is not None:
            self.incident_history.record(
                ticket,
                outcome,
                now,
                request_id=guarded_call.make_request_id().decode("latin-1"),
                provider=provider,
                estimate=self._input_cost,
            )

    def _input_cost(self, call: Call) -> int | None:
        price = self.guard.price(call, call.model, "", self.clock())
        return price.cost(Usage(len(call.request.body) // BYTES_PER_TOKEN)) if price else None


def is_looptrap_header(name: bytes) -> bool:
    """Return whether a header is for Looptrap alone; an agent further on may share the turn."""
    return name.startswith(HEADER_PREFIX) and name != TURN
