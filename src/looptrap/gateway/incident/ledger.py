"""The ledger: what calls come to, on its way from the loop to the thread that writes it."""

from __future__ import annotations

from collections import deque

from looptrap.admission import Ticket
from looptrap.call.model import LONGEST_NAME, Outcome
from looptrap.incident.model import Sighting
from looptrap.incident.spending import Spending
from looptrap.incident.spent import MINUTE, Batch, Spender
from looptrap.policy.verdict import ALLOWED


class Ledger:
    """Counts every call: no sample would do for what is paid."""

    def __init__(self) -> None:
        self._spending = Spending()
        self._handed: deque[Batch] = deque()
        self._batch = Batch()
        """What is to be written next: only the writer's thread knows it."""

    # On the loop

    def settled(
        self, ticket: Ticket, outcome: Outcome | None, now: float, provider: str, session: str
    ) -> None:
        """Count a call."""
        call, spending = ticket.call, self._spending
        request = call.request
        caller, project = request.caller, request.project
        spent = spending.add(now, caller, project, provider, call.model, outcome)
        run = None
        if session:
            run = spending.add_to_session(now, caller, project, session, call.model, outcome)
        if ticket.verdict is not ALLOWED or ticket.heard is not None:
            if outcome is not None or not ticket.verdict.action.refuses:
                spent.warned += 1
            else:
                spent.refused += 1
                if run is not None:
                    run.refused += 1
        if ticket.shadow is not None:
            spent.shadowed += 1

    def hand_over(self) -> None:
        """Let the writer have what was counted; it cannot take it while calls are added."""
        if self._spending:
            self._handed.append(self._spending.take())

    # On the writer's thread

    def save(self, seen: Sighting, nano: int) -> None:
        """Add what a refused call would have cost."""
        spender = Spender(seen.caller, seen.project, seen.provider, seen.model[:LONGEST_NAME])
        self._batch.spent(int(seen.time) // MINUTE * MINUTE, spender).saved += nano

    def take(self) -> Batch:
        """Return what there is to be written."""
        for _ in range(len(self._handed)):
            self._batch.add(self._handed.popleft())
        batch, self._batch = self._batch, Batch()
        return batch
