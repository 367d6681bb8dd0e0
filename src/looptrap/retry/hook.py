"""Hooks: who hears of attempts, waits, calls given up, and circuits that change."""

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
    """One thing that happened to a call; what does not concern its kind is empty."""

    kind: Literal["attempt", "wait", "give_up", "breaker"]
    """An attempt begins, a wait begins, a call is given up, a circuit changes."""
    name: str
    """The function that is called."""
    link: Link | None = None
    attempt: int = 0
    """How many attempts there have been, this one included."""
    seconds: float = 0.0
    """How long is waited."""
    failure: Failure | None = None
    """Why there is a wait, or why the call is given up."""
    circuit: str = ""
    """Which circuit changed; `state` is what it is now."""
    state: str = ""
    turn: str = ""
    """The id of the turn that the call belongs to."""


class Hook(Protocol):
    """Is told what happens, at once and in order; it should be quick."""

    def __call__(self, event: Event, /) -> None: ...


def notify_hooks(hooks: Iterable[Hook], event: Event) -> None:
    """Tell all hooks; one that fails is logged and never fails the call."""
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            log.exception("a hook on %s failed", event.kind)
