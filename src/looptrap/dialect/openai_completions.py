"""OpenAI's legacy Completions and its Embeddings: one text (or tokens) and no conversation."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from looptrap.dialect.content import (
    UNREADABLE,
    decode,
    digest,
    id_text,
    malformed_message,
    part_text,
)
from looptrap.dialect.dialect import AnswerWriter, Dialect, History, ModelAnswer
from looptrap.dialect.model import BYTES_PER_TOKEN, Call, DialectName, Json, Message, Request
from looptrap.dialect.openai_chat import (
    CHAT_USAGE,
    ChatStreamParser,
    count_choices,
    error_body,
    head_of,
    usage_counts,
    write_chunks,
)
from looptrap.dialect.path import model_in_path


class _Embedding(msgspec.Struct, gc=False):
    texts: msgspec.Raw = msgspec.field(name="input")
    model: str | None = None
    user: Any = None


class _Completion(_Embedding, gc=False):
    texts: msgspec.Raw = msgspec.field(name="prompt")
    stream: Any = None


_decode_completion = msgspec.json.Decoder(_Completion).decode
_decode_embedding = msgspec.json.Decoder(_Embedding).decode


def read(request: Request, body: bytes) -> Call:
    """Read a Completions body; raises what decoding raises."""
    sent = _decode_completion(body)
    call = _call(request, "openai_completions", sent)
    call.stream = sent.stream is True
    return call


def _read_embedding(request: Request, body: bytes) -> Call:
    return _call(request, "openai_embeddings", _decode_embedding(body))


def _call(request: Request, dialect: DialectName, sent: _Embedding) -> Call:
    if bytes(memoryview(sent.texts)[:1]) not in (b'"', b"["):
        raise msgspec.ValidationError("neither a string nor a list")
    return Call(
        request,
        dialect,
        model=sent.model or model_in_path(request.path),
        user=id_text(sent.user),
        raws=[sent.texts],
        read=read_texts,
    )


def read_texts(raw: msgspec.Raw) -> Message:
    """Read a text, a list of texts, a list of tokens or a list of such lists as one message."""
    try:
        value = decode(raw)
        is_tokens = isinstance(value, list) and value and isinstance(value[0], int)
        texts = value if isinstance(value, list) and not is_tokens else [value]
        return Message("user", "\n".join(map(_text, texts)))
    except UNREADABLE:
        return malformed_message(raw)


def _text(value: object) -> str:
    if isinstance(value, list):
        return digest("tokens", {"tokens": value})
    return part_text(value)


# Answers


class CompletionStreamParser(ChatStreamParser):
    """Parses the choices of a legacy completion."""

    __slots__ = ()

    last_delta: ClassVar[Json] = {"text": ""}


def _write_body(answer: ModelAnswer) -> Json:
    choices = [_choice(index, answer.text, "stop") for index in range(_count_texts(answer.sent))]
    head = head_of(answer, "cmpl", "text_completion")
    return {**head, "choices": choices, "usage": usage_counts(answer.usage)}


def _write_stream(answer: ModelAnswer) -> Iterator[bytes]:
    *pieces, last = answer.pieces or ("",)
    choices = (
        _choice(index, piece, reason)
        for index in range(_count_texts(answer.sent))
        for piece, reason in (*((piece, None) for piece in pieces), (last, "stop"))
    )
    return write_chunks(answer, head_of(answer, "cmpl", "text_completion"), choices)


def _count_texts(sent: Json) -> int:
    """Return the number of texts that a request wants: `n` for each prompt of a list of prompts."""
    prompt = sent.get("prompt")
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return len(prompt) * count_choices(sent)
    return count_choices(sent)


def _choice(index: int, text: str, reason: str | None) -> Json:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


# Fake embeddings

_FAKE_VECTOR = (0.25, -0.5, 0.125, 1.0)


def _fake_embeddings(call: Call) -> Json:
    """Return a vector for each input."""
    body = decode(call.request.body)
    sent = body.get("input")
    inputs = sent if isinstance(sent, list) and sent else [sent]
    tokens = max(1, sum(len(str(text)) for text in inputs) // BYTES_PER_TOKEN)
    vector: str | list[float] = list(_FAKE_VECTOR)
    if body.get("encoding_format") == "base64":  # little-endian floats, as the SDK wants them
        vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    embedding = {"object": "embedding", "embedding": vector}
    data = [{**embedding, "index": index} for index in range(len(inputs))]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": call.model, "usage": usage}


DIALECT: Dialect = Dialect(
    name="openai_completions",
    read=read,
    error_body=error_body,
    history=History(read_texts),
    writer=AnswerWriter(lambda _sent: True, _write_body, _write_stream),
    stream_parser=CompletionStreamParser,
    usage=CHAT_USAGE,
)

EMBEDDINGS: Dialect = Dialect(
    name="openai_embeddings",
    read=_read_embedding,
    error_body=error_body,
    usage=CHAT_USAGE,
    fake_without_model=_fake_embeddings,
)
