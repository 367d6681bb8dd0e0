"""Enforcer: judges the calls that a client is about to send, as the gateway would."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from looptrap.client.history import LocalHistory
from looptrap.config import Config, load
from looptrap.config.kind import MEMORY
from looptrap.dialect.agent import AUTO, BlockStatus
from looptrap.dialect.descriptor import PROGRESS, TURN, is_retry, session_of
from looptrap.dialect.model import BYTES_PER_TOKEN, Call, Outcome, Request, Usage
from looptrap.dialect.registry import read
from looptrap.engine import Guard, RequestIds, Transaction
from looptrap.money.price import Prices

HEADER_PREFIX = b"x-looptrap-"

log = logging.getLogger("looptrap")


class GuardedCall(Transaction):
    """The transaction of a call that a client sends itself; an error of ours never stops it.

    A block around the reading of its answer settles it.
    """

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

    @contextmanager
    def delaying(self) -> Iterator[None]:
        """Settle the call as not sent if the block fails."""
        try:
            yield
        except BaseException:
            self.settle_unsent()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, _error: object, _traceback: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.abort()

    def _end(self, *, cut_off: bool) -> None:
        if self._is_settled:
            return
        self._is_settled = True
        try:
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
        block_status: BlockStatus = AUTO,
        incident_history: LocalHistory | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.guard = guard
        self.caller = caller
        self.block_status = block_status
        self.incident_history = incident_history
        self.clock = clock
        self.ids = RequestIds()

    @classmethod
    def from_options(
        cls,
        guard: Guard | None,
        preset: str | None,
        config: str | Path | None,
        history: str | Path,
        block_status: BlockStatus | None,
        **options: Any,
    ) -> Self:
        """Return one with the rules of `guard`, else of the file `config`, else of `preset`."""
        if guard is not None and (preset is not None or config is not None):
            raise TypeError(
                "guard: has its rules already, so neither preset nor config can be given"
            )
        settings = load(config, env=os.environ, flags={"preset": preset})
        return cls(
            guard or guard_from_config(settings),
            block_status=block_status or settings.block_status,
            incident_history=LocalHistory.open(history, settings.incidents) if history else None,
            **options,
        )

    def judge_request(self, request: Request, provider: str) -> GuardedCall | None:
        """Judge a request and act on the verdict; None where that failed.

        Then it passes: protection must not become the outage.
        """
        try:
            guarded_call = self.begin(request, provider)
            guarded_call.enforce(self.clock())
            if guarded_call.answer is not None:
                guarded_call.settle_unsent()
        except Exception:
            log.exception("a call passes unjudged")
            return None
        return guarded_call

    def begin(self, request: Request, provider: str = "") -> GuardedCall:
        """Judge a request; its headers, with lower-case names, say its session and progress."""
        sent = dict(request.headers)
        request.session = session_of(sent, self.guard.session_headers)
        request.is_retry = is_retry(sent)
        request.progress = sent.get(PROGRESS, b"").decode("latin-1")
        guarded_call = GuardedCall(self, read(request), provider, sent.get(b"x-request-id", b""))
        self.guard.begin(guarded_call, self.clock())
        return guarded_call

    def settle(self, guarded_call: GuardedCall, outcome: Outcome | None) -> None:
        """Record what became of a call; None when it was not sent."""
        ticket, now, provider = guarded_call.ticket, self.clock(), guarded_call.provider
        turn = guarded_call.answered() if outcome is not None else None
        self.guard.end(ticket, outcome, now, provider, turn)
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


def guard_from_config(settings: Config) -> Guard:
    """Return a guard with these settings; log those that mean nothing without a gateway."""
    for warning in settings.warnings:
        log.warning("%s", warning)
    if settings.store != MEMORY:
        log.warning("store: is not used without a gateway, calls are counted in this process only")
    return Guard(
        settings.policies,
        projects=settings.projects,
        kill_switches=settings.kill_switches,
        tools=settings.tools,
        budgets=settings.budgets,
        prices=Prices(settings.prices, settings.price_fallback),
        session_headers=settings.session_headers,
    )


def is_looptrap_header(name: bytes) -> bool:
    """Return whether a header is for Looptrap alone; an agent further on may share the turn."""
    return name.startswith(HEADER_PREFIX) and name != TURN
