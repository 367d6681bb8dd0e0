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
from typing import Any, ParamSpec, Self, TypeVar, overload
from weakref import WeakValueDictionary, ref

from looptrap.client.session import current_session
from looptrap.client.tool_history import ToolHistory, decode_message
from looptrap.client.tool_text import ArgumentEncoder, failure_text, result_text
from looptrap.dialect.model import NO_USAGE, Call, Request
from looptrap.engine import Guard, Transaction
from looptrap.errors import RefusedError
from looptrap.policy import preset
from looptrap.policy.action import Action, Ladder
from looptrap.policy.rule import ToolRule
from looptrap.policy.verdict import ALLOWED, Verdict, is_nudge_due, nudge_text
from looptrap.store.memory import MemoryStore

MAX_NAMED_RUNS = 500
"""Named runs whose histories are kept; the one that was idle for longest is dropped first."""

UNLINKED_CALLS_BEFORE_WARNING = 20
"""Calls in a row, each the first of its thread or task, after which a warning is logged."""

POLLING_RULE = ToolRule(ladder=Ladder({Action.WARN: 20, Action.BLOCK: 60}))
"""The rule for a tool that asks for a state."""

log = logging.getLogger("looptrap")

_run_numbers = count(1)


class CallSite:
    """The thread or task, or the call of a tool, that the calls made in it belong to."""

    __slots__ = ("_owner", "histories", "session")

    def __init__(self, session: str, owner: object | None = None) -> None:
        self.session = session
        """Calls in another session belong to that session."""
        # Tasks inherit the call site of the task that starts them, and may belong to another run.
        self._owner = ref(owner) if owner is not None else None
        self.histories: dict[ToolGuard, ToolHistory] = {}

    def holds(self, session: str) -> bool:
        """Return whether a call that is made now, in that session, belongs here."""
        return self.session == session and (
            self._owner is None or self._owner() is current_task_or_thread()
        )


current_call_site: ContextVar[CallSite | None] = ContextVar("looptrap_place", default=None)


