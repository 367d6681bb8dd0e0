"""`tool`: a tool function that is not called again when that is going in circles."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial, wraps
from inspect import isasyncgenfunction, isawaitable, iscoroutinefunction, isgeneratorfunction
from itertools import count
from threading import Lock, current_thread
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload
from weakref import WeakValueDictionary, ref

from looptrap.client.session import current_session
from looptrap.client.tool_history import RecordedToolCall, ToolHistory, decode_message
from looptrap.client.tool_text import ArgumentEncoder, failure_text, result_text
from looptrap.dialect.model import NO_USAGE, Call, Request
from looptrap.engine import Guard, Transaction
from looptrap.errors import RefusedError
from looptrap.policy import preset
from looptrap.policy.action import Action, Ladder
from looptrap.policy.rule import ToolRule
from looptrap.policy.verdict import ALLOWED, Verdict, is_nudge_due, nudge_text
from looptrap.store.memory import MemoryStore


class CallSite:
    """One thread or task; or all that is done for one call of a tool."""

    __slots__ = ("_runner", "histories", "session")

    def __init__(self, session: str, runner: object | None = None) -> None:
        self.session = session
        """In which it is; what is called in another belongs to that."""
        # Tasks inherit the place of whoever starts them, and may work for somebody else.
        self._runner = ref(runner) if runner is not None else None
        self.histories: dict[object, ToolHistory] = {}
        """By who judges."""

    def holds(self, session: str) -> bool:
        """Say whether what is called now, in that session, is called there."""
        return self.session == session and (
            self._runner is None or self._runner() is current_task_or_thread()
        )


current_call_site: ContextVar[CallSite | None] = ContextVar("looptrap_place", default=None)


def current_task_or_thread() -> object:
    """Return the task, or else the thread, in which this code runs."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task or current_thread()


log = logging.getLogger("looptrap")

MAX_NAMED_RUNS = 500
"""Named runs whose trails are kept; the one that was silent for longest goes first."""

UNLINKED_CALLS_BEFORE_WARNING = 20
"""So many calls in a row, each the first of its context, are worth a word."""

POLLING_RULE = ToolRule(ladder=Ladder({Action.WARN: 20, Action.BLOCK: 60}))
"""What is honest for a tool that asks for a state."""

_run_numbers = count(1)


