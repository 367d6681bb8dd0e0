"""The last content of a Gemini run."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from looptrap.answer.answer import encode, events
from looptrap.call.model import Call

SCHEMAS = ("responseSchema", "response_schema", "responseJsonSchema", "response_json_schema")

USAGE = {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}


def takes_text(sent: dict[str, Any]) -> bool:
    """Say whether plain text answers the request."""
    config = _table(sent, "generationConfig", "generation_config")
    if _field(config, "responseMimeType", "response_mime_type") not in (None, "", "text/plain"):
        return False
    if _field(config, *SCHEMAS):
        return False
    modalities = _field(config, "responseModalities", "response_modalities")
    if isinstance(modalities, list) and modalities and "TEXT" not in modalities:
        return False
    tools = _table(sent, "toolConfig", "tool_config")
    calling = _table(tools, "functionCallingConfig", "function_calling_config")
    return calling.get("mode") != "ANY"


def is_event_stream(call: Call) -> bool:
    """Say whether a streaming client reads events; without `alt=sse` it reads a JSON array."""
    query = parse_qs(call.request.query)
    return "sse" in query.get("alt", []) + query.get("$alt", [])


def whole(call: Call, _sent: dict[str, Any], text: str, request_id: str, _now: float) -> bytes:
    """Return the content in one piece."""
    return encode(_response(call, text, request_id))


def stream(call: Call, _sent: dict[str, Any], text: str, request_id: str, _now: float) -> bytes:
    """Return the content as a stream of one event, or as an array of one."""
    response = [_response(call, text, request_id)]
    return events(response) if is_event_stream(call) else encode(response)


def _response(call: Call, text: str, request_id: str) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text}]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": USAGE,
        "modelVersion": call.model,
        "responseId": request_id,
    }


def _field(table: dict[str, Any], *names: str) -> Any:
    return next((table[name] for name in names if table.get(name) is not None), None)


def _table(table: dict[str, Any], *names: str) -> dict[str, Any]:
    found = _field(table, *names)
    return found if isinstance(found, dict) else {}
