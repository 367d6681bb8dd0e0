"""The end of a stream of generateContent: one more response, as an event or as an element."""

from __future__ import annotations

import msgspec

from looptrap.answer.answer import events
from looptrap.answer.hearing.gemini import CandidateEar


def finished(ear: CandidateEar) -> bytes:
    """Return a last response that ends every candidate that is open."""
    nothing = {"role": "model", "parts": [{"text": ""}]}
    ends = [
        {"content": nothing, "finishReason": "STOP", "index": index} for index in sorted(ear.open)
    ]
    return events([{**msgspec.json.decode(ear.latest), "candidates": ends}])


def failed(_ear: CandidateEar, body: bytes) -> bytes:
    """Return the error as a response of its own."""
    return b"data: %b\n\n" % body


def as_element(event: bytes) -> bytes:
    """Return what an event says, for those who read an array."""
    return event.removeprefix(b"data: ").rstrip()
