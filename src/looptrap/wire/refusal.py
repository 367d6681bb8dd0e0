"""The server's own refusals and their texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from looptrap.wire.exchange import Exchange
    from looptrap.wire.header_fields import Field

RefusalBuilder = Callable[["Exchange[Any] | None", int, str, str], tuple[list["Field"], bytes]]
"""(exchange if its head was read, status, code, message) → headers and body of the answer."""


class RequestRefused(Exception):  # noqa: N818 - the expected end of a bad request, not a fault of ours
    """The request is refused; the connection closes after the answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def malformed_request(what: str) -> RequestRefused:
    """Return the refusal of a request that breaks the rules of HTTP/1.1."""
    return RequestRefused(400, "malformed_request", f"Malformed HTTP request: {what}.")


def json_refusal(
    exchange: Exchange[Any] | None,  # noqa: ARG001 - the shape of `RefusalBuilder`
    status: int,
    code: str,
    message: str,
) -> tuple[list[Field], bytes]:
    """Return headers and body in OpenAI's error format."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    headers = [(b"Content-Type", b"application/json")]
    if status == 503:
        headers.append((b"Retry-After", b"1"))
    return headers, json.dumps({"error": error}).encode()


def request_timed_out(part: str, seconds: float) -> RequestRefused:
    """Return the refusal of a request whose head or body came too slowly."""
    message = f"The request's {part} was awaited for {seconds:g} s."
    return RequestRefused(408, "request_timeout", message)


def overloaded(why: str) -> RequestRefused:
    """Return the refusal of a request for lack of room."""
    return RequestRefused(503, "overloaded", f"{why} Try again later.")
