"""Tell the dialect of a request and read it. Total: whatever arrives, a Call comes out."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from looptrap.call import (
    anthropic,
    gemini,
    http,
    mcp,
    openai_chat,
    openai_completions,
    openai_responses,
)
from looptrap.call.content import UNREADABLE, mend
from looptrap.call.model import Call, Dialect, Request


class Ending(msgspec.Struct, frozen=True, gc=False):
    """What the end of a path says: its dialect, who may read the body, in order, and what for."""

    dialect: Dialect
    readers: tuple[Callable[[Request, bytes], Call], ...]
    generates: bool = True
    streams: bool = False


ENDINGS = {
    "completions": Ending("openai_chat", (openai_chat.read, openai_completions.read)),
    "responses": Ending("openai_responses", (openai_responses.read,)),
    "input_tokens": Ending("openai_responses", (openai_responses.read,), generates=False),
    "embeddings": Ending(
        "openai_embeddings", (openai_completions.read_embedding,), generates=False
    ),
    "messages": Ending("anthropic", (anthropic.read,)),
    "count_tokens": Ending("anthropic", (anthropic.read,), generates=False),
    ":rawPredict": Ending("anthropic", (anthropic.read,)),
    ":streamRawPredict": Ending("anthropic", (anthropic.read,), streams=True),
    "count-tokens:rawPredict": Ending("anthropic", (anthropic.read,), generates=False),
    ":generateContent": Ending("gemini", (gemini.read,)),
    ":streamGenerateContent": Ending("gemini", (gemini.read,), streams=True),
    ":countTokens": Ending("gemini", (gemini.read,), generates=False),
}
"""The last segment of a path, or its end from a colon on. What stands before says nothing, so that
Azure's deployments, Vertex's projects and other people's prefixes are read alike."""

ELSEWHERE = Ending("mcp", (mcp.read,), generates=False)
"""Any other path, and a body that none of its ending's readers fits."""


def read(request: Request) -> Call:
    """Return the call in neutral form; the plain HTTP view of what fits no dialect."""
    if request.method != "POST":
        return http.read(request)
    ending = find_ending(request.path)
    call = _fit(ending, request) if ending is not None else None
    if call is None and b"jsonrpc" in request.body:
        call = _fit(ELSEWHERE, request)
    return call if call is not None else http.read(request)


# The bound keeps a client that makes up paths from filling the memory.
@lru_cache(maxsize=256)
def find_ending(path: str) -> Ending | None:
    """Return what the end of a path says; None where it says nothing."""
    last = unquote(path).rstrip("/").rpartition("/")[2]
    return ENDINGS.get(last) or ENDINGS.get(last[last.rfind(":") :] if ":" in last else "")


def dialect_of(path: str) -> Dialect:
    """Return the dialect that a path alone suggests: for answers to what was never read."""
    ending = find_ending(path)
    return ending.dialect if ending is not None else "http"


def _fit(ending: Ending, request: Request) -> Call | None:
    """Return the call if the body has a shape that one of the ending's readers reads."""
    body, is_mended = request.body, False
    for reader in ending.readers:
        try:
            call = reader(request, body)
        except msgspec.ValidationError:
            continue
        except UNREADABLE:
            if is_mended:
                return None
            try:
                body, is_mended = mend(body), True
                call = reader(request, body)
            except UNREADABLE:
                continue
        call.generates = ending.generates
        if ending.streams:
            call.stream = True
        return call
    return None
