"""OpenAI's legacy Completions and its Embeddings: one text (or tokens) and no conversation."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from looptrap.dialect.content import (
    UNREADABLE,
    decode,
    digest,
    encode,
    identity,
    malformed,
    model_in_path,
    part_text,
)
from looptrap.dialect.dialect import Dialect, FakeAnswer, FinalMessage, History, Streaming
from looptrap.dialect.fake_answer import BYTES_PER_TOKEN, CREATED_AT, ModelAnswer
from looptrap.dialect.model import Call, Json, Message, Request
from looptrap.dialect.openai_chat import (
    NO_TOKENS,
    ChatStreamParser,
    close_choices,
    counted_answer,
    error_body,
    fail_stream,
    fake_error,
    fake_usage,
    final_chunks,
    find_usage,
    number_of_choices,
    wants_usage,
)
from looptrap.dialect.stream import DONE, sse_event


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


def _read_embedding(request: Request, body: bytes) -> Call:
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


# Passing answers and final messages


def _finish_stream(parser: ChatStreamParser) -> bytes:
    return close_choices(parser, {"text": ""})


def _takes_text(_sent: Json) -> bool:
    """Say whether plain text answers the request: here nothing else ever does."""
    return True


def _final_body(call: Call, sent: Json, text: str, request_id: str, now: float) -> bytes:
    choices = [_final_choice(i, text) for i in range(_number_of_texts(sent))]
    return encode({**_final_head(call, request_id, now), "choices": choices, "usage": NO_TOKENS})


def _final_stream(call: Call, sent: Json, text: str, request_id: str, now: float) -> bytes:
    choices = [_final_choice(i, text) for i in range(_number_of_texts(sent))]
    return final_chunks(_final_head(call, request_id, now), choices, sent)


def _number_of_texts(sent: Json) -> int:
    """Return how many texts are asked for: `n` for each prompt of a list of prompts."""
    prompt = sent.get("prompt")
    prompts = 1
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        prompts = len(prompt)
    return prompts * number_of_choices(sent)


def _final_head(call: Call, request_id: str, now: float) -> Json:
    return {
        "id": f"cmpl-{request_id}",
        "object": "text_completion",
        "created": int(now),
        "model": call.model,
    }


def _final_choice(index: int, text: str) -> Json:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": "stop"}


# Fake answers

_FAKE_VECTOR = (0.25, -0.5, 0.125, 1.0)


def _fake_body(answer: ModelAnswer, _call: Call) -> Json:
    return {**_fake_envelope(answer, answer.text, "stop"), "usage": fake_usage(answer.tokens)}


def _fake_stream(answer: ModelAnswer, call: Call) -> Iterator[bytes]:
    """Return a completion event by event; usage only where the request asked for it."""
    for word in answer.words():
        yield sse_event(_fake_envelope(answer, word, None))
    yield sse_event(_fake_envelope(answer, "", "stop"))
    if wants_usage(decode(call.request.body)):
        yield sse_event(
            {**_fake_envelope(answer, "", None), "choices": [], "usage": fake_usage(answer.tokens)}
        )
    yield DONE


def _fake_embeddings(call: Call) -> Json:
    """Return a vector for each input."""
    body = decode(call.request.body)
    given = body.get("input")
    inputs = given if isinstance(given, list) and given else [given]
    size = sum(len(str(text)) for text in inputs)
    tokens = max(1, size // BYTES_PER_TOKEN)
    vector = _packed_vector() if body.get("encoding_format") == "base64" else list(_FAKE_VECTOR)
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": vector}
            for index in range(len(inputs))
        ],
        "model": call.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _packed_vector() -> str:
    """Return the vector as the SDK asks for it: little-endian floats in base64."""
    return base64.b64encode(struct.pack(f"<{len(_FAKE_VECTOR)}f", *_FAKE_VECTOR)).decode()


def _fake_envelope(answer: ModelAnswer, text: str, reason: str | None) -> Json:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
    return {
        "id": f"cmpl-{answer.number}",
        "object": "text_completion",
        "created": CREATED_AT,
        "model": answer.model,
        "choices": [choice],
    }


DIALECT = Dialect(
    name="openai_completions",
    read=read,
    error_body=error_body,
    history=History(read_texts),
    final_message=FinalMessage(_takes_text, _final_body, _final_stream),
    streaming=Streaming(ChatStreamParser, _finish_stream, fail_stream),
    counted_answer=counted_answer,
    find_usage=find_usage,
    fake=FakeAnswer(_fake_body, _fake_stream),
    fake_error=fake_error,
)

EMBEDDINGS = Dialect(
    name="openai_embeddings",
    read=_read_embedding,
    error_body=error_body,
    counted_answer=counted_answer,
    find_usage=find_usage,
    fake_fixed=_fake_embeddings,
    fake_error=fake_error,
)
