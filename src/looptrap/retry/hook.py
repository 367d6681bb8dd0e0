"""Hooks: notified of attempts, waits, calls given up, and circuit changes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from looptrap.retry.failure import Failure
from looptrap.retry.policy import Link

log = logging.getLogger("looptrap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a call; fields that its kind does not use are empty."""

    kind: Literal["attempt", "wait", "give_up", "breaker"]
    """An attempt begins, a wait begins, a call is given up, a circuit changes."""
    name: str
    """The function that is called."""
    link: Link | None = None
    attempt: int = 0
    """The number of attempts, including this one."""
    seconds: float = 0.0
    """How long the wait is."""
    failure: Failure | None = None
    """Why there is a wait, or why the call is given up."""
    circuit: str = ""
    """The circuit that changed; `state` is its new state."""
    state: str = ""
    turn: str = ""
    """The id of the turn that the call belongs to."""


class Hook(Protocol):
    """Called at once with each event, in order; it should be quick."""

    def __call__(self, event: Event, /) -> None: ...


def notify_hooks(hooks: Iterable[Hook], event: Event) -> None:
    """Call all hooks; one that fails is logged and never fails the call."""
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            log.exception("a hook on %s failed", event.kind)
