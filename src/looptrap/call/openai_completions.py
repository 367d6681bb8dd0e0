"""OpenAI's legacy Completions and its Embeddings: one text (or tokens) and no conversation."""

from __future__ import annotations

from typing import Any

import msgspec

from looptrap.call.content import (
    UNREADABLE,
    decode,
    digest,
    identity,
    malformed,
    model_in_path,
    part_text,
)
from looptrap.call.model import Call, Message, Request


class _Completion(msgspec.Struct, gc=False):
    prompt: msgspec.Raw
    model: str | None = None
    stream: Any = None
    user: Any = None


class _Embedding(msgspec.Struct, gc=False):
    input: msgspec.Raw
    model: str | None = None
    user: Any = None


_decode_completion = msgspec.json.Decoder(_Completion).decode
_decode_embedding = msgspec.json.Decoder(_Embedding).decode


def read(request: Request, body: bytes) -> Call:
    """Read a Completions body; raises what decoding raises."""
    sent = _decode_completion(body)
    return Call(
        request,
        "openai_completions",
        model=sent.model or model_in_path(request.path),
        stream=sent.stream is True,
        user=identity(sent.user),
        raws=[_texts(sent.prompt)],
        read=read_texts,
    )


def read_embedding(request: Request, body: bytes) -> Call:
    """Read an Embeddings body; raises what decoding raises."""
    sent = _decode_embedding(body)
    return Call(
        request,
        "openai_embeddings",
        model=sent.model or model_in_path(request.path),
        user=identity(sent.user),
        raws=[_texts(sent.input)],
        read=read_texts,
    )


def _texts(raw: msgspec.Raw) -> msgspec.Raw:
    """Return the raw value if it can be texts or tokens."""
    if bytes(memoryview(raw)[:1]) not in (b'"', b"["):
        raise msgspec.ValidationError("neither a string nor a list")
    return raw


def read_texts(raw: msgspec.Raw) -> Message:
    """Read a text, a list of texts, a list of tokens or a list of such lists as one message."""
    try:
        value = decode(raw)
        if not isinstance(value, list):
            return Message("user", part_text(value))
        if value and isinstance(value[0], int):
            return Message("user", _tokens(value))
        return Message("user", "\n".join(map(_text, value)))
    except UNREADABLE:
        return malformed(raw)


def _text(value: object) -> str:
    return _tokens(value) if isinstance(value, list) else part_text(value)


def _tokens(tokens: list[Any]) -> str:
    return digest("tokens", {"tokens": tokens})
