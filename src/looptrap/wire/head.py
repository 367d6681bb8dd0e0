"""The head of a request, read strictly and line by line.

Clients send the same head over and over, all but its Content-Length, so what one says is
remembered: a known one costs a look-up, which is cheaper than any parser's callbacks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from looptrap.bounded import BoundedCache
from looptrap.wire.header_fields import parse_token_list
from looptrap.wire.refusal import RequestRefused, malformed_request

if TYPE_CHECKING:
    from looptrap.wire.header_fields import Field
    from looptrap.wire.limits import ServerLimits

HEAD_END = b"\r\n\r\n"
CHUNKED = -1
"""In place of a body length: the body says itself where it ends."""

_MAX_CACHED_HEADS = 1024
_MAX_CACHED_BYTES = 4096  # lines of larger heads are not remembered, which bounds what is
_REQUEST_LINE = re.compile(rb"([A-Z][A-Z_-]*) ([\x21\x22\x24-\x7e]+) HTTP/1\.([01])")
_OTHER_VERSION = re.compile(rb"[A-Z][A-Z_-]* [\x21-\x7e]+ HTTP/(?!1\.[01])[0-9]\.[0-9]")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*+([\t\x20-\x7e\x80-\xff]*)")
# Host is a name, an IPv4 address or a bracketed IPv6 one, with an optional port; it may be empty.
_HOST = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(/[^#]*|\?[^#]*|)", re.IGNORECASE)
_FORBIDDEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n|\Z)")
_EMPTY_LINES = re.compile(rb"(?:\r\n)*")
_SINGLE = (b"host", b"content-length", b"transfer-encoding", b"expect")


class Head:
    """What the head of a request says, but for the length of its body. Not to be changed."""

    __slots__ = (
        "awaits_continue",
        "headers",
        "is_chunked",
        "is_remembered",
        "keep_alive",
        "method",
        "target",
        "version",
    )

    method: bytes
    target: bytes
    version: Literal["1.0", "1.1"]
    headers: Sequence[Field]
    """Names lower-cased; order and duplicates as sent; without Content-Length."""
    keep_alive: bool
    awaits_continue: bool
    is_chunked: bool
    is_remembered: bool
    """Whether an equal head gives this very object again; a large one never does."""


class HeadReader:
    """Reads heads strictly; one that differs from an earlier one in its length only, at once."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._remembered: dict[bytes, Head] = {}

    def read(self, data: bytes) -> tuple[Head, int]:
        """Return what a head (without its end) says, and the body's length, or CHUNKED.

        Equal heads, Content-Length aside, give the very same object.
        """
        rest, length = _cut_length(data)
        head = self._remembered.get(rest)
        if head is not None:
            if not head.is_chunked:
                return head, length
            if length == 0 and rest is data:
                return head, CHUNKED
        return self._read_new(data, rest)

    def _read_new(self, data: bytes, rest: bytes) -> tuple[Head, int]:
        head, length = _parse(data, self._limits)
        # Under `rest` only what says nothing of a length itself, in whatever spelling.
        is_plain = (rest is data) == (length is None)
        if is_plain and len(rest) <= _MAX_CACHED_BYTES:
            if len(self._remembered) >= _MAX_CACHED_HEADS:
                self._remembered.clear()
            self._remembered[rest] = head
            head.is_remembered = True
        if head.is_chunked:
            return head, CHUNKED
        return head, 0 if length is None else int(length)


def _cut_length(data: bytes) -> tuple[bytes, int]:
    """Return a head less its (first) Content-Length line, where that is written as usual."""
    start = data.find(b"\r\nContent-Length: ")
    if start < 0:
        start = data.find(b"\r\ncontent-length: ")
        if start < 0:
            return data, 0
    end = data.find(b"\r\n", start + 18)
    if end < 0:
        end = len(data)
    value = data[start + 18 : end]
    if not value.isdigit() or len(value) > 18:
        return data, 0
    return data[:start] + data[end:], int(value)


def _parse(data: bytes, limits: ServerLimits) -> tuple[Head, bytes | None]:
    """Return what a head says, and its Content-Length."""
    check_partial(data + b"\r\n")  # first, as when it comes in pieces; a CR at its end is bare
    lines = data.split(b"\r\n", limits.max_headers + 1)
    if len(lines) > limits.max_headers + 1:
        raise RequestRefused(
            431, "too_many_headers", f"More than {limits.max_headers} request headers."
        )
    head = Head()
    head.is_remembered = False
    head.method, head.target, modern = _parse_request_line(lines.pop(0))
    if len(head.target) > limits.max_target:
        raise _target_too_long(limits)
    # The lines of memorable heads are remembered each: a new head has mostly known ones.
    headers = list(
        map(_parse_field_cached if len(data) <= _MAX_CACHED_BYTES else _parse_field, lines)
    )
    fields = dict(headers)
    if len(fields) != len(headers):
        _join_repeated(headers, fields)
    find = fields.get
    host = find(b"host")
    if host is None and modern:
        raise malformed_request("no Host header")
    if head.target[0] != 0x2F:
        head.target = _origin_form(head.method, head.target, host)
    head.version = "1.1" if modern else "1.0"
    head.headers = [field for field in headers if field[0] != b"content-length"]
    connection = find(b"connection")
    head.keep_alive = modern if connection is None else _persists(connection, modern)
    expect = find(b"expect")
    head.awaits_continue = expect is not None and _awaits_continue(expect, modern)
    length = find(b"content-length")
    coding = find(b"transfer-encoding")
    head.is_chunked = coding is not None and _is_chunked(coding, length, modern)
    return head, length


