"""`stop`: end a run with a last message of the dialect, as if the model had written it.

A framework that handles no error still ends its run on it. One module a dialect, each with the same
three functions: takes_text(sent), whole(…) and stream(…).
"""

from __future__ import annotations

from typing import Any, Protocol

from looptrap.answer.answer import EVENT_STREAM, JSON, Answer, described
from looptrap.answer.stop import (
    anthropic,
    gemini,
    openai_chat,
    openai_completions,
    openai_responses,
)
from looptrap.answer.wording import ended
from looptrap.call.content import UNREADABLE, decode, mend
from looptrap.call.model import Call, Dialect
from looptrap.policy.header import headers_of
from looptrap.policy.verdict import Verdict


class FinalMessageWriter(Protocol):
    """Writes the last message of one dialect."""

    def takes_text(self, sent: dict[str, Any], /) -> bool:
        """Say whether plain text answers the request."""

    def whole(
        self, call: Call, sent: dict[str, Any], text: str, request_id: str, now: float, /
    ) -> bytes:
        """Return the message in one piece."""

    def stream(
        self, call: Call, sent: dict[str, Any], text: str, request_id: str, now: float, /
    ) -> bytes:
        """Return the message as the dialect streams it."""


WRITERS: dict[Dialect, FinalMessageWriter] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "openai_completions": openai_completions,
    "anthropic": anthropic,
    "gemini": gemini,
}


def final_message(
    call: Call, verdict: Verdict, *, shadow: Verdict | None, request_id: str, now: float
) -> Answer | None:
    """Return the message that ends a run; None where no plain text can be the answer."""
    writer = WRITERS.get(call.dialect)
    if writer is None or not call.generates or call.opaque:
        return None
    sent = _sent(call)
    if sent is None or not writer.takes_text(sent):
        return None
    write = writer.stream if call.stream else writer.whole
    body = write(call, sent, ended(verdict), request_id, now)
    headers = headers_of(verdict, shadow)
    return Answer(200, described(headers, call.dialect, request_id, _content_type(call)), body)


def _sent(call: Call) -> dict[str, Any] | None:
    """Return the body that the call was read from; None where a part nobody needed is no JSON."""
    body = call.request.body
    for restored in (bytes, mend):
        try:
            sent = decode(restored(body))
        except UNREADABLE:
            continue
        return sent if isinstance(sent, dict) else None
    return None


def _content_type(call: Call) -> bytes:
    if not call.stream or (call.dialect == "gemini" and not gemini.is_event_stream(call)):
        return JSON
    return EVENT_STREAM
