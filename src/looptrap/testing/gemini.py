"""generateContent, as Google writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from looptrap.testing.model_answer import ModelAnswer, Tokens, encode_json, event


def full_body(answer: ModelAnswer) -> dict[str, Any]:
    """Return the answer in one piece."""
    return _response(answer, _parts(answer), "STOP")


def stream(answer: ModelAnswer) -> Iterator[bytes]:
    """Return the answer as server-sent events, each a response with counts so far."""
    yield from map(event, _pieces(answer))


def stream_array(answer: ModelAnswer) -> Iterator[bytes]:
    """Return the answer as Google streams it without `alt=sse`: one JSON array."""
    for index, piece in enumerate(_pieces(answer)):
        yield (b",\r\n" if index else b"[") + encode_json(piece)
    yield b"\n]\n"


def token_count_body(tokens: Tokens) -> dict[str, Any]:
    """Return the answer to countTokens."""
    return {"totalTokens": tokens.input}


def error(status: int) -> dict[str, Any]:
    """Return Google's error body."""
    names = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }
    name = names.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")
    message = f"The fake provider was told to answer {status}."
    return {"error": {"code": status, "message": message, "status": name}}


def _pieces(answer: ModelAnswer) -> Iterator[dict[str, Any]]:
    # Each word is a response of its own; the counts of the output come with the last one.
    for word in answer.words():
        yield _response(answer, [{"text": word}], None)
    calls = [part for part in _parts(answer) if "functionCall" in part]
    yield _response(answer, calls or [{"text": ""}], "STOP")


def _response(
    answer: ModelAnswer, parts: list[dict[str, Any]], reason: str | None
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    usage: dict[str, Any] = {"promptTokenCount": answer.tokens.input}
    if reason:
        candidate["finishReason"] = reason
        usage |= _counts(answer.tokens)
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": answer.model,
        "responseId": f"fake-{answer.number}",
    }


def _counts(tokens: Tokens) -> dict[str, Any]:
    # Google counts thoughts apart from what the candidates say.
    return {
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "thoughtsTokenCount": tokens.reasoning,
        "cachedContentTokenCount": tokens.cached,
        "totalTokenCount": tokens.input + tokens.output,
    }


def _parts(answer: ModelAnswer) -> list[dict[str, Any]]:
    text = [{"text": answer.text}] if answer.text else []
    calls = [
        {"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in answer.calls
    ]
    return text + calls
