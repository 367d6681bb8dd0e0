"""ServerConnection: requests in, one at a time; answers out, in order."""

from __future__ import annotations

import asyncio
import socket
import struct
from ipaddress import IPv6Address
from itertools import count
from typing import TYPE_CHECKING, Any

from looptrap.wire.exchange import Exchange
from looptrap.wire.header_fields import encode_head
from looptrap.wire.limits import MEGABYTE
from looptrap.wire.request import (
    CHUNKED,
    HEAD_END,
    ChunkedBody,
    RequestRefused,
    SizedBody,
    body_too_large,
    check_partial,
    head_too_long,
    overloaded,
    request_timed_out,
    skip_empty_lines,
)
from looptrap.wire.write_queue import MAX_QUEUED_BYTES

if TYPE_CHECKING:
    from looptrap.wire.server import Server


MAX_LINGER_BYTES = MEGABYTE
LINGER_TIMEOUT_S = 2.0
_LINGER_ZERO = struct.pack("ii", 1, 0)
MAX_HELD_BYTES = 64 * 1024
"""Bytes buffered while a request is unanswered; beyond it, the socket is not read."""
_BUFFER_FULL_MESSAGE = "The server holds too many request bytes already."
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_numbers = count(1)


def network_of(peer: str) -> str:
    """Return the unit that connections are counted by: an IPv4 address or an IPv6 /64."""
    if ":" not in peer:
        return peer
    address = IPv6Address(peer.partition("%")[0])
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else address.packed[:8].hex()


