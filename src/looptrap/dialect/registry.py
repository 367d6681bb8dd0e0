"""The dialects, the ends of paths, and reading: whatever arrives, a Call comes out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

import msgspec

from looptrap.dialect import (
    anthropic,
    bedrock,
    gemini,
    http,
    mcp,
    opaque,
    openai_chat,
    openai_completions,
    openai_responses,
)
from looptrap.dialect.content import MAX_PATCHED_BYTES, UNREADABLE, as_utf8, mend, patch
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
        mcp.DIALECT,
        http.DIALECT,
    )
}


class Ending(msgspec.Struct, frozen=True, gc=False):
    """What the end of a path says: its dialect, who may read the body, in order, and what for."""

    dialect: DialectName
    readers: tuple[Callable[[Request, bytes], Call], ...]
    generates: bool = True
    costs: bool = False
    """Whether it is paid for though nothing is generated."""
    streams: bool = False
    varied: bool = False
    """Whether bodies of other shapes than its readers know are usual there."""


def _ending(*dialects: Dialect, **options: bool) -> Ending:
    return Ending(dialects[0].name, tuple(dialect.read for dialect in dialects), **options)


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
    ":countTokens": _ending(gemini.DIALECT, generates=False),
    "converse": Ending("http", (bedrock.read,)),
    "converse-stream": Ending("http", (bedrock.read,), streams=True),
    "invoke": Ending("http", (bedrock.read_invoke,), varied=True),
    "invoke-with-response-stream": Ending(
        "http", (bedrock.read_invoke,), streams=True, varied=True
    ),
}
"""The last segment of a path, its last two, or its end from a colon on. What stands before says
nothing, so that Azure's deployments, Vertex's projects and other people's prefixes are read
alike."""

GENERATED = Ending("http", ())
EMBEDDED = Ending("http", (), generates=False, costs=True)

OPAQUE = {
    "batches": GENERATED,
    "complete": GENERATED,
    "images/generations": GENERATED,
    "images/edits": GENERATED,
    "images/variations": GENERATED,
    "audio/speech": GENERATED,
    "audio/transcriptions": GENERATED,
    "audio/translations": GENERATED,
    "videos": GENERATED,
    "remix": GENERATED,
    "runs": GENERATED,
    "interactions": GENERATED,
    ":predict": GENERATED,
    ":predictLongRunning": GENERATED,
    ":batchGenerateContent": GENERATED,
    ":embedContent": EMBEDDED,
    ":batchEmbedContents": EMBEDDED,
    ":asyncBatchEmbedContent": EMBEDDED,
    "rerank": EMBEDDED,
}
"""Endpoints that cost money and whose bodies are not read: judged by their bytes alone."""

REQUIRED_PARENTS = {
    "converse": "model",
    "converse-stream": "model",
    "invoke": "model",
    "invoke-with-response-stream": "model",
    "remix": "videos",
    "runs": "threads",
}
"""Last segments that others use as well, and the segment that must stand somewhere before."""

_BY_END = {end.lower(): ending for end, ending in (ENDINGS | OPAQUE).items()}

ELSEWHERE = _ending(mcp.DIALECT, generates=False)
"""Any other path, and a body that none of its ending's readers fits."""

METHOD_OVERRIDE = b"x-http-method-override"


class _Rpc(msgspec.Struct, gc=False):
    """JSON-RPC, and no call of a model beside it."""

    jsonrpc: str
    messages: msgspec.UnsetType = msgspec.UNSET
    input: msgspec.UnsetType = msgspec.UNSET
    prompt: msgspec.UnsetType = msgspec.UNSET
    contents: msgspec.UnsetType = msgspec.UNSET


_decode_rpc = msgspec.json.Decoder(_Rpc | list[_Rpc]).decode


def read(request: Request) -> Call:
    """Return the call in neutral form; the plain HTTP view of what fits no dialect."""
    return read_at_once(request) or read_odd(request)


def read_at_once(request: Request) -> Call | None:
    """Return the call; None where the body is odd, so that `read_odd` may take long to read it."""
    if request.method != "POST" and not _is_post(request):
        return http.read(request)
    ending = find_ending(request.path)
    if ending is None or request.lacks_body:
        if b"jsonrpc" not in request.body:
            return http.read(request)
        call = _read_with(ELSEWHERE, request, request.body)
        if call is None and b"tools/call" not in request.body:
            call = http.read(request)
        return call
    if not ending.readers:
        return _read_opaque(ending, request)
    return _read_with(ending, request, request.body)


def read_odd(request: Request) -> Call:
    """Read what is no strict JSON of the right shape as a lenient provider might, or not at all."""
    ending = find_ending(request.path)
    call = _read_mended(ending or ELSEWHERE, request)
    if call is None and ending is not None and b"jsonrpc" in request.body:
        call = _read_with(ELSEWHERE, request, request.body) or _read_mended(ELSEWHERE, request)
    if call is not None:
        return call
    if ending is None or not (ending.generates or ending.costs) or _is_rpc(request.body):
        return http.read(request)
    return _read_opaque(ending, request)


def is_unreadable(call: Call) -> bool:
    """Say whether the body could not be read at an endpoint whose bodies are."""
    if not call.opaque:
        return False
    ending = find_ending(call.request.path)
    return ending is not None and bool(ending.readers) and not ending.varied


# The bound keeps a client that makes up paths from filling the memory.
@lru_cache(maxsize=256)
def find_ending(path: str) -> Ending | None:
    """Return what the end of a path says; None where it says nothing."""
    segments = normal_path(path).lower().split("/")
    last = segments[-1]
    if last == "messages" and "threads" in segments:
        return None  # of the Assistants API: a message is only kept there
    if last in REQUIRED_PARENTS and REQUIRED_PARENTS[last] not in segments:
        return None
    return (
        _BY_END.get("/".join(segments[-2:]))
        or _BY_END.get(last)
        or _BY_END.get(last[last.rfind(":") :] if ":" in last else "")
    )


def dialect_of(path: str) -> DialectName:
    """Return the dialect that a path alone suggests: for answers to what was never read."""
    ending = find_ending(path)
    return ending.dialect if ending is not None else "http"


def _is_post(request: Request) -> bool:
    """Say whether a lenient server takes the request for a POST, however it is written."""
    method = request.header(METHOD_OVERRIDE) or request.method.encode("latin-1", "replace")
    return method.strip().upper() == b"POST"


def _read_with(ending: Ending, request: Request, body: bytes) -> Call | None:
    """Return the call if the body has a shape that one of the ending's readers reads."""
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
    """Return the call if the body, mended, has a shape that one of the ending's readers reads."""
    if len(request.body) > MAX_PATCHED_BYTES:
        return None
    body = as_utf8(request.body)
    call = _read_with(ending, request, patch(body))
    if call is None:
        with suppress(*UNREADABLE):
            call = _read_with(ending, request, mend(body))
    if call is not None:
        request.body = body  # which is looked at again for its size and its limits
    return call


def _read_opaque(ending: Ending, request: Request) -> Call:
    call = opaque.read(request, ending.dialect)
    call.generates = ending.generates
    return call


def _is_rpc(body: bytes) -> bool:
    """Say whether a body is JSON-RPC of another kind: some MCP servers listen at `/messages`."""
    if len(body) > MAX_PATCHED_BYTES or b"jsonrpc" not in body:
        return False
    try:
        _decode_rpc(body)
    except UNREADABLE:
        return False
    return True
