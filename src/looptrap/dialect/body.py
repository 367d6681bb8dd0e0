"""Calls inside a process: an SDK's keyword arguments, or a body, recognised by shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.model import Call, Json, Request
from looptrap.dialect.registry import read
from looptrap.errors import CallError

TRANSPORT = frozenset({"extra_body", "extra_headers", "extra_query", "timeout"})
"""Keyword arguments for the SDK itself; the fields of `extra_body` are sent like the others."""

MISSING_TYPES = frozenset({"NotGiven", "Omit"})
"""The types by which OpenAI's and Anthropic's SDKs mark a missing argument."""

UNENCODABLE = (TypeError, ValueError, RecursionError, msgspec.MsgspecError)
"""Errors that encoding a caller's objects can raise."""

ANTHROPIC_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})
SHARED_BLOCKS = frozenset({"text", "image", "document"})

INTERACTION_FIELDS = frozenset(
    {"generation_config", "previous_interaction_id", "system_instruction"}
)
"""Fields beside an `input` that only Gemini's Interactions API has."""


def _plain(value: Any) -> Any:
    """Convert an object of an SDK or of the caller for JSON."""
    if isinstance(value, Mapping):
        return dict(value)
    if callable(value) and hasattr(value, "__name__"):
        return {"name": value.__name__}  # a function as a tool, a class as a format
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_none=True)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"it has a value of type {type(value).__name__}")


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
    """Read a request body, or the keyword arguments of an SDK's call, as a request to `path`.

    Without a path the dialect is recognised by shape. Raises CallError for a body that is not a
    JSON object and cannot be encoded as one.
    """
    if isinstance(body, Mapping):
        body = _encode_fields(_sent_fields(body))
    elif not isinstance(body, bytes):
        raise CallError(f"a call is a mapping or the bytes of one, not {type(body).__name__}")
    if path is None:
        try:
            path = _path_of(_decode_fields(body))
        except UNREADABLE as error:
            raise CallError(f"a call is a JSON object: {error}") from error
    return read(Request(path=path, body=body, caller=caller, project=project, session=session))


def _sent_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that an SDK sends of its keyword arguments."""
    fields = {
        name: value
        for name, value in arguments.items()
        if name not in TRANSPORT and type(value).__name__ not in MISSING_TYPES
    }
    extra = arguments.get("extra_body")
    if isinstance(extra, Mapping):
        fields |= extra
    if "contents" in fields:  # Google's client has one content without a list, and a `config`
        contents: Any = fields["contents"]
        config: Any = fields.get("config")
        if hasattr(config, "model_dump"):
            config = config.model_dump(exclude_none=True)
        fields |= config if isinstance(config, Mapping) else {}
        fields["contents"] = contents if isinstance(contents, list | tuple) else [contents]
    return fields


def _encode_fields(fields: dict[str, Any]) -> bytes:
    try:
        return _encode(fields)
    except UNENCODABLE as error:
        for name, value in fields.items():
            _check_encodable(name, value)
        raise CallError(f"a call cannot be written as JSON: {error}") from error


def _check_encodable(name: str, value: Any) -> None:
    try:
        _encode({name: value})
    except RecursionError:
        raise CallError(f"{name}: is nested too deeply, or holds itself") from None
    except UNENCODABLE as error:
        raise CallError(f"{name}: cannot be written as JSON: {error}") from error


def _path_of(fields: Mapping[str, Any]) -> str:
    """Return the path for a body of that shape; "/" where no dialect has it."""
    if "jsonrpc" in fields:
        return "/mcp"
    if "messages" in fields:
        return "/v1/messages" if _is_anthropic(fields) else "/v1/chat/completions"
    if "contents" in fields:
        return f"/v1beta/models/{quote(str(fields.get('model') or ''), safe='')}:generateContent"
    if "input" in fields and fields.keys() & INTERACTION_FIELDS:
        return "/v1beta/interactions"
    if "input" in fields or isinstance(fields.get("prompt"), dict):
        return "/v1/responses"
    return "/v1/completions" if "prompt" in fields else "/"


def _is_anthropic(fields: Mapping[str, Any]) -> bool:
    """Return whether messages are Anthropic's, not OpenAI's, by what only one of the two has."""
    if "system" in fields or "anthropic_version" in fields:
        return True
    messages = _objects(fields["messages"])
    blocks = (block for message in messages for block in _objects(message.get("content")))
    kinds = {block["type"] for block in blocks if isinstance(block.get("type"), str)}
    if kinds & ANTHROPIC_BLOCKS:
        return True
    # Both may send text in blocks, but only Anthropic requires max_tokens and has only two roles.
    roles = {str(message.get("role")) for message in messages}
    is_shared = bool(kinds) and kinds <= SHARED_BLOCKS and roles <= {"user", "assistant"}
    return is_shared and "max_tokens" in fields


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
