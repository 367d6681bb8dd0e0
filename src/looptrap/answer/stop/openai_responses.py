"""The last response of a Responses run."""

from __future__ import annotations

from typing import Any

from looptrap.answer.answer import encode, named_events
from looptrap.answer.stop.openai_chat import demands_tool
from looptrap.call.model import Call

USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def takes_text(sent: dict[str, Any]) -> bool:
    """Say whether plain text answers the request."""
    text = sent.get("text")
    wanted = text.get("format") if isinstance(text, dict) else None
    if isinstance(wanted, dict) and wanted.get("type", "text") != "text":
        return False
    return not demands_tool(sent.get("tool_choice"))


def whole(call: Call, sent: dict[str, Any], text: str, request_id: str, now: float) -> bytes:
    """Return the response in one piece."""
    return encode(_completed(call, sent, text, request_id, now))


def stream(call: Call, sent: dict[str, Any], text: str, request_id: str, now: float) -> bytes:
    """Return the response as a stream of events."""
    begun = _response(call, sent, request_id, now)
    empty, full = _part(""), _part(text)
    item = {"item_id": _item_id(request_id), "output_index": 0, "content_index": 0}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("created", {"response": begun}),
        ("in_progress", {"response": begun}),
        ("output_item.added", {"output_index": 0, "item": _item(request_id, "in_progress", [])}),
        ("content_part.added", {**item, "part": empty}),
        ("output_text.delta", {**item, "delta": text, "logprobs": []}),
        ("output_text.done", {**item, "text": text, "logprobs": []}),
        ("content_part.done", {**item, "part": full}),
        ("output_item.done", {"output_index": 0, "item": _item(request_id, "completed", [full])}),
        ("completed", {"response": _completed(call, sent, text, request_id, now)}),
    ]
    return named_events(
        {"type": f"response.{name}", "sequence_number": number, **data}
        for number, (name, data) in enumerate(steps)
    )


def _completed(
    call: Call, sent: dict[str, Any], text: str, request_id: str, now: float
) -> dict[str, Any]:
    return {
        **_response(call, sent, request_id, now),
        "status": "completed",
        "completed_at": int(now),
        "output": [_item(request_id, "completed", [_part(text)])],
        "usage": USAGE,
    }


def _response(call: Call, sent: dict[str, Any], request_id: str, now: float) -> dict[str, Any]:
    return {
        "id": f"resp_{request_id}",
        "object": "response",
        "created_at": int(now),
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": call.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": sent.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        "user": None,
    }


def _item(request_id: str, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": _item_id(request_id),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _item_id(request_id: str) -> str:
    return f"msg_{request_id}"


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
