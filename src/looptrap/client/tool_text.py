"""Arguments and results of tool functions as texts, as a history would have them."""

from __future__ import annotations

import inspect
import re
import weakref
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from looptrap.detect.canonical import mask, mask_result, normalise
from looptrap.detect.failure import failure_of
from looptrap.detect.round import MAX_RESULT_CHARS as MAX_COMPARED_CHARS

CONTEXT_TYPES = frozenset(
    {
        ("agents", "RunContextWrapper"),
        ("fastmcp", "Context"),
        ("google", "Context"),
        ("google", "ToolContext"),
        ("langchain_core", "RunnableConfig"),
        ("langgraph", "ToolRuntime"),
        ("llama_index", "Context"),
        ("mcp", "Context"),
        ("pydantic_ai", "RunContext"),
    }
)
"""Package and class of what tells of the run, and is another one for every call."""

INJECTED_PREFIX = "Injected"
"""How the names of LangChain's marks for the same begin."""


def injected_params(function: Callable[..., Any]) -> frozenset[str]:
    """Return the parameters that a framework fills in, as far as annotations say so."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - names that only type checkers know
        return frozenset()
    return frozenset(name for name, hint in hints.items() if _is_injected(hint))


def is_framework_context(kind: type) -> bool:
    """Say whether objects of that type are a framework's, made for each call or run."""
    return any(
        (one.__module__.partition(".")[0], one.__name__) in CONTEXT_TYPES for one in kind.__mro__
    )


def _is_injected(hint: Any) -> bool:
    if isinstance(hint, type) and is_framework_context(hint):
        return True
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        return _is_injected(kind) or any(map(_is_injection_marker, marks))
    # `RunContext[Deps]`, and `ToolRuntime | None`
    return any(map(_is_injected, (get_origin(hint), *get_args(hint)) if get_origin(hint) else ()))


def _is_injection_marker(mark: Any) -> bool:
    kind = mark if isinstance(mark, type) else type(mark)
    return any(one.__name__.startswith(INJECTED_PREFIX) for one in kind.__mro__)


MAX_ARGUMENT_CHARS, MAX_RESULT_CHARS = 2_000, 1_000
"""So much is kept of the beginning of a long text: about what the signals read of it."""

TAIL_CHARS = 400
"""So much of its end; a digest stands for all of it."""

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")
"""In what an object says of itself: where it lies, and then mostly not what it holds."""

_numbers = count(1)


class ArgumentEncoder:
    """Spells the arguments of one function: equal calls alike, however they are written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature: inspect.Signature | None = None
        with suppress(ValueError):  # some that are written in C have none
            self._signature = inspect.signature(function)
        self._injected = injected_params(function)

    def encode(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        """Return canonical JSON of the arguments by name, defaults among them."""
        given: Mapping[str, Any] = {"args": args, **named}
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **named)
            except TypeError:
                pass  # which the function itself will say
            else:
                bound.apply_defaults()
                given = bound.arguments
        plain = {name: self._told(name, value) for name, value in given.items()}
        try:
            text = _encode_arguments(plain).decode()
        except Exception:  # noqa: BLE001 - whatever somebody's own class raises
            alone = {name: _encode_alone(value) for name, value in plain.items()}
            text = _encode_arguments(alone).decode()
        return _short_arguments(text)

    def _told(self, name: str, value: Any) -> Any:
        if name in self._injected or is_framework_context(type(value)):
            return _type_placeholder(value)
        return _identity_of(value) if name == "self" else value


def result_text(value: object) -> str:
    """Return what a tool answered; what cannot be read is never the same as before."""
    if isinstance(value, str):
        return _short_result(value)
    try:
        text = _encode_results(value).decode()
    except Exception:  # noqa: BLE001 - whatever somebody's own class raises
        text = _object_text(value) or _unique_placeholder(value)
    return _short_result(text)


def failure_text(error: BaseException) -> str:
    """Return what a tool raised."""
    return _short_result(f"{type(error).__name__}: {_object_text(error)}")


def _short_arguments(text: str) -> str:
    """Return arguments; of long ones their beginning, their end, and a digest of all."""
    if len(text) <= MAX_ARGUMENT_CHARS + TAIL_CHARS:
        return text
    return _joined(
        text[:MAX_ARGUMENT_CHARS], text.encode("utf-8", "surrogatepass"), text[-TAIL_CHARS:]
    )


def _short_result(text: str) -> str:
    """Return a result; of a long one what it is compared by in histories, masked."""
    if len(text) <= MAX_RESULT_CHARS + TAIL_CHARS:
        return text
    # Masked before it is cut, so that a number longer than before shifts nothing.
    masking = mask_result if failure_of(text) is None else mask
    masked, end = masking(text[:MAX_COMPARED_CHARS]), masking(text[-2 * TAIL_CHARS :])[-TAIL_CHARS:]
    return _joined(masked[:MAX_RESULT_CHARS], normalise([masked]), end[end.find("\n") + 1 :])


def _joined(head: str, content: bytes, tail: str) -> str:
    digest = blake2b(content, digest_size=8).hexdigest()
    return f"{head}\n[all {digest}]\n{tail}"


# What is no JSON


def _plain(value: Any) -> Any:
    """Return an object as something JSON can hold; nothing where it does not say what it is."""
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return dump()
    if isinstance(value, Set):
        return frozenset(value)
    return list(value) if isinstance(value, Sequence) else _object_text(value)


def _object_text(value: object) -> str:
    """Return what an object says of itself; nothing where that is only its kind and place."""
    kind = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return ""
    try:
        words = str(value)
    except Exception:  # noqa: BLE001 - whatever somebody's own class raises
        return ""
    return "" if _ADDRESS.search(words) else words


def _type_placeholder(value: object) -> str:
    return f"<{type(value).__qualname__}>"


def _unique_placeholder(value: object) -> str:
    return f"{_type_placeholder(value)} {next(_numbers)}"


_encode_arguments = msgspec.json.Encoder(
    order="deterministic", enc_hook=lambda value: _plain(value) or _type_placeholder(value)
).encode
_encode_results = msgspec.json.Encoder(
    order="deterministic", enc_hook=lambda value: _plain(value) or _unique_placeholder(value)
).encode


def _encode_alone(value: Any) -> str:
    """Return one argument as text, where not all can be written: the others stay as ever."""
    try:
        return _encode_arguments(value).decode()
    except Exception:  # noqa: BLE001 - whatever somebody's own class raises
        return (_object_text(value) or _type_placeholder(value)).encode("utf-8", "replace").decode()


# The object that a method is called of


class _TrackedObject(weakref.ref[Any]):
    """An object that was seen, and its number for as long as it lives."""

    __slots__ = ("number",)
    number: int


_tracked: dict[int, _TrackedObject] = {}


def _identity_of(value: object) -> object:
    """Return what stands for an object, so that the same call of another is another call.

    By its identity: what it holds may change with every call.
    """
    place = id(value)
    known = _tracked.get(place)
    if known is None or known() is not value:
        try:
            known = _TrackedObject(value, lambda gone: _forget(place, gone))
        except TypeError:
            return value  # it cannot be followed: what it holds tells it from others
        known.number = next(_numbers)
        _tracked[place] = known
    return f"{_type_placeholder(value)} {known.number}"


def _forget(place: int, gone: object) -> None:
    if _tracked.get(place) is gone:  # another object may lie there already
        del _tracked[place]
