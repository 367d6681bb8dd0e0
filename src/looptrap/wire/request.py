"""Requests, parsed strictly and within limits: heads line by line, bodies in pieces; refusals.

Clients repeat the same head, apart from its Content-Length, so parsed heads are cached: a known one
costs a look-up, which is cheaper than any parser's callbacks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from looptrap.bounded import BoundedCache
from looptrap.wire.header_fields import parse_token_list

if TYPE_CHECKING:
    from looptrap.wire.exchange import Exchange
    from looptrap.wire.header_fields import Field
    from looptrap.wire.limits import ServerLimits

RefusalBuilder = Callable[["Exchange[Any] | None", int, str, str], tuple[list["Field"], bytes]]
"""(exchange if its head was read, status, code, message) → headers and body of the answer."""


class RequestRefused(Exception):  # noqa: N818 - the expected end of a bad request, not a fault of ours
    """The request is refused; the connection closes after the answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def malformed_request(what: str) -> RequestRefused:
    """Return the refusal of a request that breaks the rules of HTTP/1.1."""
    return RequestRefused(400, "malformed_request", f"Malformed HTTP request: {what}.")


def json_refusal(
    exchange: Exchange[Any] | None,  # noqa: ARG001 - the shape of `RefusalBuilder`
    status: int,
    code: str,
    message: str,
) -> tuple[list[Field], bytes]:
    """Return headers and body in OpenAI's error format."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    headers = [(b"Content-Type", b"application/json")]
    if status == 503:
        headers.append((b"Retry-After", b"1"))
    return headers, json.dumps({"error": error}).encode()


def request_timed_out(part: str, seconds: float) -> RequestRefused:
    """Return the refusal of a request whose head or body came too slowly."""
    message = f"The request's {part} was awaited for {seconds:g} s."
    return RequestRefused(408, "request_timeout", message)


def overloaded(why: str) -> RequestRefused:
    """Return the refusal of a request for lack of room."""
    return RequestRefused(503, "overloaded", f"{why} Try again later.")


HEAD_END = b"\r\n\r\n"
CHUNKED = -1
"""The body length of a chunked body."""

_MAX_CACHED_HEADS = 1024
_MAX_CACHED_BYTES = 4096  # lines of larger heads are not cached, which bounds the cache
_REQUEST_LINE = re.compile(rb"([A-Z][A-Z_-]*) ([\x21\x22\x24-\x7e]+) HTTP/1\.([01])")
_OTHER_VERSION = re.compile(rb"[A-Z][A-Z_-]* [\x21-\x7e]+ HTTP/(?!1\.[01])[0-9]\.[0-9]")
FIELD_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*+([\t\x20-\x7e\x80-\xff]*)")
# Host is a name, an IPv4 address or a bracketed IPv6 one, with an optional port; it may be empty.
_HOST = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(/[^#]*|\?[^#]*|)", re.IGNORECASE)
_FORBIDDEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n|\Z)")
_EMPTY_LINES = re.compile(rb"(?:\r\n)*")
_SINGLE = (b"host", b"content-length", b"transfer-encoding", b"expect")


@dataclass(slots=True, kw_only=True, eq=False)
class Head:
    """A parsed request head without the body length. Shared, so not to be changed."""

    method: bytes
    target: bytes
    version: Literal["1.0", "1.1"]
    headers: Sequence[Field]
    """Names lower-cased; order and duplicates as sent; without Content-Length."""
    keep_alive: bool
    awaits_continue: bool
    is_chunked: bool
    is_cached: bool = False
    """Whether an equal head is parsed to this same object; never for a large one."""


class HeadReader:
    """Parses heads strictly, with a cache."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._cached: dict[bytes, Head] = {}

    def read(self, data: bytes) -> tuple[Head, int]:
        """Parse a head (without its end); return it with the body's length, or CHUNKED.

        Equal heads, apart from Content-Length, give the same object.
        """
        rest, length = _cut_length(data)
        head = self._cached.get(rest)
        if head is not None:
            if not head.is_chunked:
                return head, length
            if length == 0 and rest is data:
                return head, CHUNKED
        return self._read_new(data, rest)

    def _read_new(self, data: bytes, rest: bytes) -> tuple[Head, int]:
        head, length = _parse(data, self._limits)
        # Cached under `rest` only if that holds no length itself, in whatever spelling.
        is_plain = (rest is data) == (length is None)
        if is_plain and len(rest) <= _MAX_CACHED_BYTES:
            if len(self._cached) >= _MAX_CACHED_HEADS:
                self._cached.clear()
            self._cached[rest] = head
            head.is_cached = True
        if head.is_chunked:
            return head, CHUNKED
        return head, 0 if length is None else int(length)


