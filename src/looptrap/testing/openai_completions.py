"""Legacy Completions, Embeddings and the list of models, as OpenAI writes them."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

from looptrap.testing.model_answer import BYTES_PER_TOKEN, CREATED_AT, ModelAnswer, event
from looptrap.testing.openai_chat import usage

MODELS = ("gpt-5.3-codex", "claude-opus-4-7", "gemini-3.1-pro")
_VECTOR = (0.25, -0.5, 0.125, 1.0)


def full_body(answer: ModelAnswer) -> dict[str, Any]:
    """Return a completion in one piece."""
    return {**_envelope(answer, answer.text, "stop"), "usage": usage(answer.tokens)}


def stream(answer: ModelAnswer, body: dict[str, Any]) -> Iterator[bytes]:
    """Return a completion event by event; usage only where the request asked for it."""
    for word in answer.words():
        yield event(_envelope(answer, word, None))
    yield event(_envelope(answer, "", "stop"))
    if (body.get("stream_options") or {}).get("include_usage") is True:
        yield event({**_envelope(answer, "", None), "choices": [], "usage": usage(answer.tokens)})
    yield b"data: [DONE]\n\n"


def embeddings(model: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a vector for each input."""
    given = body.get("input")
    inputs = given if isinstance(given, list) and given else [given]
    size = sum(len(str(text)) for text in inputs)
    tokens = max(1, size // BYTES_PER_TOKEN)
    vector = _packed() if body.get("encoding_format") == "base64" else list(_VECTOR)
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": vector}
            for index in range(len(inputs))
        ],
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def models() -> dict[str, Any]:
    """Return the list of models."""
    return {"object": "list", "data": [model(name) for name in MODELS]}


def model(name: str) -> dict[str, Any]:
    """Return one entry of that list."""
    return {"id": name, "object": "model", "created": CREATED_AT, "owned_by": "looptrap"}


def _packed() -> str:
    """Return the vector as the SDK asks for it: little-endian floats in base64."""
    return base64.b64encode(struct.pack(f"<{len(_VECTOR)}f", *_VECTOR)).decode()


def _envelope(answer: ModelAnswer, text: str, reason: str | None) -> dict[str, Any]:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
    return {
        "id": f"cmpl-{answer.number}",
        "object": "text_completion",
        "created": CREATED_AT,
        "model": answer.model,
        "choices": [choice],
    }
