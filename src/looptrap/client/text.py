"""Arguments and results of tool functions as texts, as a history would have them."""

from __future__ import annotations

import inspect
import re
import weakref
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from typing import Any

import msgspec

from looptrap.client.handed import handed_names, is_context
from looptrap.detect.canonical import normalise
from looptrap.detect.failure import failure_of
from looptrap.detect.mask import mask, mask_result
from looptrap.detect.trajectory import COMPARED

ARGUMENTS, RESULT = 2_000, 1_000
"""So much is kept of the beginning of a long text: about what the signals read of it."""

TAIL = 400
"""So much of its end; a digest stands for all of it."""

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")
"""In what an object says of itself: where it lies, and then mostly not what it holds."""

_numbers = count(1)


class Arguments:
    """Spells the arguments of one function: equal calls alike, however they are written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature: inspect.Signature | None = None
        with suppress(ValueError):  # some that are written in C have none
            self._signature = inspect.signature(function)
        self._handed = handed_names(function)

    def spell(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
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
            alone = {name: _alone(value) for name, value in plain.items()}
            text = _encode_arguments(alone).decode()
        return _short_arguments(text)

    def _told(self, name: str, value: Any) -> Any:
        if name in self._handed or is_context(type(value)):
            return _stand_in(value)
        return _followed(value) if name == "self" else value


def result_text(value: object) -> str:
    """Return what a tool answered; what cannot be read is never the same as before."""
    if isinstance(value, str):
        return _short_result(value)
    try:
        text = _encode_results(value).decode()
    except Exception:  # noqa: BLE001 - whatever somebody's own class raises
        text = _own_words(value) or _something_new(value)
    return _short_result(text)


def failure_text(error: BaseException) -> str:
    """Return what a tool raised."""
    return _short_result(f"{type(error).__name__}: {_own_words(error)}")


def _short_arguments(text: str) -> str:
    """Return arguments; of long ones their beginning, their end, and a digest of all."""
    if len(text) <= ARGUMENTS + TAIL:
        return text
    return _joined(text[:ARGUMENTS], text.encode("utf-8", "surrogatepass"), text[-TAIL:])


def _short_result(text: str) -> str:
    """Return a result; of a long one what it is compared by in histories, masked."""
    if len(text) <= RESULT + TAIL:
        return text
    # Masked before it is cut, so that a number longer than before shifts nothing.
    masking = mask_result if failure_of(text) is None else mask
    masked, end = masking(text[:COMPARED]), masking(text[-2 * TAIL :])[-TAIL:]
    return _joined(masked[:RESULT], normalise([masked]), end[end.find("\n") + 1 :])


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
    return list(value) if isinstance(value, Sequence) else _own_words(value)


def _own_words(value: object) -> str:
    """Return what an object says of itself; nothing where that is only its kind and place."""
    kind = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return ""
    try:
        words = str(value)
    except Exception:  # noqa: BLE001 - whatever somebody's own class raises
        return ""
    return "" if _ADDRESS.search(words) else words


def _stand_in(value: object) -> str:
    return f"<{type(value).__qualname__}>"


def _something_new(value: object) -> str:
    return f"{_stand_in(value)} {next(_numbers)}"


_encode_arguments = msgspec.json.Encoder(
    order="deterministic", enc_hook=lambda value: _plain(value) or _stand_in(value)
).encode
_encode_results = msgspec.json.Encoder(
    order="deterministic", enc_hook=lambda value: _plain(value) or _something_new(value)
).encode


def _alone(value: Any) -> str:
    """Return one argument as text, where not all can be written: the others stay as ever."""
    try:
        return _encode_arguments(value).decode()
    except Exception:  # noqa: BLE001 - whatever somebody's own class raises
        return (_own_words(value) or _stand_in(value)).encode("utf-8", "replace").decode()


# The object that a method is called of


class _Known(weakref.ref[Any]):
    """An object that was seen, and its number for as long as it lives."""

    __slots__ = ("number",)
    number: int


_known: dict[int, _Known] = {}


def _followed(value: object) -> object:
    """Return what stands for an object, so that the same call of another is another call.

    By its identity: what it holds may change with every call.
    """
    place = id(value)
    known = _known.get(place)
    if known is None or known() is not value:
        try:
            known = _Known(value, lambda gone: _forget(place, gone))
        except TypeError:
            return value  # it cannot be followed: what it holds tells it from others
        known.number = next(_numbers)
        _known[place] = known
    return f"{_stand_in(value)} {known.number}"


def _forget(place: int, gone: object) -> None:
    if _known.get(place) is gone:  # another object may lie there already
        del _known[place]
