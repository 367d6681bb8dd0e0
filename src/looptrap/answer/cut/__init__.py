"""Cut a stream that has begun: the last bytes, in the form in which the dialect ends one.

`stop` ends it as if the model had finished, and leaves the text the model's own; `block` with an
error. One module a dialect, each with the same two functions: finished(…) and failed(…).
"""

from __future__ import annotations

from typing import Any, Protocol

from looptrap.answer.cut import (
    anthropic,
    gemini,
    openai_chat,
    openai_completions,
    openai_responses,
)
from looptrap.answer.hearing import Hearing
from looptrap.answer.refuse import refusal
from looptrap.call.content import UNREADABLE
from looptrap.call.model import Call, Dialect
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict


class StreamEndWriter(Protocol):
    """Writes the end of a stream of one dialect; its ear knows what has been sent."""

    def finished(self, ear: Any, /) -> bytes:
        """Return the events with which a model finishes."""

    def failed(self, ear: Any, body: bytes, /) -> bytes:
        """Return the events that report a failure, from the body of a refusal."""


WRITERS: dict[Dialect, StreamEndWriter] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "openai_completions": openai_completions,
    "anthropic": anthropic,
    "gemini": gemini,
}


def ending(
    call: Call, hearing: Hearing, verdict: Verdict, *, request_id: str, block_status: int
) -> bytes | None:
    """Return what ends a stream of which only complete events have been sent.

    None where that cannot be done well: it ends already, or a tool call is under way.
    """
    writer, ear, opening = WRITERS[call.dialect], hearing.ear, hearing.array_opening
    try:
        if not ear.can_end:
            return None
        if verdict.action is Action.STOP:
            end = writer.finished(ear)
        else:
            answer = refusal(
                call, verdict, shadow=None, request_id=request_id, block_status=block_status
            )
            end = writer.failed(ear, answer.body)
    except UNREADABLE:
        return None  # what was sent is no JSON in a part that nobody needed until now
    if opening is not None:
        return opening + gemini.as_element(end) + b"\n]"
    return end if call.dialect == "gemini" else _comment(verdict) + end


def _comment(verdict: Verdict) -> bytes:
    """Return a line for whoever looks at the bytes; Google's SDK alone does not skip it."""
    signals = " ".join(evidence.signal for evidence in verdict.evidence)
    return f": looptrap {verdict.action.value} {signals}\n\n".encode()
