"""Refusals behind what frameworks raise: a vendor's exception, or one of their own around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from looptrap.client.refusal import refused
from looptrap.errors import RefusedError


def refusal_of(error: BaseException) -> RefusedError | None:
    """Return the refusal that an exception is, or was raised from; None where there is none."""
    for one in _causes(error):
        if isinstance(one, RefusedError):
            return one
        headers = _headers(one)
        for body in _bodies(one):
            if (refusal := refused(body, headers)) is not None:
                return refusal
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, what it was raised from, and so on."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__


def _headers(error: BaseException) -> Mapping[str, str]:
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    return headers if isinstance(headers, Mapping) else {}


def _bodies(error: BaseException) -> Iterator[object]:
    """Yield all that vendors keep of an answer's body, the fullest last.

    Anthropic has it in `body`, Google in `details`; OpenAI keeps only its `error`, and that is all
    there is of an error amid a stream.
    """
    body = getattr(error, "body", None)
    yield body
    yield getattr(error, "details", None)
    yield _decoded(getattr(error, "response", None))
    if isinstance(body, Mapping):
        yield {"detail": {"error": body.get("code"), "message": body.get("message")}}


def _decoded(response: Any) -> object:
    """Return the body of an answer; None where there is none, or it was not read to its end."""
    try:
        return response.json()
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None
