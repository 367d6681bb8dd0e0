"""Reading that all dialects share: canonical JSON, flattened text, names of tools, broken messages.

Canonical JSON has sorted keys and no spaces: equal values give equal text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import blake2b
from math import isfinite
from typing import Any, TypeVar

import msgspec

from looptrap.bounded import BoundedCache
from looptrap.dialect.model import Json, Message, ToolCall, ToolResult

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""Errors that reading bytes from outside can raise."""

ROLES = {"developer": "system", "model": "assistant", "function": "tool"}
"""The neutral names of roles that dialects name differently."""

THOUGHT_KINDS = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Kinds of parts that read as empty text.

A model words its thoughts differently each time, their signatures and encrypted forms never
repeat, and clients drop old thoughts from a history. Only texts, calls and results can repeat.
"""

VOLATILE_FIELDS = frozenset(
    {"cache_control", "encrypted_content", "signature", "thoughtSignature", "thought_signature"}
)
"""Fields of a part that change between requests although the part is the same."""

MAX_PATCHED_BYTES = 4 << 20
"""Limit for a second, lenient reading of a body that is not strict JSON."""

MAX_MENDED_BYTES = 512 << 10
"""Limit for `mend`, which takes many times as long as reading and delays all other calls."""

MAX_DEPTH = 128
"""Levels of nesting that `mend` keeps where a body has more than the decoders accept."""

ABSENT = msgspec.Raw(b"null")
"""A field that was not sent, or sent as null."""

_SURROGATES = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""The escape of a character beyond the first plane (a group), or half of one."""

_NESTING = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
"""A string, which may hold brackets, or a bracket outside of strings."""

T = TypeVar("T")

decode = msgspec.json.Decoder().decode
encode = msgspec.json.encode
_encode = msgspec.json.Encoder(order="deterministic").encode


def decode_or_none(data: Any, decode: Callable[[Any], T] = decode) -> T | None:
    """Return the decoded value; None where the data cannot be read."""
    try:
        return decode(data)
    except UNREADABLE:
        return None


def canonical(value: object) -> str:
    """Return the canonical JSON of a decoded value."""
    return _encode(value).decode()


def canonical_arguments(value: object) -> str:
    """Return a tool call's arguments, sent as JSON text or as a value, in canonical form.

    Text that is not JSON is unchanged. Missing arguments are `{}`: models send both.
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
    """Return a part's text; of another kind of part its digest, of anything else its JSON."""
    if not isinstance(part, dict):
        return part if isinstance(part, str) else canonical(part)
    kind = part.get("type")
    text = part.get("refusal" if kind == "refusal" else "text")
    if isinstance(text, str):
        return text
    if not isinstance(kind, str):
        return canonical(part)
    return "" if kind in THOUGHT_KINDS else digest(kind, part)


def untyped_text(part: Json) -> str:
    """Return the text of a part without a type; of another one its digest."""
    text = part.get("text")
    if isinstance(text, str):
        return text
    return digest(min((key for key in part if isinstance(part[key], dict)), default="part"), part)


def digest(kind: str, part: Json) -> str:
    """Return a part as its kind and a short digest, such as `[image_url 3f2a90c1d2e4b586]`."""
    lasting = {key: value for key, value in part.items() if key not in VOLATILE_FIELDS}
    return f"[{kind} {blake2b(_encode(lasting), digest_size=8).hexdigest()}]"


def id_text(value: object) -> str:
    """Return an id as text, whatever its type; "" for null."""
    if type(value) is str:
        return value
    return "" if value is None else canonical(value)


def read_tool_call(sent: Json, id_field: str, arguments_field: str) -> ToolCall:
    """Read a tool call whose id and arguments are in the fields of these names."""
    arguments = canonical_arguments(sent.get(arguments_field))
    return ToolCall(id_text(sent.get(id_field)), id_text(sent.get("name")), arguments)


class MessageParts(msgspec.Struct, gc=False):
    """The parts of a message while they are read."""

    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []

    def message(self, role: str) -> Message:
        """Return the message; one of a user with only results is a tool's."""
        if self.results and role == "user" and not self.texts:
            role = "tool"
        return Message(role, "\n".join(self.texts), tuple(self.calls), tuple(self.results))


