"""The last message of a Messages run."""

from __future__ import annotations

from typing import Any

from looptrap.answer.answer import encode, named_events
from looptrap.call.model import Call

USAGE = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}


def takes_text(sent: dict[str, Any]) -> bool:
    """Say whether plain text answers the request."""
    choice, output = sent.get("tool_choice"), sent.get("output_config")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        return False
    if sent.get("output_format") or (isinstance(output, dict) and output.get("format")):
        return False
    # A prefill wants its own sentence (often its own JSON) continued.
    messages = sent.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return not (isinstance(last, dict) and last.get("role") == "assistant")


def whole(call: Call, _sent: dict[str, Any], text: str, request_id: str, _now: float) -> bytes:
    """Return the message in one piece."""
    message = _message(call, request_id)
    message["content"] = [{"type": "text", "text": text}]
    message["stop_reason"] = "end_turn"
    return encode(message)


def stream(call: Call, _sent: dict[str, Any], text: str, request_id: str, _now: float) -> bytes:
    """Return the message as a stream of events."""
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": text}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    return named_events(
        [
            {"type": "message_start", "message": _message(call, request_id)},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": USAGE},
            {"type": "message_stop"},
        ]
    )


def _message(call: Call, request_id: str) -> dict[str, Any]:
    return {
        "id": f"msg_{request_id}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }
