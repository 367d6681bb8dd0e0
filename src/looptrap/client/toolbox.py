"""The toolbox: the tools that are judged together, and the runs in which they are called."""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from threading import Lock
from types import TracebackType
from typing import Any, Self

from looptrap.admission import Guard, Ticket
from looptrap.admission.refusal import refusal
from looptrap.answer.wording import nudge
from looptrap.call.model import Call, Request
from looptrap.call.usage import NO_USAGE
from looptrap.client.place import Place, here, runner
from looptrap.client.session import current
from looptrap.client.text import failure_text, result_text
from looptrap.client.trail import Trail, Use, read_message
from looptrap.policy import preset
from looptrap.policy.action import Action, Ladder
from looptrap.policy.decide import is_nudge_due
from looptrap.policy.tool import ToolRule
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.store.memory import MemoryStore

log = logging.getLogger("looptrap")

MOST_RUNS = 500
"""Named runs whose trails are kept; the one that was silent for longest goes first."""

LONE = 20
"""So many calls in a row, each the first of its context, are worth a word."""

POLLING = ToolRule(ladder=Ladder({Action.WARN: 20, Action.BLOCK: 60}))
"""What is honest for a tool that asks for a state."""

_unnamed = count(1)


class Toolbox:
    """Judges the calls of tools, each run by itself. Thread-safe.

    Without a guard these are the history rules of the default preset.
    """

    def __init__(
        self, guard: Guard | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._own = _Own() if guard is None else None
        self._trails: OrderedDict[str, Trail] = OrderedDict()
        self._lock = Lock()
        self._lone = 0

    def expect_polls(self, name: str) -> None:
        """Give a tool the patience that asking for a state takes."""
        if self._own is None:
            raise TypeError(
                f'polls: {name} has a guard of its own, whose settings say so: [tools."{name}"]'
            )
        self._own.tools[name] = POLLING
        self._guard = None

    def admit(self, name: str, spell: Callable[[], str]) -> Passing:
        """Let a call pass that is about to be made, or raise why it must not be.

        `spell` tells its arguments. An error of our own lets it pass.
        """
        try:
            now, arguments, trail = self._clock(), spell(), self._trail()
            ticket = self._judged(trail, name, arguments, now)
        except Exception:
            log.exception("tool %s: could not be judged, and is called all the same", name)
            return Passing(None, None, ALLOWED, self._clock)
        verdict = ticket.verdict
        if ticket.shadow is not None:
            log.warning("tool %s: %s", name, ticket.shadow.message)
        if verdict.action.refuses:
            raise refusal(verdict)
        if verdict is not ALLOWED:
            log.warning("tool %s: %s", name, verdict.message)
        return Passing(trail, trail.begin(name, arguments, now), verdict, self._clock)

    def _judged(self, trail: Trail, name: str, arguments: str, now: float) -> Ticket:
        guard = self._guard
        if guard is None:
            assert self._own is not None  # either is there
            guard = self._guard = self._own.guard()
        asked = Request(
            path=f"/tools/{name}",
            body=arguments.encode(),
            # The run pays: what was refused to one is not refused to another.
            caller=trail.name,
            session=current(),
        )
        history = trail.history(name, arguments, now)
        ticket = guard.admit(Call(asked, "http", raws=history, read=read_message), now)
        if ticket.holds:
            guard.used(ticket, NO_USAGE, now)
        return ticket

    def _trail(self) -> Trail:
        """Return the trail of the run in which this code is."""
        session, place = current(), here.get()
        if place is None or not place.holds(session):
            if session:
                return self._named(session)
            place = Place("", runner())
            here.set(place)
            self._count_lone()
        elif self in place.trails:
            self._lone = 0
        return place.trails.setdefault(self, Trail(f"unnamed {next(_unnamed)}"))

    def _named(self, session: str) -> Trail:
        with self._lock:
            trail = self._trails.get(session)
            if trail is None:
                trail = self._trails[session] = Trail(f"session {session}")
                if len(self._trails) > MOST_RUNS:
                    self._trails.popitem(last=False)
            self._trails.move_to_end(session)
            return trail

    def _count_lone(self) -> None:
        self._lone += 1
        if self._lone == LONE:
            log.warning(
                "%d tool calls in a row, each in a thread or task of its own: none can be compared"
                " with another. Name the run: put `with looptrap.session(…):` around it",
                LONE,
            )


class _Own:
    """What a toolbox judges by that was given no guard; made anew when it hears of a tool."""

    def __init__(self) -> None:
        self.tools: dict[str, ToolRule] = {}
        self._secret = secrets.token_bytes(32)
        self._store = MemoryStore()

    def guard(self) -> Guard:
        """Return a guard that goes on where the one before was."""
        policies = preset.load(preset.DEFAULT)
        tools = dict(self.tools)
        return Guard(policies, tools=tools, secret=self._secret, store=self._store)


class Passing:
    """One call that was let pass; a block around it notes what becomes of it."""

    __slots__ = ("_before", "_clock", "_trail", "_use", "_verdict")

    def __init__(
        self,
        trail: Trail | None,
        use: Use | None,
        verdict: Verdict,
        clock: Callable[[], float],
    ) -> None:
        self._trail = trail
        self._use = use
        self._verdict = verdict
        self._clock = clock
        self._before: Place | None = None

    @property
    def delay(self) -> float:
        """How long it is to be held back, in seconds."""
        return self._verdict.delay

    def __enter__(self) -> Self:
        # What a tool calls itself, a whole agent perhaps, is a run of its own.
        self._before = here.get()
        here.set(Place(current()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        here.set(self._before)
        if error is not None:
            self._end(failure_text(error), is_error=True)

    def returns(self, result: Any) -> Any:
        """Note a result and return it: a text with a word to the model, where one is due."""
        self._end(result_text(result), is_error=False)
        if isinstance(result, str) and is_nudge_due(self._verdict):
            return f"{result}\n\n{nudge(self._verdict)}"
        return result

    def _end(self, text: str, *, is_error: bool) -> None:
        if self._trail is not None and self._use is not None:
            self._trail.end(self._use, text, is_error, self._clock())
