"""Kill switches compiled at start."""

from __future__ import annotations

from math import inf

from looptrap.dialect.agent import main_session_of
from looptrap.dialect.model import Call
from looptrap.policy.action import Action
from looptrap.policy.policy import KillSwitch
from looptrap.policy.select import Selects, all_of, has_values, path_tests
from looptrap.policy.verdict import Verdict, opening


class KillSwitchMatcher:
    """A compiled kill switch: which calls it refuses, until when, and with which verdict."""

    def __init__(self, switch: KillSwitch) -> None:
        tests = path_tests(switch)
        others = tuple(pair for pair in switch.match if pair[0] != "session")
        if others:
            tests.append(has_values(others))
        tests += [_session_test(value) for name, value in switch.match if name == "session"]
        self._matches = all_of(tests)
        self._expires = switch.expires.timestamp() if switch.expires else inf
        callers = " and ".join(f"{name} {value!r}" for name, value in switch.match)
        why = f": {switch.reason}" if switch.reason else ""
        message = f"{opening(Action.BLOCK, 'killed')}: calls of {callers} are switched off{why}."
        self.verdict = Verdict(
            action=Action.BLOCK, reason="killed", rule="kill-switch", message=message
        )

    def kills(self, call: Call, now: float) -> bool:
        """Return whether it refuses the call."""
        return now < self._expires and self._matches(call)


def _session_test(session: str) -> Selects:
    """Return the test whether a call is of a session, or of a subagent of its agent."""
    return lambda call: session in (call.request.session, main_session_of(call))