class ServerConnection:
    """Reads one request, waits for its answer, reads the next.

    `exchange` is the request being read or answered, `incoming` its body while that is incomplete,
    `_held` what has arrived but cannot be read yet.
    """

    __slots__ = (
        "_counted", "_drained", "_ended", "_held", "_outgoing", "_reading_paused", "_unsent",
        "_writing_paused", "deadline", "exchange", "incoming", "network", "number", "peer",
        "server", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self.server = server
        self.deadline = 0.0
        self.peer = ""
        self.network = ""
        self.number = next(_numbers)
        """One that no other connection of this process has or had."""
        self.exchange: Exchange[Any] | None = None
        self.incoming: SizedBody | ChunkedBody | None = None
        self._held = b""
        self._counted = 0  # bytes of the current body, as counted in `server.buffered_bytes`
        self._ended = False  # nothing more is read as a request
        self._drained = 0
        self._reading_paused = False
        self._writing_paused = False
        self._unsent = 0  # bytes of a slow reader's answer, at the last check
        self._outgoing = b""  # what is sent at the end of this turn of the loop

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start; the server decides whether there is room."""
        self.transport = transport
        peername = transport.get_extra_info("peername")
        self.peer = peername[0] if peername else ""
        self.network = network_of(self.peer)
        self.deadline = self.server.clock() + self.server.limits.keepalive_timeout
        self.server.admit(self)

    def data_received(self, data: bytes) -> None:
        """Read requests, or keep the bytes until the current one is answered."""
        if self._ended:
            self._drained += len(data)  # dropped; the kernel has the rest
            if self._drained > MAX_LINGER_BYTES:
                self._pause_reading()
        elif self._writing_paused or (self.exchange is not None and self.incoming is None):
            self._hold(self._held + data)
            if len(self._held) > MAX_HELD_BYTES:
                self._pause_reading()
        else:
            self._read(data)

    def eof_received(self) -> None:
        """Treat the client's EOF as a disconnect, so that work for it can stop."""
        self.send()
        if self.exchange is not None:
            self.cut()

    def pause_writing(self) -> None:
        """Pause the source of the answer: the client reads slowly, and must make progress."""
        self._writing_paused = True
        self._unsent = self.transport.get_write_buffer_size()
        self.deadline = self.server.clock() + self.server.limits.write_timeout
        if self.exchange is not None and self.exchange.source is not None:
            self.exchange.source.pause()

    def resume_writing(self) -> None:
        """Resume the answer, or the next request: the client has caught up."""
        self._writing_paused = False
        if self._ended:
            return
        self.deadline = self.server.clock() + self.server.limits.keepalive_timeout
        exchange = self.exchange
        if exchange is None or self.incoming is not None:
            self._read_held()
        if exchange is not None and exchange.source is not None:
            exchange.source.resume()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Clean up; notify the handler if an answer was still due."""
        self._disconnect()
        self.server.remove(self)

    # Called by exchanges and the server

    def write(self, data: bytes) -> None:
        """Send bytes: at the end of this turn of the loop, or now if they are many or alone."""
        if self._outgoing:
            self._outgoing += data
        else:
            self._outgoing = data
            if self.server.open_exchanges > 1:
                self.server.writes.add(self)
            else:
                self.send()
        if len(self._outgoing) > MAX_QUEUED_BYTES:
            self.send()

    def send(self) -> None:
        """Send what was written."""
        data, self._outgoing = self._outgoing, b""
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def release(self, keep_alive: bool) -> None:
        """End the current exchange; go on with the next request, or close."""
        server = self.server
        self.clear_exchange()
        if self._counted:
            server.buffered_bytes -= self._counted
            self._counted = 0
        if not keep_alive:
            self._end()
            return
        # The sweep's clock is exact enough here, and costs no call.
        self.deadline = server.now + server.limits.keepalive_timeout
        if self._held and not self._writing_paused:
            self._read_held()

    def clear_exchange(self) -> None:
        """Drop the current exchange."""
        if self.exchange is not None:
            self.server.open_exchanges -= 1
            self.exchange.release_state()
            self.exchange = None

    def refuse(self, refused: RequestRefused) -> None:
        """Answer with the server's own refusal, and close."""
        exchange = self.exchange
        if exchange is not None and exchange.started:
            self.cut()
            return
        self.clear_exchange()
        self.server.count_refusal(refused.status)
        make = self.server.make_refusal
        headers, body = make(exchange, refused.status, refused.code, refused.message)
        own = (b"Content-Length: %d" % len(body), b"Connection: close")
        head = encode_head(refused.status, None, headers, *own)
        silent = exchange is not None and exchange.method == b"HEAD"
        self.write(head if silent else head + body)
        self._linger()

    @property
    def is_waiting(self) -> bool:
        """Whether it only waits for a request, or for the rest of one."""
        return not self._ended and (self.exchange is None or self.incoming is not None)

    def evict(self) -> None:
        """Close to make room: at once if it is idle, otherwise with a 503."""
        if self.exchange is None and not self._held:
            self._end()
        else:
            self.refuse(overloaded("The server needs this connection's place for others."))

    def close_if_idle(self) -> None:
        """Close unless part of a request is here or an answer is due."""
        if self.exchange is None and not self._held and not self._ended:
            self._end()

    def cut(self) -> None:
        """Close with a reset: an unfinished answer must not look complete to the client."""
        self._ended = True
        self.send()
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self.transport.abort()
        self._disconnect()

    def expire(self, now: float) -> None:
        """Handle a deadline that has passed; a request waiting for its answer has none."""
        limits = self.server.limits
        if self._writing_paused:
            if not self._has_read_since(now):
                self.cut()
        elif self._ended:
            self.transport.abort()
        elif self.incoming is not None:
            self.refuse(request_timed_out("body", limits.body_timeout))
        elif self.exchange is None:
            if self._held.strip(b"\r"):
                self.refuse(request_timed_out("head", limits.head_timeout))
            else:
                self._end()

    # Reading

    def _read(self, data: bytes) -> None:
        """Read requests from `data` until one has to wait for its answer."""
        seen = len(self._held)
        if seen:
            data = self._held + data
            self._hold(b"")
        at, size = 0, len(data)
        try:
            while at < size:
                if self.incoming is None:
                    at = self._read_head(data, at, seen)
                else:
                    at = self._read_body(data, at)
                seen = 0
                if self._ended:
                    return
                if self._writing_paused or (self.exchange is not None and self.incoming is None):
                    if at < size:
                        self._hold(data[at:])
                    return
        except RequestRefused as refused:
            self.refuse(refused)

    def _read_held(self) -> None:
        if self._held:
            data = self._held
            self._hold(b"")
            self._read(data)
        if len(self._held) <= MAX_HELD_BYTES and not self._ended:
            self._resume_reading()

    def _read_head(self, data: bytes, at: int, seen: int) -> int:
        """Read one head, and the body where it is all here; return where they end."""
        if data[at] == 0x0D:
            at = skip_empty_lines(data, at)
            seen = 0
        server = self.server
        limits = server.limits
        head_end = data.find(HEAD_END, at + seen - 3 if seen > 3 else at)
        end = head_end + 4
        if head_end < 0 or end - at > limits.max_head:
            return self._await_head(data, at, seen)
        head, length = server.heads.read(data[at:head_end])
        exchange: Exchange[Any] = Exchange(self, head)
        self.exchange = exchange
        server.requests += 1
        server.open_exchanges += 1
        if length:
            if length > limits.max_body:
                raise body_too_large(limits.max_body)
            if server.buffered_bytes + length > limits.max_buffered:
                raise overloaded(_BUFFER_FULL_MESSAGE)
            if length == CHUNKED or end + length > len(data):
                self._await_body(exchange, length, len(data) > end)
                return end
            exchange.body = data[end : end + length]
            end += length
            server.buffered_bytes += length
            self._counted = length
        handler = server.handler
        try:
            handler.on_head(exchange)
            if not exchange.started:
                handler.on_request(exchange)
        except Exception as error:  # noqa: BLE001 - a handler's fault must not end the server
            server.fail(exchange, error)
        return end

    def _await_head(self, data: bytes, at: int, seen: int) -> int:
        """Keep the start of a head until the rest comes."""
        limits = self.server.limits
        part = data[at:]
        if len(part) > limits.max_head:
            raise head_too_long(part, limits)
        check_partial(part, seen)
        if part and not seen:
            self.deadline = self.server.clock() + limits.head_timeout
        self._hold(part)
        return len(data)

    def _await_body(self, exchange: Exchange[Any], length: int, has_begun: bool) -> None:
        """Let the handler see the head; unless it answers, wait for the body."""
        self.incoming = ChunkedBody(self.server.limits) if length < 0 else SizedBody(length)
        self.deadline = self.server.clock() + self.server.limits.body_timeout
        try:
            self.server.handler.on_head(exchange)
        except Exception as error:  # noqa: BLE001 - a handler's fault must not end the server
            self.server.fail(exchange, error)
        if (
            exchange.head.awaits_continue
            and not has_begun
            and not exchange.started
            and not self._ended
        ):
            self.write(_CONTINUE)

    def _read_body(self, data: bytes, at: int) -> int:
        """Read more of a body; deliver the request when that is all; return where it ends."""
        incoming, exchange, server = self.incoming, self.exchange, self.server
        assert incoming is not None
        assert exchange is not None
        left = incoming.feed(data, at)
        server.buffered_bytes += incoming.size - self._counted
        self._counted = incoming.size
        if left is None:
            if server.buffered_bytes > server.limits.max_buffered:
                raise overloaded(_BUFFER_FULL_MESSAGE)
            self.deadline = server.clock() + server.limits.body_timeout
            return len(data)
        self.incoming = None
        exchange.body = incoming.content()
        if not exchange.started:
            try:
                server.handler.on_request(exchange)
            except Exception as error:  # noqa: BLE001 - a handler's fault must not end the server
                server.fail(exchange, error)
        return len(data) - left

    def _hold(self, data: bytes) -> None:
        self.server.buffered_bytes += len(data) - len(self._held)
        self._held = data

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self.transport.is_closing():
            self._reading_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and not self.transport.is_closing():
            self._reading_paused = False
            self.transport.resume_reading()

    def _has_read_since(self, now: float) -> bool:
        """Return whether a slow reader made progress since the last check, and extend its time."""
        unsent = self.transport.get_write_buffer_size()
        if unsent >= self._unsent:
            return False
        self._unsent = unsent
        self.deadline = now + self.server.limits.write_timeout
        return True

    # Ending

    def _end(self) -> None:
        """Close; if the client still sends, linger so that it can read the last answer."""
        if self.incoming is not None or self._held:
            self._linger()
        else:
            self._ended = True
            self.deadline = self.server.clock() + self.server.limits.write_timeout
            self.send()
            self.transport.close()

    def _disconnect(self) -> None:
        exchange, self.exchange = self.exchange, None
        self._clear()
        if exchange is not None:
            self.server.open_exchanges -= 1
            self.server.on_client_gone(exchange)
            exchange.release_state()

    def _clear(self) -> None:
        """Read no more requests, and release all buffers."""
        self._ended = True
        self.incoming = None
        self._hold(b"")
        self.server.buffered_bytes -= self._counted
        self._counted = 0

    def _linger(self) -> None:
        """Send what is written and our EOF; read on for a while, and drop it.

        Closing with bytes unread would reset the connection, and the client might lose the answer.
        """
        self._clear()
        self.deadline = self.server.clock() + LINGER_TIMEOUT_S
        self._resume_reading()
        self.send()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
