"""What every dialect reads alike: canonical JSON, flattened text, names of tools, broken messages.

Canonical means that key order and spacing are gone: equal values give equal text.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from math import isfinite
from typing import Any
from urllib.parse import unquote

import msgspec

from looptrap.dialect.model import Message

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading bytes from outside can raise."""

ROLES = {"developer": "system", "model": "assistant", "function": "tool"}
"""Roles that dialects name differently, in neutral form."""

THOUGHT_KINDS = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Kinds of parts that read as nothing.

A model thinks in other words each time, its signatures and encrypted forms never repeat, and
clients drop old thoughts from a history. What was said, called and answered is what can repeat.
"""

VOLATILE_FIELDS = frozenset(
    {"cache_control", "encrypted_content", "signature", "thoughtSignature", "thought_signature"}
)
"""Fields of a part that differ from one request to the next though the part is the same."""

MAX_PATCHED_BYTES = 4 << 20
"""Bytes that are read a second time where they are not strict JSON."""

MAX_MENDED_BYTES = 512 << 10
"""Bytes that are mended, which takes many times as long as reading, while all others wait."""

MAX_DEPTH = 128
"""Levels of nesting that are kept where there are more than the decoders take."""

PAIR = len(b"\\ud83d\\ude00")

_SURROGATES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""The escape of a character beyond the first plane, or half of one."""

_NESTING = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
"""A string, which may hold brackets, or a bracket outside of strings."""

ABSENT = msgspec.Raw(b"null")
"""A field that was not sent, or sent as null."""

decode = msgspec.json.Decoder().decode
encode = msgspec.json.encode
_encode = msgspec.json.Encoder(order="deterministic").encode


def canonical(value: object) -> str:
    """Return the canonical JSON of a decoded value."""
    return _encode(value).decode()


def arguments(value: object) -> str:
    """Return a tool call's arguments, sent as JSON text or as a value, in canonical form.

    Text that is not JSON stays as it is; none at all is `{}`, as models send both.
    """
    if type(value) is not str:
        return "{}" if value is None else canonical(value)
    try:
        return _encode(decode(value)).decode()
    except UNREADABLE:
        return value if value and not value.isspace() else "{}"


def flatten(content: object) -> str:
    """Return the text of some content: text parts joined by line ends, others by their digest."""
    if type(content) is str:
        return content
    if content is None:
        return ""
    if type(content) is list:
        return "\n".join(text for part in content if (text := part_text(part)))
    return part_text(content)


def part_text(part: object) -> str:
    """Return one part's text; of another kind of part its digest, of anything else its JSON."""
    if not isinstance(part, dict):
        return part if isinstance(part, str) else canonical(part)
    kind = part.get("type")
    text = part.get("refusal" if kind == "refusal" else "text")
    if isinstance(text, str):
        return text
    if not isinstance(kind, str):
        return canonical(part)
    return "" if kind in THOUGHT_KINDS else digest(kind, part)


def digest(kind: str, part: dict[str, Any]) -> str:
    """Return a part as its kind and a short digest, such as `[image_url 3f2a90c1d2e4b586]`."""
    lasting = {key: value for key, value in part.items() if key not in VOLATILE_FIELDS}
    return f"[{kind} {blake2b(_encode(lasting), digest_size=8).hexdigest()}]"


def identity(value: object) -> str:
    """Return an id as text, whatever type it was sent as; nothing for null."""
    if type(value) is str:
        return value
    return "" if value is None else canonical(value)


def role(name: object) -> str:
    """Return a role in neutral form; "" for what cannot be one."""
    return ROLES.get(name, name) if type(name) is str else ""


def malformed(raw: msgspec.Raw) -> Message:
    """Return a message that does not fit its dialect: its role if it has one, its JSON as text."""
    try:
        value = decode(mend(bytes(raw)))
        return Message(role(value.get("role")) if type(value) is dict else "", canonical(value))
    except UNREADABLE:
        return Message("", bytes(raw).decode("utf-8", "replace"))


