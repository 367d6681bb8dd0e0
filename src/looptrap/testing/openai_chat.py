"""Chat Completions, as OpenAI writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from looptrap.testing.model_answer import CREATED_AT, ModelAnswer, Tokens, encode_json, event


def full_body(answer: ModelAnswer) -> dict[str, Any]:
    """Return the answer in one piece."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text or None,
        "refusal": None,
        "annotations": [],
    }
    if answer.calls:
        message["tool_calls"] = _calls(answer)
    return {
        "id": f"chatcmpl-{answer.number}",
        "object": "chat.completion",
        "created": CREATED_AT,
        "model": answer.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": _reason(answer),
            }
        ],
        "usage": usage(answer.tokens),
        "service_tier": "default",
    }


def stream(answer: ModelAnswer, body: dict[str, Any]) -> Iterator[bytes]:
    """Return the answer event by event; usage only where the request asked for it."""
    counted = (body.get("stream_options") or {}).get("include_usage") is True
    opening = {"role": "assistant", "content": "", "refusal": None}
    yield _chunk(answer, counted, opening)
    for word in answer.words():
        yield _chunk(answer, counted, {"content": word})
    for index, call in enumerate(_calls(answer)):
        arguments = call["function"]["arguments"]
        head = {**call, "function": {**call["function"], "arguments": ""}}
        yield _chunk(answer, counted, {"tool_calls": [{"index": index, **head}]})
        for part in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            delta = {"index": index, "function": {"arguments": part}}
            yield _chunk(answer, counted, {"tool_calls": [delta]})
    yield _chunk(answer, counted, {}, _reason(answer))
    if counted:
        yield event({**_envelope(answer), "choices": [], "usage": usage(answer.tokens)})
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


def _envelope(answer: ModelAnswer) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.number}",
        "object": "chat.completion.chunk",
        "created": CREATED_AT,
        "model": answer.model,
        "service_tier": "default",
    }


def _chunk(
    answer: ModelAnswer, counted: bool, delta: dict[str, Any], reason: str | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    # OpenAI sends a null in every chunk but the last to those who asked for usage.
    usage_field = {"usage": None} if counted else {}
    return event({**_envelope(answer), "choices": [choice], **usage_field})


def _calls(answer: ModelAnswer) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{answer.number}_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": encode_json(call.arguments).decode()},
        }
        for index, call in enumerate(answer.calls)
    ]


def _reason(answer: ModelAnswer) -> str:
    return "tool_calls" if answer.calls else "stop"
