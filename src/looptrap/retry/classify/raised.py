"""Exceptions: which of them tell of an answer, of the network, of a tool, or of a bug."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import msgspec

from looptrap.retry.classify.answer import classify_answer
from looptrap.retry.classify.library import (
    BAD_OUTPUT,
    BY_NAME,
    CONNECTION,
    TIMEOUT,
    TLS,
    UNKNOWN,
    UPSTREAM,
)
from looptrap.retry.classify.status import sort
from looptrap.retry.classify.told import LONGEST_MESSAGE, told_by
from looptrap.retry.classify.tool import classify_tool
from looptrap.retry.failure import Failure
from looptrap.wire.flight import UpstreamError

_UNREACHABLE = frozenset(
    (errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETRESET)
)
_CODE_IS_STATUS = frozenset(("google", "urllib"))
"""Packages whose exceptions call the status `code`; elsewhere that is a word, or an exit code."""
_LONGEST_DESCENT = 10


def classify(error: BaseException, now: float | None = None) -> Failure:
    """Return what an exception means; an unknown one is permanent.

    `now`, in seconds since 1970, is asked for only where an answer gives a date without its own.
    """
    if isinstance(error, BaseExceptionGroup):
        return _worst([classify(part, now) for part in error.exceptions])
    names = _names(error)
    failure = _of_tool(error, names) or _of_answer(error, names, now) or _of_network(error, names)
    if failure.message:
        return failure
    return msgspec.structs.replace(failure, message=str(error)[:LONGEST_MESSAGE])


def _names(error: BaseException) -> list[str]:
    """Return `package.Class` for an exception's class and those it descends from."""
    return [f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(error).__mro__]


def _worst(failures: list[Failure]) -> Failure:
    """Return the failure that helps least: where one part is permanent, so is the whole."""
    return next((failure for failure in failures if not failure.is_retryable), failures[0])


def _of_tool(error: BaseException, names: list[str]) -> Failure | None:
    if "subprocess.CalledProcessError" in names:
        return classify_tool(exit_code=getattr(error, "returncode", None))
    if "subprocess.TimeoutExpired" in names:
        return Failure("tool", "timeout", is_timeout=True)
    return None


def _of_answer(error: BaseException, names: list[str], now: float | None) -> Failure | None:
    """Return what the answer that an exception carries means; None when it carries none."""
    response = getattr(error, "response", None)
    status = _status(error, response, names)
    body = _body(error, response)
    if status is not None and status >= 400:
        headers = getattr(error, "headers", None) or getattr(response, "headers", None)
        return classify_answer(status, headers, body, now)
    if isinstance(body, dict) and any(name.endswith(".APIError") for name in names):
        # An error inside a stream: whatever status there is, is the 200 it began with.
        return sort(None, told_by(body)) if names[0] not in BY_NAME else None
    return None


def _status(error: BaseException, response: Any, names: list[str]) -> int | None:
    candidates = [getattr(error, "status_code", None), getattr(error, "status", None)]
    if any(name.partition(".")[0] in _CODE_IS_STATUS for name in names):
        candidates.append(getattr(error, "code", None))
    candidates += [getattr(response, "status_code", None), getattr(response, "status", None)]
    return next((status for status in candidates if isinstance(status, int)), None)


def _body(error: BaseException, response: Any) -> object:
    """Return the body as far as it has been read already: nothing here may touch the network."""
    for source, name in ((error, "body"), (error, "details"), (response, "_content")):
        body = getattr(source, name, None)
        if isinstance(body, (dict, list, bytes, str)) and body:
            return body
    return b""


def _of_network(error: BaseException, names: list[str]) -> Failure:
    if isinstance(error, UpstreamError):
        return UPSTREAM[error.kind]
    known = next((BY_NAME[name] for name in names if name in BY_NAME), None)
    if known is CONNECTION:
        return _connection(error)
    if known is not None:
        return known
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return CONNECTION
    return UNKNOWN if not isinstance(error, UnicodeDecodeError) else BAD_OUTPUT


def _connection(error: BaseException) -> Failure:
    """Return why there was no connection: libraries wrap what went wrong, some in themselves."""
    for cause in _causes(error):
        names = _names(cause)
        if "ssl.SSLCertVerificationError" in names:
            return TLS
        if "builtins.TimeoutError" in names:
            return TIMEOUT
    return CONNECTION


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: object = error
    for _ in range(_LONGEST_DESCENT):
        if not isinstance(cause, BaseException):
            return
        yield cause
        # urllib tells the cause as `reason`.
        cause = cause.__cause__ or cause.__context__ or getattr(cause, "reason", None)
