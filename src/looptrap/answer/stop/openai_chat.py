"""The last message of a Chat Completions run."""

from __future__ import annotations

from typing import Any

from looptrap.answer.answer import encode, events
from looptrap.call.model import Call

USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
DONE = b"data: [DONE]\n\n"


def takes_text(sent: dict[str, Any]) -> bool:
    """Say whether plain text answers the request."""
    wanted = sent.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type", "text") != "text":
        return False
    modalities = sent.get("modalities")
    if isinstance(modalities, list) and modalities != ["text"]:
        return False
    return not (
        demands_tool(sent.get("tool_choice")) or isinstance(sent.get("function_call"), dict)
    )


def demands_tool(choice: object) -> bool:
    """Say whether a `tool_choice` of OpenAI's leaves the model no other way than a tool call."""
    if isinstance(choice, dict):
        if choice.get("type") != "allowed_tools":
            return True
        allowed = choice.get("allowed_tools", choice)  # Responses has no wrapper
        return isinstance(allowed, dict) and allowed.get("mode") == "required"
    return choice == "required"


def number_of_choices(sent: dict[str, Any]) -> int:
    """Return how many answers the request asks for."""
    n = sent.get("n")
    return n if type(n) is int and 1 < n <= 128 else 1


def whole(call: Call, sent: dict[str, Any], text: str, request_id: str, now: float) -> bytes:
    """Return the message in one piece."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}
        for index in range(number_of_choices(sent))
    ]
    head = _head(call, "chat.completion", request_id, now)
    return encode({**head, "choices": choices, "usage": USAGE})


def stream(call: Call, sent: dict[str, Any], text: str, request_id: str, now: float) -> bytes:
    """Return the message as a stream of chunks."""
    head = _head(call, "chat.completion.chunk", request_id, now)
    options = sent.get("stream_options")
    with_usage = isinstance(options, dict) and options.get("include_usage") is True
    if with_usage:
        head["usage"] = None
    chunks = [
        {**head, "choices": [_choice(index, delta, reason)]}
        for index in range(number_of_choices(sent))
        for delta, reason in (
            ({"role": "assistant", "content": "", "refusal": None}, None),
            ({"content": text}, None),
            ({}, "stop"),
        )
    ]
    if with_usage:
        chunks.append({**head, "choices": [], "usage": USAGE})
    return events(chunks) + DONE


def _head(call: Call, kind: str, request_id: str, now: float) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{request_id}",
        "object": kind,
        "created": int(now),
        "model": call.model,
        "system_fingerprint": None,
    }


def _choice(index: int, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
