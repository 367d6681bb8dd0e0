"""Parses error bodies of OpenAI, Anthropic, Google and Looptrap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from looptrap.dialect.content import UNREADABLE

MAX_MESSAGE_CHARS = 300

_MAX_BODY_BYTES = 64 * 1024
_codes_in = re.compile(
    rb'"(?:error_code|code|type|status|error)"\s*:\s*"([A-Za-z_]{3,60})"'
).findall
_decode = msgspec.json.decode
_duration = re.compile(
    r"try again in (?:(\d{1,4})h)?(?:(\d{1,4})m(?!s))?(?:(\d{1,6}(?:\.\d+)?)(ms|s))?", re.IGNORECASE
).search

find_long_quota = re.compile(r"per_?day|daily|per_?month", re.IGNORECASE).search
"""Finds, in the name of a Google quota, that it is renewed daily or less often."""


class ErrorDetails(msgspec.Struct, frozen=True, gc=False):
    """The content of an error body."""

    codes: tuple[str, ...] = ()
    """Codes, types and states, in lower case, the most specific first."""
    message: str = ""
    status: int | None = None
    """The HTTP status in the body: in a stream there is no other."""
    refusal: str = ""
    """Looptrap's own reason."""
    retry_after: float | None = None
    quota_is_spent: bool | None = None
    """Whether a quota is spent for long, and not for a minute; None where the body does not say."""


NO_DETAILS = ErrorDetails()


def parse_error_body(body: object) -> ErrorDetails:
    """Return the details of a body, decoded or not; an unreadable one has none."""
    if isinstance(body, str):
        body = body.encode("utf-8", "replace")
    if isinstance(body, (bytes, bytearray, memoryview)):
        raw = bytes(body[:_MAX_BODY_BYTES])
        try:
            body = _decode(raw)
        except UNREADABLE:
            # Truncated, or a proxy's page: codes can still be found.
            codes = [code.decode().lower() for code in _codes_in(raw)]
            return ErrorDetails(tuple(codes), raw[:MAX_MESSAGE_CHARS].decode("utf-8", "replace"))
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return NO_DETAILS
    return _details_of(body, error_object(body))


def error_object(document: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a document that describes the error; all of it where it has no part."""
    response = document.get("response")
    outer = response if isinstance(response, dict) else document
    error = outer.get("error")
    if isinstance(error, dict):
        return error
    if isinstance(error, str):
        return {"code": error, "message": str(outer.get("error_description") or error)}
    return outer


def _details_of(document: dict[str, Any], error: dict[str, Any]) -> ErrorDetails:
    detail = document.get("detail")
    refusal = detail.get("error") if isinstance(detail, dict) else None
    message = error.get("message")
    message = message if isinstance(message, str) else ""
    details = list(_details(error))
    return ErrorDetails(
        tuple(code.lower() for code in _codes(error, details)),
        message[:MAX_MESSAGE_CHARS],
        _status(error.get("code")),
        refusal if isinstance(refusal, str) else "",
        _retry_delay(details, message),
        _quota_is_spent(details),
    )


def _details(error: dict[str, Any]) -> Iterator[dict[str, Any]]:
    details = error.get("details")
    for detail in details if isinstance(details, list) else [details]:
        if isinstance(detail, dict):
            yield detail


def _codes(error: dict[str, Any], details: list[dict[str, Any]]) -> Iterator[str]:
    named = [detail.get("error_code") or detail.get("reason") for detail in details]
    for code in (*named, error.get("code"), error.get("type"), error.get("status")):
        if isinstance(code, str):
            yield code


def _status(code: object) -> int | None:
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _retry_delay(details: list[dict[str, Any]], message: str) -> float | None:
    """Return the delay in Google's RetryInfo, or in OpenAI's message."""
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and re.fullmatch(r"\d{1,9}(\.\d+)?s", delay, re.ASCII):
            return float(delay[:-1])
    found = _duration(message)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, last, unit = found.groups()
    rest = float(last or 0) / (1000 if unit and unit.lower() == "ms" else 1)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + rest


def _quota_is_spent(details: list[dict[str, Any]]) -> bool | None:
    lists = [detail["violations"] for detail in details if "violations" in detail]
    violations = [
        violation
        for some in lists
        if isinstance(some, list)
        for violation in some
        if isinstance(violation, dict)
    ]
    if not violations:
        return None
    # A daily quota comes with RetryInfo as well, which does not help. A quota of 0 is a model that
    # the account does not have.
    return any(
        violation.get("quotaValue") == "0"
        or find_long_quota(f"{violation.get('quotaId')} {violation.get('quotaMetric')}") is not None
        for violation in violations
    )
