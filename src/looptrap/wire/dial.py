"""Open a connection: to the fastest of a host's addresses, through a proxy's tunnel, with TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from itertools import chain, zip_longest
from typing import cast

import httptools

from looptrap.wire.origin import Origin
from looptrap.wire.proxy import Proxy
from looptrap.wire.upstream_exchange import UpstreamError

ADDRESS_HEAD_START_S = 0.25
"""Seconds before the next address is tried in parallel (RFC 8305)."""
MAX_PROXY_HEAD_BYTES = 65_536

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
        if proxy is None:
            await _open(factory, origin.host, origin.port, context)
        elif context is None:
            await _open(factory, proxy.host, proxy.port, None)
        else:
            await _open_tunnel(factory, origin, proxy, context)
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


async def _open(
    factory: Callable[[], asyncio.Protocol], host: str, port: int, context: ssl.SSLContext | None
) -> None:
    sock = await _race(await _resolve(host, port))
    await asyncio.get_running_loop().create_connection(
        factory, sock=sock, ssl=context, server_hostname=host if context is not None else None
    )


async def _resolve(host: str, port: int) -> list[SocketAddress]:
    loop = asyncio.get_running_loop()
    return cast(list[SocketAddress], await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))


async def _open_tunnel(
    factory: Callable[[], asyncio.Protocol], origin: Origin, proxy: Proxy, context: ssl.SSLContext
) -> None:
    tunnel = ProxyTunnel(proxy, origin)
    try:
        await _open(lambda: tunnel, proxy.host, proxy.port, None)
        refusal = await tunnel.opened
        if refusal is not None:
            raise ProxyError(refusal)
        assert tunnel.transport is not None
        protocol = factory()
        protocol.connection_made(tunnel.transport)  # so that it can be aborted during the handshake
        transport = await asyncio.get_running_loop().start_tls(
            tunnel.transport, protocol, context, server_hostname=origin.host
        )
    except BaseException:
        if tunnel.transport is not None:
            tunnel.transport.abort()
        raise
    finally:
        tunnel.close()
    if transport is None:
        raise ConnectionResetError("the proxy closed the tunnel")
    protocol.connection_made(transport)


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


class ProxyTunnel(asyncio.Protocol):
    """Sends CONNECT to a proxy, and waits for its answer."""

    def __init__(self, proxy: Proxy, origin: Origin) -> None:
        self.transport: asyncio.Transport | None = None
        self.opened: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        """The reason of a failure, or None for success."""
        target = str(origin).encode()
        self._request = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (
            target,
            target,
            proxy.fields,
        )
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._status = 0
        self._reason = b""
        self._received = 0
        self._surplus = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.opened.done() or self._parser is None:
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refuse(f"the proxy answered with bad HTTP: {error}")
            return
        if self._status >= 300:
            reason = self._reason.decode("latin-1")
            self._refuse(f"the proxy answered {self._status} {reason}".rstrip())
        elif self._surplus:
            # The origin cannot speak before our ClientHello: such bytes are the proxy's own.
            self._refuse("the proxy sent bytes of its own into the tunnel")
        elif self._status >= 200:
            self.opened.set_result(None)
        elif self._received > MAX_PROXY_HEAD_BYTES:
            self._refuse(f"the proxy sent a head of more than {MAX_PROXY_HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        self._surplus = self._status >= 200
        self._reason = b""

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._status = self._parser.get_status_code()

    def on_body(self, _body: bytes) -> None:
        self._surplus = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._refuse(f"the proxy closed the connection ({exc or 'end of stream'})")

    def _refuse(self, what: str) -> None:
        if not self.opened.done():
            self.opened.set_result(what)

    def close(self) -> None:
        """Drop the parser, which refers back to this tunnel."""
        self.opened.cancel()
        self._parser = None