def _cut_length(data: bytes) -> tuple[bytes, int]:
    """Return a head without its first Content-Length line, if that has the usual form."""
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
    """Parse a head; return it with its Content-Length."""
    check_partial(data + b"\r\n")  # first, as for partial heads; a CR at its end is bare
    lines = data.split(b"\r\n", limits.max_headers + 1)
    if len(lines) > limits.max_headers + 1:
        message = f"More than {limits.max_headers} request headers."
        raise RequestRefused(431, "too_many_headers", message)
    method, target, is_http11 = _parse_request_line(lines.pop(0))
    if len(target) > limits.max_target:
        raise _target_too_long(limits)
    # Lines of heads that can be cached are cached too: a new head has mostly known lines.
    parse = _parse_field_cached if len(data) <= _MAX_CACHED_BYTES else _parse_field
    headers = list(map(parse, lines))
    fields = dict(headers)
    if len(fields) != len(headers):
        _join_repeated(headers, fields)
    get = fields.get
    host = get(b"host")
    if host is None and is_http11:
        raise malformed_request("no Host header")
    if target[0] != 0x2F:
        target = _origin_form(method, target, host)
    connection, expect = get(b"connection"), get(b"expect")
    length, coding = get(b"content-length"), get(b"transfer-encoding")
    head = Head(
        method=method,
        target=target,
        version="1.1" if is_http11 else "1.0",
        headers=[field for field in headers if field[0] != b"content-length"],
        keep_alive=is_http11 if connection is None else _persists(connection, is_http11),
        awaits_continue=expect is not None and _awaits_continue(expect, is_http11),
        is_chunked=coding is not None and _is_chunked(coding, length, is_http11),
    )
    return head, length


def check_partial(data: bytes, checked: int = 0) -> None:
    """Refuse the start of a head that cannot become valid; `checked` bytes were checked before."""
    # Again from the last checked byte on: a CR there could not be judged yet.
    if _FORBIDDEN.search(data, max(0, checked - 1)) is not None:
        raise malformed_request("control bytes or bare line ends in the head")


def skip_empty_lines(data: bytes, at: int) -> int:
    """Skip the empty lines that some clients send after a body; return their end."""
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
    message = f"The request headers are larger than {limits.max_head} bytes."
    return RequestRefused(431, "headers_too_large", message)


def _parse_request_line(line: bytes) -> tuple[bytes, bytes, bool]:
    """Return method, target and whether this is HTTP/1.1, not 1.0."""
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        if _OTHER_VERSION.fullmatch(line) is None:
            raise malformed_request("the request line is not 'METHOD target HTTP/1.1'")
        message = "Only HTTP/1.1 and HTTP/1.0 are supported."
        raise RequestRefused(505, "version_not_supported", message)
    if match[1] == b"CONNECT":
        raise RequestRefused(501, "method_not_supported", "CONNECT is not supported.")
    return match[1], match[2], match[3] == b"1"


def _parse_field(line: bytes) -> Field:
    """Return lower-cased name and value of a header line."""
    match = FIELD_LINE.fullmatch(line)
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
    """Return path and query of an absolute target with the same host; `*` for OPTIONS."""
    if target == b"*" and method == b"OPTIONS":
        return target
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise malformed_request("the target is neither a path nor a URL")
    if host is None or match[1].lower() != host.lower():
        raise malformed_request("the target names another host than the Host header")
    path = match[2]
    return path if path.startswith(b"/") else b"/" + path


def _persists(connection: bytes, is_http11: bool) -> bool:
    if connection == b"keep-alive":  # the usual value
        return True
    listed = parse_token_list(connection)
    if b"close" in listed:
        return False
    return is_http11 or b"keep-alive" in listed


def _awaits_continue(expect: bytes, is_http11: bool) -> bool:
    if expect.lower() != b"100-continue":
        raise RequestRefused(417, "expectation_failed", "Only 'Expect: 100-continue' is supported.")
    return is_http11


def _is_chunked(coding: bytes, length: bytes | None, is_http11: bool) -> bool:
    if not is_http11:
        raise malformed_request("Transfer-Encoding in an HTTP/1.0 request")
    if length is not None:
        raise malformed_request("both Transfer-Encoding and Content-Length")
    if coding.lower() != b"chunked":
        raise malformed_request("a Transfer-Encoding other than 'chunked'")
    return True


_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?", re.DOTALL)
_TRAILER_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*", re.DOTALL)
_MAX_CHUNK_LINE = 256
_SMALL_PIECE_BYTES = 4096  # a list of one-byte pieces would cost many times the bytes sent


