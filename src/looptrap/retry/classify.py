"""Classifies exceptions: failed answers, network failures, tool failures and bugs.

No vendor's package is imported: exceptions are recognised by the names of their classes.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from looptrap.retry.failure import (
    MAX_MESSAGE_CHARS,
    Failure,
    classify_answer,
    classify_details,
    classify_event,
    parse_error_body,
    retry_after_of,
)
from looptrap.wire.exchange import UpstreamError

__all__ = [
    "DEFAULT_CLASSIFIERS",
    "Classifier",
    "Classifiers",
    "classify",
    "classify_answer",
    "classify_event",
    "classify_tool",
    "retry_after_of",
]


def classify_tool(exit_code: int | None = None, status: int | None = None) -> Failure | None:
    """Return the failure of a tool by its exit code or HTTP status; None where neither is one."""
    if exit_code:
        # `subprocess` reports a signal as a negative code.
        reason = f"exit_{exit_code}" if exit_code > 0 else f"signal_{-exit_code}"
        return Failure("tool", reason, f"the tool ended with exit code {exit_code}")
    if status is not None and status >= 400:
        return Failure("tool", f"http_{status}", f"the tool answered with status {status}")
    return None


CONNECTION = Failure("server", "connection", trips="provider")
DROPPED = Failure("server", "dropped", trips="provider")
PROTOCOL = Failure("server", "protocol", trips="provider")
TIMEOUT = Failure("server", "timeout", is_timeout=True, trips="provider")
BUSY = Failure("server", "busy")
"""The local connection pool is exhausted."""
TLS = Failure("permanent", "tls")
"""An invalid certificate: a retry does not help."""
BAD_OUTPUT = Failure("permanent", "bad_output")
"""The model's output cannot be parsed: the same prompt does not help."""
BAD_REQUEST = Failure("permanent", "bad_request")
"""The request was not sent, and cannot be."""
CANCELLED = Failure("permanent", "cancelled")
UNKNOWN = Failure("permanent", "unknown")
"""Most likely a bug, which is not retried."""

_SDK = {
    "APITimeoutError": TIMEOUT,
    "APIConnectionError": CONNECTION,
    "APIResponseValidationError": BAD_OUTPUT,
}
_HTTPX = {
    "PoolTimeout": BUSY,
    "TimeoutException": TIMEOUT,
    "ReadError": DROPPED,
    "RemoteProtocolError": DROPPED,
    "LocalProtocolError": BAD_REQUEST,
    "NetworkError": CONNECTION,
    "ProxyError": CONNECTION,
    "UnsupportedProtocol": BAD_REQUEST,
    "DecodingError": PROTOCOL,
    "InvalidURL": BAD_REQUEST,
}

_EXCEPTIONS_BY_FAILURE = {
    TIMEOUT: "aiohttp.ServerTimeoutError builtins.TimeoutError concurrent.TimeoutError"
    " httpcore2.TimeoutException requests.ConnectTimeout requests.Timeout"
    " urllib3.ConnectTimeoutError urllib3.ReadTimeoutError",
    CONNECTION: "aiohttp.ClientConnectionError builtins.ConnectionError httpcore2.NetworkError"
    " requests.ConnectionError requests.RetryError socket.gaierror ssl.SSLError urllib.URLError"
    " urllib3.MaxRetryError urllib3.NewConnectionError urllib3.SSLError",
    DROPPED: "aiohttp.ClientPayloadError aiohttp.ServerDisconnectedError"
    " asyncio.IncompleteReadError google.UnknownApiResponseError http.IncompleteRead"
    " http.RemoteDisconnected requests.ChunkedEncodingError urllib3.ProtocolError",
    PROTOCOL: "http.HTTPException requests.ContentDecodingError",
    TLS: "aiohttp.ClientConnectorCertificateError aiohttp.ServerFingerprintMismatch"
    " ssl.SSLCertVerificationError",
    BAD_OUTPUT: "aiohttp.ContentTypeError json.JSONDecodeError msgspec.DecodeError"
    " msgspec.ValidationError openai.LengthFinishReasonError pydantic.ValidationError"
    " pydantic_core.ValidationError requests.InvalidJSONError",
    BAD_REQUEST: "aiohttp.ClientError requests.RequestException",
    CANCELLED: "asyncio.CancelledError builtins.GeneratorExit builtins.KeyboardInterrupt"
    " concurrent.CancelledError",
}

FAILURE_BY_EXCEPTION: dict[str, Failure] = {
    **{f"{package}.{name}": f for package in ("openai", "anthropic") for name, f in _SDK.items()},
    **{f"{p}.{name}": f for p in ("httpx", "httpx2", "httpcore") for name, f in _HTTPX.items()},
    **{name: f for f, names in _EXCEPTIONS_BY_FAILURE.items() for name in names.split()},
    "openai.ContentFilterFinishReasonError": Failure("permanent", "content_policy"),
    "looptrap.LoopDetectedError": Failure("permanent", "loop_detected"),
    "looptrap.BudgetExceededError": Failure("permanent", "budget_exceeded"),
    "looptrap.RateLimitedError": Failure("rate_limit", "rate_limited"),
    # These have spent their own attempts: more would multiply them.
    "looptrap.AllProvidersFailed": Failure("permanent", "all_providers_failed"),
    "looptrap.GiveUp": Failure("permanent", "give_up"),
    "looptrap.IdempotencyError": Failure("permanent", "idempotency"),
    "looptrap.LooptrapError": Failure("permanent", "bad_request"),
}