class ToolGuard:
    """Judges the calls of tools, each run by itself. Thread-safe.

    Without a guard these are the history rules of the default preset.
    """

    def __init__(
        self, guard: Guard | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._own = _DefaultRules() if guard is None else None
        self._named_histories: OrderedDict[str, ToolHistory] = OrderedDict()
        self._lock = Lock()
        self._lone = 0

    def expect_polls(self, name: str) -> None:
        """Give a tool the patience that asking for a state takes."""
        if self._own is None:
            raise TypeError(
                f'polls: {name} has a guard of its own, whose settings say so: [tools."{name}"]'
            )
        self._own.tools[name] = POLLING_RULE
        self._guard = None

    def admit(self, name: str, encode: Callable[[], str]) -> AdmittedToolCall:
        """Let a call pass that is about to be made, or raise why it must not be.

        `spell` tells its arguments. An error of our own lets it pass.
        """
        try:
            now, arguments, tool_history = self._clock(), encode(), self._tool_history()
            transaction = self._judge(tool_history, name, arguments, now)
        except Exception:
            log.exception("tool %s: could not be judged, and is called all the same", name)
            return AdmittedToolCall(None, None, ALLOWED, self._clock)
        verdict, shadow = transaction.ticket.verdict, transaction.ticket.shadow
        if shadow is not None:
            log.warning("tool %s: %s", name, shadow.message)
        transaction.raise_refusal()
        if verdict is not ALLOWED:
            log.warning("tool %s: %s", name, verdict.message)
        return AdmittedToolCall(
            tool_history, tool_history.begin(name, arguments, now), verdict, self._clock
        )

    def _judge(
        self, tool_history: ToolHistory, name: str, arguments: str, now: float
    ) -> Transaction:
        guard = self._guard
        if guard is None:
            assert self._own is not None  # either is there
            guard = self._guard = self._own.guard()
        asked = Request(
            path=f"/tools/{name}",
            body=arguments.encode(),
            # The run pays: what was refused to one is not refused to another.
            caller=tool_history.name,
            session=current_session(),
        )
        history = tool_history.history(name, arguments, now)
        call = Call(asked, "http", raws=history, read=decode_message)
        transaction = guard.begin(Transaction(guard, call), now)
        if transaction.ticket.holds:
            guard.used(transaction.ticket, NO_USAGE, now)
        return transaction

    def _tool_history(self) -> ToolHistory:
        """Return the trail of the run in which this code is."""
        session, place = current_session(), current_call_site.get()
        if place is None or not place.holds(session):
            if session:
                return self._named(session)
            place = CallSite("", current_task_or_thread())
            current_call_site.set(place)
            self._count_lone()
        elif self in place.histories:
            self._lone = 0
        return place.histories.setdefault(self, ToolHistory(f"unnamed {next(_run_numbers)}"))

    def _named(self, session: str) -> ToolHistory:
        with self._lock:
            tool_history = self._named_histories.get(session)
            if tool_history is None:
                tool_history = self._named_histories[session] = ToolHistory(f"session {session}")
                if len(self._named_histories) > MAX_NAMED_RUNS:
                    self._named_histories.popitem(last=False)
            self._named_histories.move_to_end(session)
            return tool_history

    def _count_lone(self) -> None:
        self._lone += 1
        if self._lone == UNLINKED_CALLS_BEFORE_WARNING:
            log.warning(
                "%d tool calls in a row, each in a thread or task of its own: none can be compared"
                " with another. Name the run: put `with looptrap.session(…):` around it",
                UNLINKED_CALLS_BEFORE_WARNING,
            )


class _DefaultRules:
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


class AdmittedToolCall:
    """One call that was let pass; a block around it notes what becomes of it."""

    __slots__ = ("_before", "_clock", "_tool_history", "_use", "_verdict")

    def __init__(
        self,
        tool_history: ToolHistory | None,
        use: RecordedToolCall | None,
        verdict: Verdict,
        clock: Callable[[], float],
    ) -> None:
        self._tool_history = tool_history
        self._use = use
        self._verdict = verdict
        self._clock = clock
        self._before: CallSite | None = None

    @property
    def delay(self) -> float:
        """How long it is to be held back, in seconds."""
        return self._verdict.delay

    def __enter__(self) -> Self:
        # What a tool calls itself, a whole agent perhaps, is a run of its own.
        self._before = current_call_site.get()
        current_call_site.set(CallSite(current_session()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        current_call_site.set(self._before)
        if error is not None:
            self._end(failure_text(error), is_error=True)

    def returns(self, result: Any) -> Any:
        """Note a result and return it: a text with a word to the model, where one is due."""
        self._end(result_text(result), is_error=False)
        if isinstance(result, str) and is_nudge_due(self._verdict):
            return f"{result}\n\n{nudge_text(self._verdict)}"
        return result

    def _end(self, text: str, *, is_error: bool) -> None:
        if self._tool_history is not None and self._use is not None:
            self._tool_history.end(self._use, text, is_error, self._clock())


P = ParamSpec("P")
T = TypeVar("T")

_default_guard = ToolGuard()
_tool_guards: WeakValueDictionary[int, ToolGuard] = WeakValueDictionary()
"""By the guard's identity, which its toolbox keeps alive."""


@overload
def tool(function: Callable[P, T], /) -> Callable[P, T]: ...
@overload
def tool(
    *,
    name: str | None = None,
    polls: bool = False,
    tells: bool = False,
    guard: Guard | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    polls: bool = False,
    tells: bool = False,
    guard: Guard | None = None,
) -> Any:
    """Judge every call of a tool function before it is made: a decorator, bare or with options.

    What goes in circles raises `LoopDetectedError`, whose text is fit to be the tool's result.
    Calls are compared within the run that `looptrap.session` names, else within one thread or
    task. It stands below a framework's own decorator, so that what the framework calls is judged.

    `name` is what the model calls it, if not the function's name. `polls` says that it asks for the
    state of something that goes on by itself. With `tells` a refusal is not raised, but its text
    is the result. Tools with the same `guard` are judged together.
    """
    if function is None:
        return partial(tool, name=name, polls=polls, tells=tells, guard=guard)
    return guard_tool(function, _tool_guard_for(guard), name, polls=polls, tells=tells)


def guard_tool(
    function: Callable[..., Any],
    tool_guard: ToolGuard,
    name: str | None = None,
    *,
    polls: bool = False,
    tells: bool = False,
) -> Callable[..., Any]:
    """Return a function of the same kind and signature whose calls a toolbox judges."""
    name = name or getattr(function, "__name__", "") or type(function).__name__
    _check_function(function, name)
    if polls:
        tool_guard.expect_polls(name)
    encode = ArgumentEncoder(function).encode

    def admit(args: tuple[Any, ...], named: dict[str, Any]) -> AdmittedToolCall | str:
        try:
            return tool_guard.admit(name, partial(encode, args, named))
        except RefusedError as refusal:
            if tells:
                return refusal.message
            raise

    @wraps(function)
    async def awaited(*args: Any, **named: Any) -> Any:
        admitted = admit(args, named)
        if isinstance(admitted, str):
            return admitted
        if admitted.delay:
            await asyncio.sleep(admitted.delay)
        with admitted:
            return admitted.returns(await function(*args, **named))

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        admitted = admit(args, named)
        if isinstance(admitted, str):
            return admitted
        if admitted.delay:
            time.sleep(admitted.delay)
        with admitted:
            result = function(*args, **named)
            return (
                _await_result(admitted, result) if isawaitable(result) else admitted.returns(result)
            )

    return awaited if _is_async(function) else called


async def _await_result(admitted: AdmittedToolCall, result: Awaitable[Any]) -> Any:
    """Wait for what a function that looked like an ordinary one has begun."""
    with admitted:
        return admitted.returns(await result)


def _tool_guard_for(guard: Guard | None) -> ToolGuard:
    return _default_guard if guard is None else _tool_guards.setdefault(id(guard), ToolGuard(guard))


def _is_async(function: Callable[..., Any]) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def _check_function(function: object, name: str) -> None:
    """Raise TypeError for what cannot be judged call by call."""
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        raise TypeError(
            f"looptrap.tool: {name} is a generator, which has no result to compare; decorate a"
            " function that returns what the model is told"
        )
    if isinstance(function, type) or not callable(function):
        raise TypeError(
            f"looptrap.tool: is given {name}, no function; put it right above `def`, below the"
            " decorators that make a method or a framework's tool of it"
        )
