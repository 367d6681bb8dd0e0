"""`tool`: a tool function that is not called again when that is going in circles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from inspect import isasyncgenfunction, isawaitable, iscoroutinefunction, isgeneratorfunction
from typing import Any, ParamSpec, TypeVar, overload
from weakref import WeakValueDictionary

from looptrap.admission import Guard
from looptrap.client.text import Arguments
from looptrap.client.toolbox import Passing, Toolbox
from looptrap.errors import RefusedError

P = ParamSpec("P")
T = TypeVar("T")

_shared = Toolbox()
_of_guards: WeakValueDictionary[int, Toolbox] = WeakValueDictionary()
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
    return guarded(function, _toolbox(guard), name, polls=polls, tells=tells)


def guarded(
    function: Callable[..., Any],
    toolbox: Toolbox,
    name: str | None = None,
    *,
    polls: bool = False,
    tells: bool = False,
) -> Callable[..., Any]:
    """Return a function of the same kind and signature whose calls a toolbox judges."""
    name = name or getattr(function, "__name__", "") or type(function).__name__
    _refuse_others(function, name)
    if polls:
        toolbox.expect_polls(name)
    spell = Arguments(function).spell

    def admit(args: tuple[Any, ...], named: dict[str, Any]) -> Passing | str:
        try:
            return toolbox.admit(name, partial(spell, args, named))
        except RefusedError as refusal:
            if tells:
                return refusal.message
            raise

    @wraps(function)
    async def awaited(*args: Any, **named: Any) -> Any:
        passing = admit(args, named)
        if isinstance(passing, str):
            return passing
        if passing.delay:
            await asyncio.sleep(passing.delay)
        with passing:
            return passing.returns(await function(*args, **named))

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        passing = admit(args, named)
        if isinstance(passing, str):
            return passing
        if passing.delay:
            time.sleep(passing.delay)
        with passing:
            result = function(*args, **named)
            return _later(passing, result) if isawaitable(result) else passing.returns(result)

    return awaited if _is_async(function) else called


async def _later(passing: Passing, result: Awaitable[Any]) -> Any:
    """Wait for what a function that looked like an ordinary one has begun."""
    with passing:
        return passing.returns(await result)


def _toolbox(guard: Guard | None) -> Toolbox:
    return _shared if guard is None else _of_guards.setdefault(id(guard), Toolbox(guard))


def _is_async(function: Callable[..., Any]) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def _refuse_others(function: object, name: str) -> None:
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
