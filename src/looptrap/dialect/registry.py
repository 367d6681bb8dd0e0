"""The dialects, the ends of paths, and reading: any request becomes a Call."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from looptrap.dialect import (
    anthropic,
    gemini,
    gemini_interactions,
    http,
    mcp,
    openai_chat,
    openai_completions,
    openai_responses,
)
from looptrap.dialect.content import (
    MAX_PATCHED_BYTES,
    UNREADABLE,
    as_utf8,
    decode_or_none,
    mend,
    patch,
)
from looptrap.dialect.dialect import Dialect
from looptrap.dialect.model import Call, DialectName, Request
from looptrap.dialect.path import normal_path

DIALECTS: dict[DialectName, Dialect] = {
    dialect.name: dialect
    for dialect in (
        openai_chat.DIALECT,
        openai_responses.DIALECT,
        openai_completions.DIALECT,
        openai_completions.EMBEDDINGS,
        anthropic.DIALECT,
        gemini.DIALECT,
        gemini_interactions.DIALECT,
        mcp.DIALECT,
        http.DIALECT,
    )
}


class Ending(msgspec.Struct, frozen=True, gc=False):
    """What the end of a path says about a request."""

    dialect: DialectName
    readers: tuple[Callable[[Request, bytes], Call], ...]
    """Tried in this order; an opaque body has none."""
    generates: bool = True
    costs: bool = False
    """Whether it costs money although no model generates an answer."""
    streams: bool = False
    has_other_shapes: bool = False
    """Whether bodies that no reader can read are usual."""
    parent: str = ""
    """A segment that must come before, because other APIs have the same last segment."""


def _ending(*dialects: Dialect, **options: Any) -> Ending:
    return Ending(dialects[0].name, tuple(dialect.read for dialect in dialects), **options)


_CONVERSE = Ending("http", (http.read_converse,), parent="model")
_INVOKE = Ending("http", (http.read_invoke,), parent="model", has_other_shapes=True)

ENDINGS = {
    "completions": _ending(openai_chat.DIALECT, openai_completions.DIALECT),
    "responses": _ending(openai_responses.DIALECT),
    "responses/compact": _ending(openai_responses.DIALECT),
    "input_tokens": _ending(openai_responses.DIALECT, generates=False),
    "embeddings": _ending(openai_completions.EMBEDDINGS, generates=False, costs=True),
    "messages": _ending(anthropic.DIALECT),
    "count_tokens": _ending(anthropic.DIALECT, generates=False),
    ":rawPredict": _ending(anthropic.DIALECT),
    ":streamRawPredict": _ending(anthropic.DIALECT, streams=True),
    "count-tokens:rawPredict": _ending(anthropic.DIALECT, generates=False),
    ":generateContent": _ending(gemini.DIALECT),
    ":streamGenerateContent": _ending(gemini.DIALECT, streams=True),
    "interactions": _ending(gemini_interactions.DIALECT),
    ":countTokens": _ending(gemini.DIALECT, generates=False),
    "converse": _CONVERSE,
    "converse-stream": replace(_CONVERSE, streams=True),
    "invoke": _INVOKE,
    "invoke-with-response-stream": replace(_INVOKE, streams=True),
}
"""By the last segment of a path, its last two, or its end from a colon on. The rest of the path is
ignored, so Azure's deployments, Vertex's projects and any other prefix are read alike."""

_GENERATION = Ending("http", ())
_EMBEDDING = Ending("http", (), generates=False, costs=True)

OPAQUE = {
    "batches": _GENERATION,
    "complete": _GENERATION,
    "images/generations": _GENERATION,
    "images/edits": _GENERATION,
    "images/variations": _GENERATION,
    "audio/speech": _GENERATION,
    "audio/transcriptions": _GENERATION,
    "audio/translations": _GENERATION,
    "videos": _GENERATION,
    "remix": Ending("http", (), parent="videos"),
    "runs": Ending("http", (), parent="threads"),
    ":predict": _GENERATION,
    ":predictLongRunning": _GENERATION,
    ":batchGenerateContent": _GENERATION,
    ":embedContent": _EMBEDDING,
    ":batchEmbedContents": _EMBEDDING,
    ":asyncBatchEmbedContent": _EMBEDDING,
    "rerank": _EMBEDDING,
}
"""Endpoints that cost money and whose bodies are not read: judged by their bytes alone."""

_BY_END = {end.lower(): ending for end, ending in (ENDINGS | OPAQUE).items()}

_ANY_PATH = _ending(mcp.DIALECT, generates=False)
"""For any other path, and for a body that the readers of its ending cannot read."""

METHOD_OVERRIDE = b"x-http-method-override"


class _Rpc(msgspec.Struct, gc=False):
    """JSON-RPC without the fields of a model's call."""

    jsonrpc: str
    messages: msgspec.UnsetType = msgspec.UNSET
    input: msgspec.UnsetType = msgspec.UNSET
    prompt: msgspec.UnsetType = msgspec.UNSET
    contents: msgspec.UnsetType = msgspec.UNSET


