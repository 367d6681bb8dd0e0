"""Give a reply the form in which the request's dialect wants it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from looptrap.testing import (
    anthropic,
    gemini,
    openai_chat,
    openai_completions,
    openai_responses,
)
from looptrap.testing.received import Received
from looptrap.testing.reply import Events, Status, Turn
from looptrap.testing.said import Said, encode, estimate
from looptrap.wire.fields import Field

_SSE = b"text/event-stream; charset=utf-8"
_JSON = b"application/json"


@dataclass(frozen=True, slots=True)
class Rendered:
    """An answer ready for the wire; one that streams does not tell its length."""

    status: int
    headers: list[Field]
    chunks: list[bytes]
    streams: bool = False


def render(received: Received, content: Turn | Status | Events, number: int) -> Rendered:
    """Return the answer to `received`, the provider's `number`-th."""
    match content:
        case Events(chunks):
            return _stream(chunks, _SSE)
        case Status(code, body, headers):
            return _status(received, code, body, list(headers.items()))
        case Turn():
            return _turn(received, content, number)


def is_plain(received: Received) -> bool:
    """Is it an endpoint with an answer of its own: embeddings, token counts, lists of models?"""
    return _plain(received) is not None


def _plain(received: Received) -> Rendered | None:
    call = received.call
    path = call.request.path.rstrip("/")
    if call.dialect == "openai_embeddings" and not call.opaque:
        return _whole(openai_completions.embeddings(call.model, received.json()))
    if received.method == "GET":
        before, _, name = path.rpartition("/")
        if name == "models":
            return _whole(openai_completions.models())
        if before.endswith("/models"):
            return _whole(openai_completions.model(name))
    if call.generates:
        return None
    tokens = estimate(received.body, "", ())
    match call.dialect:
        case "anthropic":
            return _whole(anthropic.counted(tokens))
        case "gemini":
            return _whole(gemini.counted(tokens))
        case "openai_responses":
            return _whole(openai_responses.counted(tokens))
    return None


def _turn(received: Received, turn: Turn, number: int) -> Rendered:
    """Let the model speak; where no dialect is spoken, there is nothing to be found."""
    plain = _plain(received)
    if plain is not None:
        return plain
    call = received.call
    tokens = turn.tokens or estimate(received.body, turn.text, turn.calls)
    said = Said(number, call.model, turn.text, turn.calls, tokens)
    match call.dialect, call.stream:
        case "openai_chat", True:
            return _stream(openai_chat.stream(said, received.json()), _SSE)
        case "openai_chat", False:
            return _whole(openai_chat.whole(said))
        case "openai_responses", True:
            return _stream(openai_responses.stream(said, received.json()), _SSE)
        case "openai_responses", False:
            return _whole(openai_responses.whole(said, received.json()))
        case "openai_completions", True:
            return _stream(openai_completions.stream(said, received.json()), _SSE)
        case "openai_completions", False:
            return _whole(openai_completions.whole(said))
        case "anthropic", True:
            return _stream(anthropic.stream(said), _SSE)
        case "anthropic", False:
            return _whole(anthropic.whole(said))
        case "gemini", True if "alt=sse" in call.request.query:
            return _stream(gemini.stream(said), _SSE)
        case "gemini", True:
            return _stream(gemini.array(said), _JSON)
        case "gemini", False:
            return _whole(gemini.whole(said))
    return _status(received, 404, None, [])


def _whole(body: object) -> Rendered:
    return Rendered(200, [(b"Content-Type", _JSON)], [encode(body)])


def _stream(chunks: Iterable[bytes], kind: bytes) -> Rendered:
    headers = [(b"Content-Type", kind), (b"Cache-Control", b"no-cache")]
    return Rendered(200, headers, list(chunks), streams=True)


def _status(received: Received, code: int, body: object, extra: list[tuple[str, str]]) -> Rendered:
    if body is None:
        body = _error(received, code)
    given = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in extra]
    if not any(name.lower() == b"content-type" for name, _ in given):
        given.insert(0, (b"Content-Type", _JSON))
    return Rendered(code, given, [body if isinstance(body, bytes) else encode(body)])


def _error(received: Received, code: int) -> dict[str, Any]:
    match received.call.dialect:
        case "anthropic":
            return anthropic.error(code)
        case "gemini":
            return gemini.error(code)
    return openai_chat.error(code)