def mend(body: bytes) -> bytes:
    """Return strict JSON for what is nearly JSON; raises ValueError or RecursionError otherwise.

    Clients that cut strings by length send half an emoji, Python's own encoder writes NaN, and
    its decoder takes numbers of any size. Some providers take them all; so must a guard.
    """
    if len(body) > MAX_MENDED_BYTES:
        raise ValueError(f"more than {MAX_MENDED_BYTES} bytes")
    text = patch(as_utf8(body)).decode()
    try:
        return _encode(_lenient(text))
    except RecursionError:
        return _encode(_lenient(_shallow(text)))


def patch(body: bytes) -> bytes:
    """Return the bytes with every half of a character replaced: quickly, so at any size."""
    return _SURROGATES.sub(_whole, body.decode("utf-8", "replace").encode())


def as_utf8(body: bytes) -> bytes:
    """Return JSON text in UTF-8 without a byte-order mark; as it is where it is already."""
    encoding = json.detect_encoding(body)
    if encoding == "utf-8":
        return body
    return body.decode(encoding, "replace").encode("utf-8", "replace")


def _whole(found: re.Match[bytes]) -> bytes:
    return found[0] if len(found[0]) == PAIR else b"\\ufffd"


def _finite(number: str) -> float | str:
    value = float(number)
    return value if isfinite(value) else number


def _bounded(number: str) -> int | str:
    try:
        return int(number)
    except ValueError:  # more digits than Python converts
        return number


# Control characters in strings are accepted, as many parsers accept them.
_lenient = json.JSONDecoder(
    parse_constant=str, parse_float=_finite, parse_int=_bounded, strict=False
).decode


def _shallow(text: str) -> str:
    """Return JSON text in which each value below DEEPEST levels is a digest of its text."""
    kept: list[str] = []
    depth = done = start = 0
    for token in _NESTING.finditer(text):
        mark = text[token.start()]
        if mark in "[{":
            depth += 1
            if depth == MAX_DEPTH:
                start = token.start()
        elif mark in "]}":
            if depth == MAX_DEPTH:
                deep = text[start : token.end()].encode("utf-8", "surrogatepass")
                kept += (text[done:start], f'"[deep {blake2b(deep, digest_size=8).hexdigest()}]"')
                done = token.end()
            depth -= 1
    return "".join([*kept, text[done:]])


def raw_message(by: bytes, content: msgspec.Raw | bytes) -> msgspec.Raw:
    """Return content that stands outside the messages as a raw message of that role."""
    return msgspec.Raw(b'{"role":"%b","content":%b}' % (by, bytes(content)))


@lru_cache(maxsize=256)
def model_in_path(path: str) -> str:
    """Return the model a path names, as Azure's, Bedrock's (`…/model/x/…`) and Google's do."""
    # Escaped slashes may be part of a name: the path is split before it is decoded.
    segments = [unquote(one).partition(";")[0].strip() for one in path.split("/")]
    named = [one for one in segments if one not in ("", ".")] or [""]
    for segment, name in pairwise(named):
        if segment.lower() in ("deployments", "model"):
            return name
    return named[-1].rpartition(":")[0]


def tool_names(offered: msgspec.Raw) -> tuple[str, ...]:
    """Return the names of the tools offered; a built-in tool's kind, where it has no name.

    An agent offers the same tools over and over: what was read is remembered.
    """
    text = bytes(offered)
    return _known_names(text) if len(text) <= _MEMORABLE else _known_names.__wrapped__(text)


_MEMORABLE = 16_384


@lru_cache(maxsize=128)
def _known_names(offered: bytes) -> tuple[str, ...]:
    try:
        tools = decode(offered)
    except UNREADABLE:
        return ()
    if type(tools) is not list:
        return ()
    return tuple(name for tool in tools if type(tool) is dict for name in _names(tool))


def _names(tool: dict[str, Any]) -> list[str]:
    declared = tool.get("functionDeclarations", tool.get("function_declarations"))
    if type(declared) is list:
        return [name for inner in declared if type(inner) is dict for name in _names(inner)]
    kind = tool.get("type")
    inner = tool.get(kind) if type(kind) is str else None
    name = tool.get("name") or (inner.get("name") if type(inner) is dict else None) or kind
    if type(name) is str:
        return [name]
    return [] if tool.get("name") else [key for key in tool if key not in VOLATILE_FIELDS]
