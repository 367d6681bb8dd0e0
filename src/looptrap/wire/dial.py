"""Open a connection: to the fastest of a host's addresses, through a proxy's tunnel, with TLS."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Callable
from itertools import chain, zip_longest
from typing import cast

from looptrap.wire.exchange import UpstreamError
from looptrap.wire.origin import Origin, Proxy
from looptrap.wire.request import FIELD_LINE, HEAD_END

ADDRESS_HEAD_START_S = 0.25
"""Seconds before the next address is tried in parallel (RFC 8305)."""
MAX_PROXY_HEAD_BYTES = 65_536

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2}) ?([\t\x20-\x7e\x80-\xff]*)")

SocketAddress = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str | int, ...]]


class ProxyError(Exception):
    """The proxy refused or failed to connect."""


async def dial(
    factory: Callable[[], asyncio.Protocol],
    origin: Origin,
    proxy: Proxy | None,
    context: ssl.SSLContext | None,
) -> None:
    """Connect a protocol to an origin; raise UpstreamError if that fails."""
    where = str(origin) if proxy is None else f"{origin} through proxy {proxy}"
    try:
        server = proxy or origin
        sock = await _race(await _resolve(server.host, server.port))
        if proxy is not None and context is not None:
            try:
                await _open_tunnel(sock, origin, proxy)
            except BaseException:
                sock.close()
                raise
        await asyncio.get_running_loop().create_connection(
            factory, sock=sock, ssl=context, server_hostname=origin.host if context else None
        )
    except ssl.SSLCertVerificationError as error:
        reason = error.verify_message or str(error)
        raise UpstreamError("tls", f"{where}: certificate not accepted: {reason}") from error
    except ssl.SSLError as error:
        raise UpstreamError("tls", f"{where}: TLS failed: {error.reason or error}") from error
    except socket.gaierror as error:
        raise UpstreamError("connect", f"{where}: no address found: {error.strerror}") from error
    except (OSError, ProxyError) as error:
        raise UpstreamError("connect", f"{where}: cannot connect: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Describe an error by its number, because the texts of sockets and loops differ."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else str(error) or type(error).__name__


async def _resolve(host: str, port: int) -> list[SocketAddress]:
    loop = asyncio.get_running_loop()
    return cast(list[SocketAddress], await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))


async def _race(addresses: list[SocketAddress]) -> socket.socket:
    """Connect to the address that answers first; each has a head start on the next."""
    if len(addresses) == 1:
        return await _attempt(addresses[0])
    waiting = _alternate_families(addresses)
    running: set[asyncio.Task[socket.socket]] = set()
    failures: list[str] = []
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(_attempt(waiting.pop(0))))
            done, _ = await asyncio.wait(
                running,
                timeout=ADDRESS_HEAD_START_S if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                running.discard(attempt)
                error = attempt.exception()
                if error is None:
                    return attempt.result()
                failures.append(_reason(error))
    finally:
        for attempt in running:
            attempt.add_done_callback(_close_loser)
            attempt.cancel()
    raise OSError("; ".join(dict.fromkeys(failures)) or "the host has no address")


def _alternate_families(addresses: list[SocketAddress]) -> list[SocketAddress]:
    first = [address for address in addresses if address[0] == addresses[0][0]]
    others = [address for address in addresses if address[0] != addresses[0][0]]
    pairs = zip_longest(first, others)
    return [address for address in chain.from_iterable(pairs) if address is not None]


async def _attempt(address: SocketAddress) -> socket.socket:
    family, kind, protocol, _, target = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, target)
    except BaseException:
        sock.close()
        raise
    return sock


def _close_loser(attempt: asyncio.Task[socket.socket]) -> None:
    # A second address may have answered in the same turn of the loop as the winner.
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _open_tunnel(sock: socket.socket, origin: Origin, proxy: Proxy) -> None:
    """Let a proxy connect a socket to an origin; raise ProxyError if it does not."""
    loop, target = asyncio.get_running_loop(), str(origin).encode()
    request = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (target, target, proxy.fields)
    await loop.sock_sendall(sock, request)
    received = b""
    while not _is_tunnel_open(received):
        if len(received) > MAX_PROXY_HEAD_BYTES:
            raise ProxyError(f"the proxy sent a head of more than {MAX_PROXY_HEAD_BYTES} bytes")
        data = await loop.sock_recv(sock, MAX_PROXY_HEAD_BYTES)
        if not data:
            raise ProxyError("the proxy closed the connection")
        received += data


def _is_tunnel_open(received: bytes) -> bool:
    """Return whether a proxy has accepted CONNECT; raise ProxyError if it has not."""
    while received:
        head, end, received = received.partition(HEAD_END)
        first, *fields = head.split(b"\r\n")
        match = _STATUS_LINE.fullmatch(first)
        if match is None or (end and not all(map(FIELD_LINE.fullmatch, fields))):
            if fields or end:
                raise ProxyError("the proxy answered with bad HTTP")
            return False
        if not end:
            return False
        status = int(match[1])
        if status == 101 or status >= 300:
            raise ProxyError(f"the proxy answered {status} {match[2].decode('latin-1')}".rstrip())
        if status >= 200:
            if received:
                # The origin cannot speak before our ClientHello: such bytes are the proxy's own.
                raise ProxyError("the proxy sent bytes of its own into the tunnel")
            return True
    return False
