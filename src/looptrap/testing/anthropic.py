"""Messages, as Anthropic writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from looptrap.testing.model_answer import ModelAnswer, Tokens, encode_json, event


def full_body(answer: ModelAnswer) -> dict[str, Any]:
    """Return the answer in one piece."""
    return {
        "model": answer.model,
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "content": _blocks(answer),
        "stop_reason": _reason(answer),
        "stop_sequence": None,
        "usage": {**_input(answer.tokens), "output_tokens": answer.tokens.output},
    }


def stream(answer: ModelAnswer) -> Iterator[bytes]:
    """Return the answer event by event."""
    opening = {**full_body(answer), "content": [], "stop_reason": None}
    # The count of the output is not known yet: Anthropic starts with a token or so.
    opening["usage"] = {**_input(answer.tokens), "output_tokens": 1}
    yield _event("message_start", message=opening)
    yield _event("ping")
    for index, block in enumerate(_blocks(answer)):
        yield from _block_events(answer, index, block)
    yield _event(
        "message_delta",
        delta={"stop_reason": _reason(answer), "stop_sequence": None},
        usage={**_input(answer.tokens), "output_tokens": answer.tokens.output},
    )
    yield _event("message_stop")


def token_count_body(tokens: Tokens) -> dict[str, Any]:
    """Return the answer to count_tokens."""
    return {"input_tokens": tokens.input}


def error(status: int) -> dict[str, Any]:
    """Return Anthropic's error body."""
    kinds = {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
    message = f"The fake provider was told to answer {status}."
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_fake",
    }


def _event(name: str, **fields: object) -> bytes:
    return event({"type": name, **fields}, name)


def _input(tokens: Tokens) -> dict[str, int]:
    # Anthropic counts what it read from the cache apart from the rest of the input.
    return {
        "input_tokens": tokens.input - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
    }


def _blocks(answer: ModelAnswer) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": answer.text}] if answer.text else []
    calls = [
        {
            "type": "tool_use",
            "id": f"toolu_{answer.number}_{index}",
            "name": call.name,
            "input": dict(call.arguments),
        }
        for index, call in enumerate(answer.calls)
    ]
    return text + calls


def _block_events(answer: ModelAnswer, index: int, block: dict[str, Any]) -> Iterator[bytes]:
    if block["type"] == "text":
        opening = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": word} for word in answer.words()]
    else:
        opening = {**block, "input": {}}
        arguments = encode_json(block["input"]).decode()
        parts = ("", arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :])
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    yield _event("content_block_start", index=index, content_block=opening)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _reason(answer: ModelAnswer) -> str:
    return "tool_use" if answer.calls else "end_turn"
