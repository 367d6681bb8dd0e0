"""Arguments and results of tool functions as texts, as in the history of a conversation."""

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
"""Package and class of objects that describe the run, and differ from call to call."""

INJECTED_PREFIX = "Injected"
"""The prefix of LangChain's markers for such parameters."""


def injected_params(function: Callable[..., Any]) -> frozenset[str]:
    """Return the parameters that a framework fills in, as far as annotations say so."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - names that only type checkers know
        return frozenset()
    return frozenset(name for name, hint in hints.items() if _is_injected(hint))


def is_framework_context(kind: type) -> bool:
    """Return whether a framework makes objects of that type for each call or run."""
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
"""Characters that are kept of the beginning of a long text: about what the signals read."""

TAIL_CHARS = 400
"""Characters that are kept of its end; a digest stands for all of it."""

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")
"""In the text of an object: its address, and then mostly not its content."""

_numbers = count(1)


class ArgumentEncoder:
    """Encodes the arguments of one function: equal calls alike, however they are written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature: inspect.Signature | None = None
        with suppress(ValueError):  # some functions in C have none
            self._signature = inspect.signature(function)
        self._injected = injected_params(function)

    def encode(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        """Return canonical JSON of the arguments by name, defaults among them."""
        arguments: Mapping[str, Any] = {"args": args, **named}
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **named)
            except TypeError:
                pass  # the function itself will raise it
            else:
                bound.apply_defaults()
                arguments = bound.arguments
        plain = {name: self._comparable(name, value) for name, value in arguments.items()}
        try:
            text = _encode_arguments(plain).decode()
        except Exception:  # noqa: BLE001 - a class may raise anything
            alone = {name: _encode_alone(value) for name, value in plain.items()}
            text = _encode_arguments(alone).decode()
        return _short_arguments(text)

    def _comparable(self, name: str, value: Any) -> Any:
        if name in self._injected or is_framework_context(type(value)):
            return _type_placeholder(value)
        return _identity_of(value) if name == "self" else value


def result_text(value: object) -> str:
    """Return the text of a result; two that cannot be read are never equal."""
    if isinstance(value, str):
        return _short_result(value)
    try:
        text = _encode_results(value).decode()
    except Exception:  # noqa: BLE001 - a class may raise anything
        text = _object_text(value) or _unique_placeholder(value)
    return _short_result(text)


def failure_text(error: BaseException) -> str:
    """Return the text of an exception."""
    return _short_result(f"{type(error).__name__}: {_object_text(error)}")


def _short_arguments(text: str) -> str:
    """Return arguments; long ones as their beginning, their end, and a digest of all."""
    if len(text) <= MAX_ARGUMENT_CHARS + TAIL_CHARS:
        return text
    return _joined(
        text[:MAX_ARGUMENT_CHARS], text.encode("utf-8", "surrogatepass"), text[-TAIL_CHARS:]
    )


def _short_result(text: str) -> str:
    """Return a result; a long one masked, as far as histories compare it."""
    if len(text) <= MAX_RESULT_CHARS + TAIL_CHARS:
        return text
    # Masked before it is cut, so that a longer number shifts nothing.
    masking = mask_result if failure_of(text) is None else mask
    masked, end = masking(text[:MAX_COMPARED_CHARS]), masking(text[-2 * TAIL_CHARS :])[-TAIL_CHARS:]
    return _joined(masked[:MAX_RESULT_CHARS], normalise([masked]), end[end.find("\n") + 1 :])


def _joined(head: str, content: bytes, tail: str) -> str:
    digest = blake2b(content, digest_size=8).hexdigest()
    return f"{head}\n[all {digest}]\n{tail}"


# Objects that are not JSON


def _plain(value: Any) -> Any:
    """Return an object as JSON can hold it; nothing where its text says nothing."""
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return dump()
    if isinstance(value, Set):
        return frozenset(value)
    return list(value) if isinstance(value, Sequence) else _object_text(value)


def _object_text(value: object) -> str:
    """Return the text of an object; nothing where that is only its type and address."""
    kind = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return ""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - a class may raise anything
        return ""
    return "" if _ADDRESS.search(text) else text


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
    """Return one argument as text, where not all can be encoded."""
    try:
        return _encode_arguments(value).decode()
    except Exception:  # noqa: BLE001 - a class may raise anything
        return (_object_text(value) or _type_placeholder(value)).encode("utf-8", "replace").decode()


# The object of a method


class _TrackedObject(weakref.ref[Any]):
    __slots__ = ("number",)
    number: int


_tracked: dict[int, _TrackedObject] = {}


def _identity_of(value: object) -> object:
    """Return a text for the identity of an object: its content may change with every call."""
    address = id(value)
    tracked = _tracked.get(address)
    if tracked is None or tracked() is not value:
        try:
            tracked = _TrackedObject(value, lambda gone: _forget(address, gone))
        except TypeError:
            return value  # without weak references, its content is compared
        tracked.number = next(_numbers)
        _tracked[address] = tracked
    return f"{_type_placeholder(value)} {tracked.number}"


def _forget(address: int, gone: object) -> None:
    if _tracked.get(address) is gone:  # another object may have the address already
        del _tracked[address]
