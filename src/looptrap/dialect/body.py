"""Calls inside a process: an SDK's keyword arguments, or a body, recognised by shape alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.model import Call, Request
from looptrap.dialect.registry import read
from looptrap.errors import CallError

TRANSPORT = frozenset({"extra_body", "extra_headers", "extra_query", "timeout"})
"""Keyword arguments for the SDK itself; what is in `extra_body` is sent like the others."""

NOT_GIVEN = frozenset({"NotGiven", "Omit"})
"""The types by which OpenAI's and Anthropic's SDKs mark an argument that was not given."""

UNWRITABLE = (TypeError, ValueError, RecursionError, msgspec.MsgspecError)
"""What encoding a caller's objects can raise."""

ANTHROPIC_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})
SHARED_BLOCKS = frozenset({"text", "image", "document"})


def _plain(value: Any) -> Any:
    """Return an object of an SDK or of the caller's own as something JSON can hold."""
    if isinstance(value, Mapping):
        return dict(value)
    if callable(value) and hasattr(value, "__name__"):
        return {"name": value.__name__}  # a function given as a tool, a class as a format
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_none=True)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"it holds a value of type {type(value).__name__}")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode


def read_body(
    body: Mapping[str, Any] | bytes,
    path: str | None = None,
    *,
    caller: str = "",
    project: str = "",
    session: str = "",
) -> Call:
    """Read a request body, or the keyword arguments of an SDK's call, as if it came to `path`.

    Without a path the dialect is recognised by shape. Raises CallError for what is no JSON object
    and cannot be written as one.
    """
    if isinstance(body, Mapping):
        encoded = _encoded(_sent(body))
    elif isinstance(body, bytes):
        encoded = body
    else:
        raise CallError(f"a call is a mapping or the bytes of one, not {type(body).__name__}")
    if path is None:
        path = _path(_decoded(encoded))
    return read(Request(path=path, body=encoded, caller=caller, project=project, session=session))


def _sent(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an SDK would send of its keyword arguments."""
    fields = {
        name: value
        for name, value in arguments.items()
        if name not in TRANSPORT and type(value).__name__ not in NOT_GIVEN
    }
    extra = arguments.get("extra_body")
    if isinstance(extra, Mapping):
        fields |= extra
    return _as_google_sends(fields) if "contents" in fields else fields


def _as_google_sends(fields: dict[str, Any]) -> dict[str, Any]:
    """Return one content as a list of one, and what Google's client takes apart as one body."""
    contents: Any = fields["contents"]
    config: Any = fields.get("config")
    if hasattr(config, "model_dump"):
        config = config.model_dump(exclude_none=True)
    return {
        **fields,
        **(config if isinstance(config, Mapping) else {}),
        "contents": contents if isinstance(contents, list | tuple) else [contents],
    }


def _encoded(fields: dict[str, Any]) -> bytes:
    try:
        return _encode(fields)
    except UNWRITABLE as error:
        for name, value in fields.items():
            _refuse_unwritable(name, value)
        raise CallError(f"a call cannot be written as JSON: {error}") from error


def _refuse_unwritable(name: str, value: Any) -> None:
    """Raise CallError if it is this field that cannot be written as JSON."""
    try:
        _encode({name: value})
    except RecursionError:
        raise CallError(f"{name}: is nested too deeply, or holds itself") from None
    except UNWRITABLE as error:
        raise CallError(f"{name}: cannot be written as JSON: {error}") from error


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        return _decode_fields(body)
    except UNREADABLE as error:
        raise CallError(f"a call is a JSON object: {error}") from error


def _path(fields: Mapping[str, Any]) -> str:
    """Return the path to which a body of that shape goes; "/" where no dialect has it."""
    if "jsonrpc" in fields:
        return "/mcp"
    if "messages" in fields:
        return "/v1/messages" if _is_anthropic(fields) else "/v1/chat/completions"
    if "contents" in fields:
        return f"/v1beta/models/{quote(str(fields.get('model') or ''), safe='')}:generateContent"
    if "input" in fields or isinstance(fields.get("prompt"), dict):
        return "/v1/responses"
    return "/v1/completions" if "prompt" in fields else "/"


def _is_anthropic(fields: Mapping[str, Any]) -> bool:
    """Say whether messages are Anthropic's, not OpenAI's, by what only one of the two has."""
    if "system" in fields or "anthropic_version" in fields:
        return True
    messages = [one for one in _list(fields["messages"]) if isinstance(one, dict)]
    kinds = {
        block["type"]
        for message in messages
        for block in _list(message.get("content"))
        if isinstance(block, dict) and isinstance(block.get("type"), str)
    }
    if kinds & ANTHROPIC_BLOCKS:
        return True
    # Both may send text in blocks, but Anthropic must say max_tokens and has only two roles.
    roles = {str(message.get("role")) for message in messages}
    shared = bool(kinds) and kinds <= SHARED_BLOCKS and roles <= {"user", "assistant"}
    return shared and "max_tokens" in fields


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