FAILURE_BY_UPSTREAM_KIND: dict[str, Failure] = {
    "connect": CONNECTION,
    "connect_timeout": TIMEOUT,
    "first_byte_timeout": TIMEOUT,
    "idle_timeout": TIMEOUT,
    "reset": DROPPED,
    "protocol": PROTOCOL,
    "tls": Failure("server", "tls", trips="provider"),
    "busy": BUSY,
}
"""The kinds of the wire's own `UpstreamError`."""


_UNREACHABLE = frozenset(
    (errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETRESET)
)
_CODE_IS_STATUS = frozenset(("google", "urllib"))
"""Packages in whose exceptions `code` is the status; elsewhere it is a word, or an exit code."""
_MAX_CAUSES = 10


def classify(error: BaseException, now: float | None = None) -> Failure:
    """Return the failure that an exception means; an unknown one is permanent.

    `now`, in seconds since 1970, is for a Retry-After date in an answer without a Date header.
    """
    if isinstance(error, BaseExceptionGroup):
        return _worst([classify(part, now) for part in error.exceptions])
    names = _names(error)
    failure = _of_tool(error, names) or _of_answer(error, names, now) or _of_network(error, names)
    if failure.message:
        return failure
    return msgspec.structs.replace(failure, message=str(error)[:MAX_MESSAGE_CHARS])


def _names(error: BaseException) -> list[str]:
    """Return `package.Class` for an exception's class and its base classes."""
    return [f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(error).__mro__]


def _worst(failures: list[Failure]) -> Failure:
    """Return a permanent failure if there is one, else the first."""
    return next((failure for failure in failures if not failure.is_retryable), failures[0])


def _of_tool(error: BaseException, names: list[str]) -> Failure | None:
    if "subprocess.CalledProcessError" in names:
        return classify_tool(exit_code=getattr(error, "returncode", None))
    if "subprocess.TimeoutExpired" in names:
        return Failure("tool", "timeout", is_timeout=True)
    return None


def _of_answer(error: BaseException, names: list[str], now: float | None) -> Failure | None:
    """Return the failure of the answer in an exception; None when there is none."""
    response = getattr(error, "response", None)
    status = _status(error, response, names)
    body = _body(error, response)
    if status is not None and status >= 400:
        headers = getattr(error, "headers", None) or getattr(response, "headers", None)
        return classify_answer(status, headers, body, now)
    if isinstance(body, dict) and any(name.endswith(".APIError") for name in names):
        # An error inside a stream: the status, if any, is the 200 it began with.
        return (
            classify_details(None, parse_error_body(body))
            if names[0] not in FAILURE_BY_EXCEPTION
            else None
        )
    return None


def _status(error: BaseException, response: Any, names: list[str]) -> int | None:
    candidates = [getattr(error, "status_code", None), getattr(error, "status", None)]
    if any(name.partition(".")[0] in _CODE_IS_STATUS for name in names):
        candidates.append(getattr(error, "code", None))
    candidates += [getattr(response, "status_code", None), getattr(response, "status", None)]
    return next((status for status in candidates if isinstance(status, int)), None)


def _body(error: BaseException, response: Any) -> object:
    """Return the body as far as it was read: nothing here may use the network."""
    for source, name in ((error, "body"), (error, "details"), (response, "_content")):
        body = getattr(source, name, None)
        if isinstance(body, (dict, list, bytes, str)) and body:
            return body
    return b""


def _of_network(error: BaseException, names: list[str]) -> Failure:
    if isinstance(error, UpstreamError):
        return FAILURE_BY_UPSTREAM_KIND[error.kind]
    known = next(
        (FAILURE_BY_EXCEPTION[name] for name in names if name in FAILURE_BY_EXCEPTION), None
    )
    if known is CONNECTION:
        return _connection(error)
    if known is not None:
        return known
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return CONNECTION
    return UNKNOWN if not isinstance(error, UnicodeDecodeError) else BAD_OUTPUT


def _connection(error: BaseException) -> Failure:
    """Return why there was no connection, by the causes that libraries wrap."""
    for cause in _causes(error):
        names = _names(cause)
        if "ssl.SSLCertVerificationError" in names:
            return TLS
        if "builtins.TimeoutError" in names:
            return TIMEOUT
    return CONNECTION


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: object = error
    for _ in range(_MAX_CAUSES):
        if not isinstance(cause, BaseException):
            return
        yield cause
        # urllib has the cause in `reason`.
        cause = cause.__cause__ or cause.__context__ or getattr(cause, "reason", None)


Classifier = Callable[[BaseException], Failure | None]
"""Returns the failure that an exception means; None leaves it to the next."""


class Classifiers(msgspec.Struct, frozen=True):
    """Own classifiers in order; `classify` decides what none of them knows."""

    own: tuple[Classifier, ...] = ()

    def classify(self, error: BaseException, now: float | None = None) -> Failure:
        """Return the result of the first classifier that knows the exception; see `classify`."""
        for classifier in self.own:
            failure = classifier(error)
            if failure is not None:
                return failure
        return classify(error, now)

    def before(self, *classifiers: Classifier) -> Classifiers:
        """Return the same with these asked first."""
        return Classifiers((*classifiers, *self.own))


DEFAULT_CLASSIFIERS = Classifiers()