def check_partial(data: bytes, checked: int = 0) -> None:
    """Refuse the start of a head (`checked` bytes of it anew) that cannot become a good one."""
    # Once more from the last byte on: a CR there was neither good nor bad yet.
    if _FORBIDDEN.search(data, max(0, checked - 1)) is not None:
        raise malformed_request("control bytes or bare line ends in the head")


def skip_empty_lines(data: bytes, at: int) -> int:
    """Return where the empty lines end that some clients send after a body."""
    match = _EMPTY_LINES.match(data, at)
    assert match is not None  # it matches the empty string, too
    at = match.end()
    if data[at : at + 2].startswith((b"\r", b"\n")) and data[at:] != b"\r":
        raise malformed_request("a bare line end before the request line")
    return at


def head_too_long(data: bytes, limits: ServerLimits) -> RequestRefused:
    """Return the refusal of a head that has not ended within `max_head` bytes."""
    check_partial(data[: limits.max_head])
    if not 0 <= data.find(b"\r\n", 0, limits.max_head) <= limits.max_target:
        return _target_too_long(limits)
    return RequestRefused(
        431, "headers_too_large", f"The request headers are larger than {limits.max_head} bytes."
    )


def _parse_request_line(line: bytes) -> tuple[bytes, bytes, bool]:
    """Return method, target and whether this is HTTP/1.1, not 1.0."""
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        if _OTHER_VERSION.fullmatch(line) is None:
            raise malformed_request("the request line is not 'METHOD target HTTP/1.1'")
        raise RequestRefused(
            505, "version_not_supported", "Only HTTP/1.1 and HTTP/1.0 are spoken here."
        )
    if match[1] == b"CONNECT":
        raise RequestRefused(
            501, "method_not_supported", "CONNECT is not supported: this is no tunnel."
        )
    return match[1], match[2], match[3] == b"1"


def _parse_field(line: bytes) -> Field:
    """Return lower-cased name and value of a header line."""
    match = _FIELD.fullmatch(line)
    if match is None:
        raise malformed_request("invalid header line")
    name, value = match[1].lower(), match[2].rstrip(b" \t")
    if name == b"host" and _HOST.fullmatch(value) is None:
        raise malformed_request("invalid Host header")
    if name == b"content-length" and _LENGTH.fullmatch(value) is None:
        raise malformed_request("invalid Content-Length header")
    return name, value


_parse_field_cached = BoundedCache(_parse_field).__getitem__


def _target_too_long(limits: ServerLimits) -> RequestRefused:
    return RequestRefused(414, "url_too_long", f"The URL is longer than {limits.max_target} bytes.")


def _join_repeated(headers: list[Field], fields: dict[bytes, bytes]) -> None:
    """Refuse repeats of headers that must be single; make one list of repeated Connections."""
    names = [name for name, _ in headers]
    for name in _SINGLE:
        if names.count(name) > 1:
            raise malformed_request(f"more than one {name.decode()} header")
    if b"connection" in fields:
        values = [value for name, value in headers if name == b"connection"]
        fields[b"connection"] = b",".join(values)


def _origin_form(method: bytes, target: bytes, host: bytes | None) -> bytes:
    """Return path and query of an absolute target for this very host, and `*` for OPTIONS."""
    if target == b"*" and method == b"OPTIONS":
        return target
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise malformed_request("the target is neither a path nor a URL")
    if host is None or match[1].lower() != host.lower():
        raise malformed_request("the target names another host than the Host header")
    path = match[2]
    return path if path.startswith(b"/") else b"/" + path


def _persists(connection: bytes, modern: bool) -> bool:
    if connection == b"keep-alive":  # what most clients say, if anything
        return True
    listed = parse_token_list(connection)
    if b"close" in listed:
        return False
    return modern or b"keep-alive" in listed


def _awaits_continue(expect: bytes, modern: bool) -> bool:
    if expect.lower() != b"100-continue":
        raise RequestRefused(
            417, "expectation_failed", "Only 'Expect: 100-continue' is understood."
        )
    return modern


def _is_chunked(coding: bytes, length: bytes | None, modern: bool) -> bool:
    if not modern:
        raise malformed_request("Transfer-Encoding in an HTTP/1.0 request")
    if length is not None:
        raise malformed_request("both Transfer-Encoding and Content-Length")
    if coding.lower() != b"chunked":
        raise malformed_request("a Transfer-Encoding other than 'chunked'")
    return True
