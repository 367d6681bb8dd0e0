"""Exceptions by the names of their classes: `package.Class`, or `package` as its top-level name.

The most telling class along an exception's line of descent decides, so a name here speaks for its
subclasses too, unless they are named themselves.
"""

from __future__ import annotations

from looptrap.retry.failure import Failure

CONNECTION = Failure("server", "connection", trips="provider")
DROPPED = Failure("server", "dropped", trips="provider")
PROTOCOL = Failure("server", "protocol", trips="provider")
TIMEOUT = Failure("server", "timeout", is_timeout=True, trips="provider")
BUSY = Failure("server", "busy")
"""Our own side had no connection to spare."""
TLS = Failure("permanent", "tls")
"""A certificate that does not hold: it will not hold in a second either."""
BAD_OUTPUT = Failure("permanent", "bad_output")
"""What the model wrote cannot be read: the same prompt is never the remedy."""
BAD_REQUEST = Failure("permanent", "bad_request")
"""The request never left: it cannot be sent as it is."""
CANCELLED = Failure("permanent", "cancelled")
UNKNOWN = Failure("permanent", "unknown")
"""Most likely a bug, and a bug is not retried."""

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
_PARSING = {
    "json.JSONDecodeError": BAD_OUTPUT,
    "msgspec.DecodeError": BAD_OUTPUT,
    "msgspec.ValidationError": BAD_OUTPUT,
    "pydantic.ValidationError": BAD_OUTPUT,
    "pydantic_core.ValidationError": BAD_OUTPUT,
}
_PYTHON = {
    "builtins.TimeoutError": TIMEOUT,
    "builtins.ConnectionError": CONNECTION,
    "asyncio.CancelledError": CANCELLED,
    "asyncio.IncompleteReadError": DROPPED,
    "builtins.KeyboardInterrupt": CANCELLED,
    "builtins.GeneratorExit": CANCELLED,
    "concurrent.CancelledError": CANCELLED,
    "concurrent.TimeoutError": TIMEOUT,
    "http.IncompleteRead": DROPPED,
    "http.RemoteDisconnected": DROPPED,
    "http.HTTPException": PROTOCOL,
    "socket.gaierror": CONNECTION,
    "ssl.SSLCertVerificationError": TLS,
    "ssl.SSLError": CONNECTION,
    "urllib.URLError": CONNECTION,
}
_REQUESTS = {
    "requests.ConnectTimeout": TIMEOUT,
    "requests.Timeout": TIMEOUT,
    "requests.ConnectionError": CONNECTION,
    "requests.RetryError": CONNECTION,
    "requests.ChunkedEncodingError": DROPPED,
    "requests.ContentDecodingError": PROTOCOL,
    "requests.InvalidJSONError": BAD_OUTPUT,
    "requests.RequestException": BAD_REQUEST,
    "urllib3.ConnectTimeoutError": TIMEOUT,
    "urllib3.ReadTimeoutError": TIMEOUT,
    "urllib3.NewConnectionError": CONNECTION,
    "urllib3.MaxRetryError": CONNECTION,
    "urllib3.ProtocolError": DROPPED,
    "urllib3.SSLError": CONNECTION,
}
_AIOHTTP = {
    "aiohttp.ServerTimeoutError": TIMEOUT,
    "aiohttp.ServerDisconnectedError": DROPPED,
    "aiohttp.ClientPayloadError": DROPPED,
    "aiohttp.ServerFingerprintMismatch": TLS,
    "aiohttp.ClientConnectorCertificateError": TLS,
    "aiohttp.ClientConnectionError": CONNECTION,
    "aiohttp.ContentTypeError": BAD_OUTPUT,
    "aiohttp.ClientError": BAD_REQUEST,
}
_LOOPTRAP = {
    "looptrap.LoopDetectedError": Failure("permanent", "loop_detected"),
    "looptrap.BudgetExceededError": Failure("permanent", "budget_exceeded"),
    "looptrap.RateLimitedError": Failure("rate_limit", "rate_limited"),
    # Their own attempts are spent: more of ours would multiply them.
    "looptrap.AllProvidersFailed": Failure("permanent", "all_providers_failed"),
    "looptrap.GiveUp": Failure("permanent", "give_up"),
    "looptrap.IdempotencyError": Failure("permanent", "idempotency"),
    "looptrap.LooptrapError": Failure("permanent", "bad_request"),
}

BY_NAME: dict[str, Failure] = {
    **{f"{package}.{name}": f for package in ("openai", "anthropic") for name, f in _SDK.items()},
    **{f"{p}.{name}": f for p in ("httpx", "httpx2", "httpcore") for name, f in _HTTPX.items()},
    "httpcore2.TimeoutException": TIMEOUT,
    "httpcore2.NetworkError": CONNECTION,
    "openai.LengthFinishReasonError": BAD_OUTPUT,
    "openai.ContentFilterFinishReasonError": Failure("permanent", "content_policy"),
    "google.UnknownApiResponseError": DROPPED,
    **_PARSING,
    **_PYTHON,
    **_REQUESTS,
    **_AIOHTTP,
    **_LOOPTRAP,
}

UPSTREAM: dict[str, Failure] = {
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
