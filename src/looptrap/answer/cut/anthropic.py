"""The end of a stream of Messages."""

from __future__ import annotations

from looptrap.answer.answer import named_events
from looptrap.answer.hearing.anthropic import MessageEar


def finished(ear: MessageEar) -> bytes:
    """Return the end of every block that is open, and of the message."""
    blocks = [{"type": "content_block_stop", "index": index} for index in ear.open]
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    usage = {"output_tokens": ear.tokens}
    last = {"type": "message_delta", "delta": ending, "usage": usage}
    return named_events([*blocks, last, {"type": "message_stop"}])


def failed(_ear: MessageEar, body: bytes) -> bytes:
    """Return the event that reports an error."""
    return b"event: error\ndata: %b\n\n" % body