def current_task_or_thread() -> object:
    """Return the task, or else the thread, in which this code runs."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task or current_thread()


class ToolGuard:
    """Judges the calls of tools, each run by itself. Thread-safe.

    Without a guard, the history rules of the default preset apply.
    """

    def __init__(
        self, guard: Guard | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._has_default_rules = guard is None
        self._polling_tools: dict[str, ToolRule] = {}
        self._secret = secrets.token_bytes(32)
        self._store = MemoryStore()
        self._named_histories: OrderedDict[str, ToolHistory] = OrderedDict()
        self._lock = Lock()
        self._unlinked_calls = 0

    def allow_polling(self, name: str) -> None:
        """Allow a tool as many equal calls as asking for a state takes."""
        if not self._has_default_rules:
            raise TypeError(
                f'polls: {name} has a guard of its own, whose settings say so: [tools."{name}"]'
            )
        self._polling_tools[name] = POLLING_RULE
        self._guard = None  # made again, with the same counts

    def admit(self, name: str, encode: Callable[[], str]) -> AdmittedToolCall:
        """Admit a call that is about to be made, or raise why it must not be.

        `encode` returns its arguments as text. An error of our own lets it pass.
        """
        try:
            now, arguments, tool_history = self._clock(), encode(), self._tool_history()
            transaction = self._judge(tool_history, name, arguments, now)
        except Exception:
            log.exception("tool %s: could not be judged, and is called all the same", name)
            return AdmittedToolCall(ALLOWED, lambda _text, _is_error: None)
        verdict, shadow = transaction.ticket.verdict, transaction.ticket.shadow
        if shadow is not None:
            log.warning("tool %s: %s", name, shadow.message)
        transaction.raise_refusal()
        if verdict is not ALLOWED:
            log.warning("tool %s: %s", name, verdict.message)
        recorded = tool_history.begin(name, arguments, now)

        def record(text: str, is_error: bool) -> None:
            tool_history.end(recorded, text, is_error, self._clock())

        return AdmittedToolCall(verdict, record)

    def _judge(
        self, tool_history: ToolHistory, name: str, arguments: str, now: float
    ) -> Transaction:
        guard = self._guard
        if guard is None:
            guard = self._guard = Guard(
                preset.load(preset.DEFAULT),
                tools=dict(self._polling_tools),
                secret=self._secret,
                store=self._store,
            )
        request = Request(
            path=f"/tools/{name}",
            body=arguments.encode(),
            # By run: a refusal in one run is none in another.
            caller=tool_history.name,
            session=current_session(),
        )
        history = tool_history.history(name, arguments, now)
        call = Call(request, "http", raws=history, read=decode_message)
        transaction = guard.begin(Transaction(guard, call), now)
        guard.used(transaction.ticket, NO_USAGE, now)
        return transaction

    def _tool_history(self) -> ToolHistory:
        """Return the history of the run that this code is part of."""
        session, site = current_session(), current_call_site.get()
        if site is None or not site.holds(session):
            if session:
                return self._named_history(session)
            site = CallSite("", current_task_or_thread())
            current_call_site.set(site)
            self._count_unlinked()
        elif self in site.histories:
            self._unlinked_calls = 0
        return site.histories.setdefault(self, ToolHistory(f"unnamed {next(_run_numbers)}"))

    def _named_history(self, session: str) -> ToolHistory:
        with self._lock:
            tool_history = self._named_histories.get(session)
            if tool_history is None:
                tool_history = self._named_histories[session] = ToolHistory(f"session {session}")
                if len(self._named_histories) > MAX_NAMED_RUNS:
                    self._named_histories.popitem(last=False)
            self._named_histories.move_to_end(session)
            return tool_history

    def _count_unlinked(self) -> None:
        self._unlinked_calls += 1
        if self._unlinked_calls == UNLINKED_CALLS_BEFORE_WARNING:
            log.warning(
                "%d tool calls in a row, each in a thread or task of its own: none can be compared"
                " with another. Name the run: put `with looptrap.session(…):` around it",
                UNLINKED_CALLS_BEFORE_WARNING,
            )


class AdmittedToolCall:
    """A call that is made; the block around it records its result or its exception."""

    __slots__ = ("_record", "_site_before", "_verdict")

    def __init__(self, verdict: Verdict, record: Callable[[str, bool], None]) -> None:
        self._verdict = verdict
        self._record = record
        self._site_before: CallSite | None = None

    @property
    def delay(self) -> float:
        """Seconds to wait before the call is made."""
        return self._verdict.delay

    def __enter__(self) -> Self:
        # What a tool calls, perhaps a whole agent, is a run of its own.
        self._site_before = current_call_site.get()
        current_call_site.set(CallSite(current_session()))
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        current_call_site.set(self._site_before)
        if error is not None:
            self._record(failure_text(error), True)

    def returns(self, result: Any) -> Any:
        """Record a result and return it; a text with a nudge to the model, where one is due."""
        self._record(result_text(result), False)
        if isinstance(result, str) and is_nudge_due(self._verdict):
            return f"{result}\n\n{nudge_text(self._verdict)}"
        return result


P = ParamSpec("P")
T = TypeVar("T")

_default_guard = ToolGuard()
_tool_guards: WeakValueDictionary[int, ToolGuard] = WeakValueDictionary()
"""By the identity of the guard, which its ToolGuard keeps alive."""


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

    A call that goes in circles raises `LoopDetectedError`, whose text can be the tool's result.
    Calls are compared within the run that `looptrap.session` names, else within one thread or
    task. Put it below a framework's own decorator, so that what the framework calls is judged.

    `name` is the tool's name for the model, if not the function's name. `polls` says that it asks
    for a state that changes by itself. With `tells`, the text of a refusal is returned, not raised.
    Tools with the same `guard` are judged together.
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
    """Return a function of the same kind and signature whose calls a ToolGuard judges."""
    name = name or getattr(function, "__name__", "") or type(function).__name__
    _check_function(function, name)
    if polls:
        tool_guard.allow_polling(name)
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
            if isawaitable(result):
                return _await_result(admitted, result)
            return admitted.returns(result)

    return awaited if _is_async(function) else called


async def _await_result(admitted: AdmittedToolCall, result: Awaitable[Any]) -> Any:
    """Await the result of a function that is not marked as asynchronous."""
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
