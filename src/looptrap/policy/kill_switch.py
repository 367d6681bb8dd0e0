"""Kill switches compiled at start: which calls they refuse, until when, and with which verdict."""

from __future__ import annotations

from looptrap.dialect.descriptor import descriptor
from looptrap.dialect.model import Call
from looptrap.dialect.path import folded_path, folded_prefix
from looptrap.policy.action import Action
from looptrap.policy.policy import KillSwitch
from looptrap.policy.verdict import Verdict, opening


class KillSwitchMatcher:
    """A compiled kill switch."""

    __slots__ = ("_expires", "_match", "_path_exact", "_path_prefix", "verdict")

    def __init__(self, switch: KillSwitch) -> None:
        self._match = tuple((descriptor(name), value) for name, value in switch.match)
        self._expires = switch.expires.timestamp() if switch.expires else float("inf")
        exact, prefix = switch.path_exact, switch.path_prefix
        self._path_exact = folded_path(exact) if exact is not None else None
        self._path_prefix = folded_prefix(prefix) if prefix is not None else None
        callers = " and ".join(f"{name} {value!r}" for name, value in switch.match)
        why = f": {switch.reason}" if switch.reason else ""
        message = f"{opening(Action.BLOCK, 'killed')}: calls of {callers} are switched off{why}."
        self.verdict = Verdict(
            action=Action.BLOCK, reason="killed", rule="kill-switch", message=message
        )

    def kills(self, call: Call, now: float) -> bool:
        """Return whether it refuses the call."""
        return (
            now < self._expires
            and self._path_exact in (None, folded_path(call.request.path))
            and (
                self._path_prefix is None
                or folded_path(call.request.path).startswith(self._path_prefix)
            )
            and all(value(call) == wanted for value, wanted in self._match)
        )
