"""Sessions: the run that calls belong to."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_session_var: ContextVar[str] = ContextVar("looptrap_session", default="")
_match_header_value = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?").fullmatch


def current_session() -> str:
    """Return the session in which this code runs; empty outside of any."""
    return _session_var.get()


def validate_session_name(name: str) -> str:
    """Return the name of a session; raise ValueError for one that no header can carry."""
    if not isinstance(name, str) or _match_header_value(name) is None:
        raise ValueError(f"session: is {name!r}, must be printable ASCII without spaces around it")
    return name


class session:  # noqa: N801 - used like a function, as the standard library's context managers are
    """Marks every call in the block as part of one run, also in threads and tasks started there.

    `with looptrap.session("run-42"): …` in sync and async code alike, or `@looptrap.session("…")`
    above a function. Of nested blocks the innermost counts; an empty name removes the mark.
    """

    def __init__(self, name: str) -> None:
        self.name = validate_session_name(name)
        self._before: str | None = None

    def __enter__(self) -> str:
        if self._before is not None:
            raise RuntimeError("this session is entered already: make another for another block")
        _propagate_to_threads()
        # The value, not a token: a block may be left in another context than it was entered in.
        self._before = _session_var.get()
        _session_var.set(self.name)
        return self.name

    def __exit__(self, *_: object) -> None:
        before, self._before = self._before, None
        _session_var.set(before or "")

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Mark every call that a function makes."""
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise TypeError(
                f"session: cannot mark {function.__name__}, which is a generator: its caller runs"
                " between its steps. Use `with looptrap.session(…)` inside it"
            )
        name = self.name
        if iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                with session(name):
                    return await function(*args, **kwargs)

            return cast(Callable[P, T], awaited)

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            with session(name):
                return function(*args, **kwargs)

        return called


# Tasks inherit the context of the code that starts them; threads and pools do not.

_patch_lock = threading.Lock()
_is_patched = False


def _propagate_to_threads() -> None:
    """Let threads and pools carry the session of the code that gives them work, from now on."""
    global _is_patched
    if _is_patched:
        return
    with _patch_lock:
        if not _is_patched:
            _patch_threads()
            _is_patched = True


def _patch_threads() -> None:
    # As they are now, with the patches of others.
    start_before, submit_before = threading.Thread.start, ThreadPoolExecutor.submit

    @wraps(start_before)
    def start(self: threading.Thread) -> None:
        if name := _session_var.get():
            self.run = partial(_run, self, name, self.run)  # type: ignore[method-assign]
        start_before(self)

    @wraps(submit_before)  # type: ignore[arg-type]
    def submit(
        self: ThreadPoolExecutor, fn: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        # Also without a session: the pool's thread may have been started within one.
        return submit_before(
            self, partial(_run_in_session, _session_var.get(), fn), *args, **kwargs
        )

    threading.Thread.start = start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submit  # type: ignore[method-assign, assignment]


def _run(thread: threading.Thread, name: str, run: Callable[[], None]) -> None:
    del thread.run  # else the thread would hold itself
    _run_in_session(name, run)


def _run_in_session(name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a session, and restore the thread's own."""
    before = _session_var.get()
    _session_var.set(name)
    try:
        return function(*args, **kwargs)
    finally:
        _session_var.set(before)