def body_too_large(limit: int) -> RequestRefused:
    """Return the refusal of a body that exceeds `limit` bytes."""
    message = f"The request body is larger than {limit} bytes."
    return RequestRefused(413, "request_too_large", message)


def _trailers_too_large() -> RequestRefused:
    return RequestRefused(431, "headers_too_large", "The trailers of the body are too large.")


class SizedBody:
    """A body of exactly `length` bytes."""

    __slots__ = ("_missing", "_pieces", "size")

    def __init__(self, length: int) -> None:
        self._missing = length
        self._pieces: list[bytes | bytearray] = []
        self.size = 0

    def feed(self, data: bytes, at: int) -> int | None:
        """Consume body bytes; return how many bytes follow the body, None if it is incomplete."""
        left = len(data) - at - self._missing
        piece = data[at : at + self._missing]
        if len(piece) < _SMALL_PIECE_BYTES and self._pieces:
            self._add_small(piece)
        else:
            self._pieces.append(piece)
        self.size += len(piece)
        self._missing -= len(piece)
        return left if left >= 0 else None

    def content(self) -> bytes:
        """Return the whole body."""
        return b"".join(self._pieces)

    def _add_small(self, piece: bytes) -> None:
        """Append a small piece to one growing buffer."""
        last = self._pieces[-1]
        if isinstance(last, bytearray):
            last += piece
        else:
            self._pieces.append(bytearray(piece))


class ChunkedBody:
    """A chunked body; extensions and trailers are checked and dropped."""

    __slots__ = ("_content", "_limits", "_missing", "_partial", "_trailer_bytes")

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        # One growing buffer: a list of one-byte chunks would cost many times the bytes sent.
        self._content = bytearray()
        self._partial = b""
        self._missing = 0  # of the current chunk, with the line end after its data
        self._trailer_bytes = -1  # -1: the last chunk has not come yet

    @property
    def size(self) -> int:
        """Bytes held so far."""
        return len(self._content) + len(self._partial)

    def feed(self, data: bytes, at: int) -> int | None:
        """Consume body bytes; return how many bytes follow the body, None if it is incomplete."""
        if self._partial:
            data = self._partial + data[at:]
            at = 0
            self._partial = b""
        end = len(data)
        while True:
            if self._missing:
                at = self._take_data(data, at)
                if self._missing:
                    self._partial = data[at:]
                    return None
            line_end = data.find(b"\n", at)
            if line_end < 0:
                self._hold_line(data[at:end])
                return None
            line = data[at:line_end]
            at = line_end + 1
            if line[-1:] != b"\r":
                raise malformed_request("a line of the chunked body ends without CR")
            if self._trailer_bytes < 0:
                self._start_chunk(line[:-1])
            elif len(line) == 1:
                return end - at
            else:
                self._drop_trailer(line)

    def _take_data(self, data: bytes, at: int) -> int:
        """Copy the current chunk's data from `at` on; return where the rest starts."""
        content = min(self._missing - 2, len(data) - at)
        if content > 0:
            self._content += memoryview(data)[at : at + content]
            self._missing -= content
            at += content
        if self._missing == 2 and len(data) > at:
            line_end = data[at : at + 2]
            if not b"\r\n".startswith(line_end):
                raise malformed_request("the data of a chunk does not end where its size says")
            if len(line_end) == 2:
                self._missing = 0
                at += 2
        return at

    def _start_chunk(self, line: bytes) -> None:
        match = _CHUNK_LINE.fullmatch(line) if len(line) <= _MAX_CHUNK_LINE else None
        if match is None:
            raise malformed_request("invalid chunk size")
        size = int(match[1], 16)
        if size == 0:
            self._trailer_bytes = 0
        elif len(self._content) + size > self._limits.max_body:
            raise body_too_large(self._limits.max_body)
        else:
            self._missing = size + 2

    def _drop_trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line)
        if self._trailer_bytes > self._limits.max_head:
            raise _trailers_too_large()
        if _TRAILER_LINE.fullmatch(line[:-1]) is None:
            raise malformed_request("invalid trailer")

    def _hold_line(self, line: bytes) -> None:
        """Keep the start of a line whose end has not come yet."""
        if self._trailer_bytes < 0:
            if len(line) > _MAX_CHUNK_LINE + 1:
                raise malformed_request("invalid chunk size")
        elif self._trailer_bytes + len(line) > self._limits.max_head:
            raise _trailers_too_large()
        self._partial = line

    def content(self) -> bytes:
        """Return the whole body."""
        return bytes(self._content)