def malformed_message(raw: msgspec.Raw) -> Message:
    """Return a message that does not fit its dialect: its role, if it has one, and its JSON."""
    try:
        value = decode(mend(bytes(raw)))
        role = value.get("role") if type(value) is dict else None
        return Message(ROLES.get(role, role) if type(role) is str else "", canonical(value))
    except UNREADABLE:
        return Message("", bytes(raw).decode("utf-8", "replace"))


def raw_message(role: bytes, content: msgspec.Raw | bytes) -> msgspec.Raw:
    """Return content from outside the messages as a raw message of that role."""
    return msgspec.Raw(b'{"role":"%b","content":%b}' % (role, bytes(content)))


# Nearly JSON


def mend(body: bytes) -> bytes:
    """Return strict JSON for what is nearly JSON; raises ValueError or RecursionError otherwise.

    Clients that cut strings by length send half an emoji, Python's own encoder writes NaN, and
    its decoder accepts numbers of any size. Some providers accept all of these; so must a guard.
    """
    if len(body) > MAX_MENDED_BYTES:
        raise ValueError(f"more than {MAX_MENDED_BYTES} bytes")
    text = patch(as_utf8(body)).decode()
    try:
        return _encode(_decode_lenient(text))
    except RecursionError:
        return _encode(_decode_lenient(_limit_depth(text)))


def decode_mended(body: bytes, decode: Callable[[bytes], T] = decode) -> T:
    """Decode a body, mended where it is not strict JSON; raises `UNREADABLE`."""
    try:
        return decode(body)
    except UNREADABLE:
        return decode(mend(body))


def patch(body: bytes) -> bytes:
    """Return the bytes with every half of a character replaced; fast enough for any size."""
    text = body.decode("utf-8", "replace").encode()
    return _SURROGATES.sub(lambda found: found[1] or b"\\ufffd", text)


def as_utf8(body: bytes) -> bytes:
    """Return JSON text in UTF-8 without a byte-order mark."""
    encoding = json.detect_encoding(body)
    if encoding == "utf-8":
        return body
    return body.decode(encoding, "replace").encode("utf-8", "replace")


def _parse_float(number: str) -> float | str:
    value = float(number)
    return value if isfinite(value) else number


def _parse_int(number: str) -> int | str:
    try:
        return int(number)
    except ValueError:  # more digits than Python converts
        return number


# Control characters in strings are accepted, as many parsers accept them.
_decode_lenient = json.JSONDecoder(
    parse_constant=str, parse_float=_parse_float, parse_int=_parse_int, strict=False
).decode


def _limit_depth(text: str) -> str:
    """Return JSON text in which each value below MAX_DEPTH levels is a digest of its text."""
    pieces: list[str] = []
    depth = end = start = 0
    for token in _NESTING.finditer(text):
        mark = text[token.start()]
        if mark in "[{":
            depth += 1
            if depth == MAX_DEPTH:
                start = token.start()
        elif mark in "]}":
            if depth == MAX_DEPTH:
                deep = text[start : token.end()].encode("utf-8", "surrogatepass")
                pieces += (text[end:start], f'"[deep {blake2b(deep, digest_size=8).hexdigest()}]"')
                end = token.end()
            depth -= 1
    return "".join([*pieces, text[end:]])


# Tools


def tool_names(tools: msgspec.Raw) -> tuple[str, ...]:
    """Return the names of the tools offered; the kind of a built-in tool without a name.

    An agent offers the same tools in every call, so the names are cached.
    """
    return _known_names[bytes(tools)]


def _names_in(tools: object) -> list[str]:
    if type(tools) is not list:
        return []
    return [name for tool in tools if type(tool) is dict for name in _names_of(tool)]


def _names_of(tool: Json) -> list[str]:
    declared = tool.get("functionDeclarations", tool.get("function_declarations"))
    if type(declared) is list:
        return _names_in(declared)
    kind = tool.get("type")
    inner = tool.get(kind) if type(kind) is str else None
    name = tool.get("name") or (inner.get("name") if type(inner) is dict else None) or kind
    if type(name) is str:
        # A built-in tool is called without its version: `computer_use_preview` as `computer`.
        is_built_in = name is kind
        called = name.partition("_preview")[0].removesuffix("_use") if is_built_in else name
        return [name] if called == name else [name, called]
    return [] if tool.get("name") else [key for key in tool if key not in VOLATILE_FIELDS]


_known_names = BoundedCache(
    lambda tools: tuple(_names_in(decode_or_none(tools))), max_entries=128, max_key_bytes=16_384
)