_decode_rpc = msgspec.json.Decoder(_Rpc | list[_Rpc]).decode


def read(request: Request) -> Call:
    """Return the call in neutral form; a plain HTTP call where no dialect can read it."""
    return read_at_once(request) or read_odd(request)


def read_at_once(request: Request) -> Call | None:
    """Return the call; None where only `read_odd` can read the body, which may take long."""
    if request.method != "POST" and not _is_post(request):
        return http.read(request)
    ending = find_ending(request.path)
    if ending is None or request.lacks_body:
        if b"jsonrpc" not in request.body:
            return http.read(request)
        call = _read_with(_ANY_PATH, request, request.body)
        if call is None and b"tools/call" not in request.body:
            call = http.read(request)
        return call
    if not ending.readers:
        return _read_opaque(ending, request)
    return _read_with(ending, request, request.body)


def read_odd(request: Request) -> Call:
    """Read a body that is not strict JSON of the right shape, as a lenient provider might."""
    ending = find_ending(request.path)
    call = _read_mended(ending or _ANY_PATH, request)
    if call is None and ending is not None and b"jsonrpc" in request.body:
        call = _read_with(_ANY_PATH, request, request.body) or _read_mended(_ANY_PATH, request)
    if call is not None:
        return call
    if ending is None or not (ending.generates or ending.costs) or _is_rpc(request.body):
        return http.read(request)
    return _read_opaque(ending, request)


def is_unreadable(call: Call) -> bool:
    """Return whether the body could not be read, at an endpoint whose bodies are read."""
    if not call.is_opaque:
        return False
    ending = find_ending(call.request.path)
    return ending is not None and bool(ending.readers) and not ending.has_other_shapes


# The size limit of the cache: clients may invent any number of paths.
@lru_cache(maxsize=256)
def find_ending(path: str) -> Ending | None:
    """Return the ending of a path; None where it has no known one."""
    segments = normal_path(path).lower().split("/")
    last = segments[-1]
    if last == "messages" and "threads" in segments:
        return None  # the Assistants API only stores a message
    ending = (
        _BY_END.get("/".join(segments[-2:]))
        or _BY_END.get(last)
        or _BY_END.get(last[last.rfind(":") :] if ":" in last else "")
    )
    return None if ending is not None and ending.parent not in ("", *segments) else ending


def dialect_of(path: str) -> DialectName:
    """Return the dialect that a path suggests, for answers to requests that were not read."""
    ending = find_ending(path)
    return ending.dialect if ending is not None else "http"


def _is_post(request: Request) -> bool:
    """Return whether a lenient server treats the request as a POST."""
    method = request.header(METHOD_OVERRIDE) or request.method.encode("latin-1", "replace")
    return method.strip().upper() == b"POST"


def _read_with(ending: Ending, request: Request, body: bytes) -> Call | None:
    """Return the call if one of the ending's readers can read the body."""
    for reader in ending.readers:
        try:
            call = reader(request, body)
        except msgspec.ValidationError:
            continue
        except UNREADABLE:
            return None
        call.generates = ending.generates
        if ending.streams:
            call.stream = True
        return call
    return None


def _read_mended(ending: Ending, request: Request) -> Call | None:
    """Return the call if one of the ending's readers can read the mended body."""
    if len(request.body) > MAX_PATCHED_BYTES:
        return None
    body = as_utf8(request.body)
    call = _read_with(ending, request, patch(body))
    if call is None and (mended := decode_or_none(body, mend)) is not None:
        call = _read_with(ending, request, mended)
    if call is not None:
        request.body = body  # later code reads its size and its limits
    return call


def _read_opaque(ending: Ending, request: Request) -> Call:
    call = http.read_opaque(request, ending.dialect)
    call.generates = ending.generates
    return call


def _is_rpc(body: bytes) -> bool:
    """Return whether a body is other JSON-RPC: some MCP servers listen at `/messages`."""
    if len(body) > MAX_PATCHED_BYTES or b"jsonrpc" not in body:
        return False
    return decode_or_none(body, _decode_rpc) is not None
