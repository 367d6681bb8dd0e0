"""Errors inside a stream that began with 200."""

from __future__ import annotations

import re

import msgspec

from looptrap.call.content import UNREADABLE
from looptrap.retry.classify.status import sort
from looptrap.retry.classify.told import told_by
from looptrap.retry.failure import Failure

_FAILED = ("error", "response.failed")
_begins_as_error = re.compile(
    rb'\s*\{\s*"(?:error"\s*:\s*[{"]|type"\s*:\s*"(?:error|response\.failed)")'
).match
_decode = msgspec.json.decode


def classify_event(data: bytes) -> Failure | None:
    """Return what the error in one event's `data` means; None for an event that is none."""
    if b"error" not in data and b"response.failed" not in data:
        return None
    try:
        document = _decode(data)
    except UNREADABLE:
        return sort(None, told_by(data)) if _begins_as_error(data) else None
    if isinstance(document, list) and document:
        document = document[0]
    if not isinstance(document, dict):
        return None
    if document.get("type") in _FAILED or document.get("error"):
        return sort(None, told_by(document))
    return None
