"""Chat Completions, as OpenAI writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from looptrap.testing.said import CREATED, Said, Tokens, encode, event


def whole(said: Said) -> dict[str, Any]:
    """Return the answer in one piece."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": said.text or None,
        "refusal": None,
        "annotations": [],
    }
    if said.calls:
        message["tool_calls"] = _calls(said)
    return {
        "id": f"chatcmpl-{said.number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": said.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": _reason(said),
            }
        ],
        "usage": usage(said.tokens),
        "service_tier": "default",
    }


def stream(said: Said, body: dict[str, Any]) -> Iterator[bytes]:
    """Return the answer event by event; usage only where the request asked for it."""
    counted = (body.get("stream_options") or {}).get("include_usage") is True
    opening = {"role": "assistant", "content": "", "refusal": None}
    yield _chunk(said, counted, opening)
    for word in said.words():
        yield _chunk(said, counted, {"content": word})
    for index, call in enumerate(_calls(said)):
        arguments = call["function"]["arguments"]
        head = {**call, "function": {**call["function"], "arguments": ""}}
        yield _chunk(said, counted, {"tool_calls": [{"index": index, **head}]})
        for part in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            delta = {"index": index, "function": {"arguments": part}}
            yield _chunk(said, counted, {"tool_calls": [delta]})
    yield _chunk(said, counted, {}, _reason(said))
    if counted:
        yield event({**_envelope(said), "choices": [], "usage": usage(said.tokens)})
    yield b"data: [DONE]\n\n"


def usage(tokens: Tokens) -> dict[str, Any]:
    """Return the counts in the older of OpenAI's two shapes."""
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def error(status: int) -> dict[str, Any]:
    """Return OpenAI's error body."""
    kinds = {401: "invalid_request_error", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    message = f"The fake provider was told to answer {status}."
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _envelope(said: Said) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{said.number}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": said.model,
        "service_tier": "default",
    }


def _chunk(said: Said, counted: bool, delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    # OpenAI sends a null in every chunk but the last to those who asked for usage.
    usage_field = {"usage": None} if counted else {}
    return event({**_envelope(said), "choices": [choice], **usage_field})


def _calls(said: Said) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{said.number}_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": encode(call.arguments).decode()},
        }
        for index, call in enumerate(said.calls)
    ]


def _reason(said: Said) -> str:
    return "tool_calls" if said.calls else "stop"
