"""generateContent, as Google writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from looptrap.testing.said import Said, Tokens, encode, event


def whole(said: Said) -> dict[str, Any]:
    """Return the answer in one piece."""
    return _response(said, _parts(said), "STOP")


def stream(said: Said) -> Iterator[bytes]:
    """Return the answer as server-sent events, each a response with counts so far."""
    yield from map(event, _pieces(said))


def array(said: Said) -> Iterator[bytes]:
    """Return the answer as Google streams it without `alt=sse`: one JSON array."""
    for index, piece in enumerate(_pieces(said)):
        yield (b",\r\n" if index else b"[") + encode(piece)
    yield b"\n]\n"


def counted(tokens: Tokens) -> dict[str, Any]:
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


def _pieces(said: Said) -> Iterator[dict[str, Any]]:
    # Each word is a response of its own; the counts of the output come with the last one.
    for word in said.words():
        yield _response(said, [{"text": word}], None)
    calls = [part for part in _parts(said) if "functionCall" in part]
    yield _response(said, calls or [{"text": ""}], "STOP")


def _response(said: Said, parts: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    usage: dict[str, Any] = {"promptTokenCount": said.tokens.input}
    if reason:
        candidate["finishReason"] = reason
        usage |= _counts(said.tokens)
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": said.model,
        "responseId": f"fake-{said.number}",
    }


def _counts(tokens: Tokens) -> dict[str, Any]:
    # Google counts thoughts apart from what the candidates say.
    return {
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "thoughtsTokenCount": tokens.reasoning,
        "cachedContentTokenCount": tokens.cached,
        "totalTokenCount": tokens.input + tokens.output,
    }


def _parts(said: Said) -> list[dict[str, Any]]:
    text = [{"text": said.text}] if said.text else []
    calls = [
        {"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in said.calls
    ]
    return text + calls
