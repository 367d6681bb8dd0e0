"""A turn under way: its id, its account, where it stands and whether it has been given up."""

from __future__ import annotations

from looptrap.errors import GiveUp
from looptrap.retry.drive import Means
from looptrap.retry.timing import Timing
from looptrap.retry.turn.account import Account, Taken
from looptrap.retry.turn.marker import Marker


class Run:
    """What the steps of a turn share."""

    def __init__(self, id: str, scope: str, account: Account, means: Means, timing: Timing) -> None:
        self.id = id
        self.scope = scope
        """What idempotency keys begin with: of a turn that came in headers, not its id alone."""
        self.account = account
        self.means = means
        self.timing = timing
        self.step = 0
        self._given_up: Marker | None = None

    def begin_step(self) -> int:
        """Take a step and return its number; raises GiveUp where that is not allowed."""
        taken = self._take(self.account.take(self.timing.clock(), steps=1))
        self.step = taken.step
        return taken.step

    def begin_tool_call(self) -> int:
        """Take a tool call and return its number; raises GiveUp where that is not allowed."""
        return self._take(self.account.take(self.timing.clock(), tool_calls=1)).tool_call

    def give_up(self, step: int, reason: str, attempts: int) -> GiveUp:
        """End the turn, and return what to raise."""
        spent = self.account.spent(self.timing.clock())
        self._given_up = Marker(
            turn=self.id, step=step, reason=reason, attempts=attempts, spent=spent
        )
        return GiveUp(self._given_up)

    def _take(self, taken: Taken) -> Taken:
        if self._given_up is not None:  # what is over stays over
            raise GiveUp(self._given_up)
        if taken.met:
            raise self.give_up(self.step, taken.met, 0)
        return taken
