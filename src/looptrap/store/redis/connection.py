"""One connection to a server: commands out, replies in, in the same order."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from looptrap.store.redis.address import StoreAddress

CLIENT_NAME = b"looptrap"
"""By which an operator finds the connection in CLIENT LIST."""

ReplyCallback = Callable[[Any], None]
Argument = bytes | str | int

pack_command: Callable[[tuple[Argument, ...]], bytes] = cast(Any, hiredis.pack_command)
"""Return a command as a server reads it."""


class StoreError(ConnectionError):
    """The store's server cannot be reached, does not let us in, or cannot do what it is asked."""


class RedisConnection(asyncio.Protocol):
    """Sends commands and hands each reply to whoever waits for it.

    `lost` is called once when the connection ends, unless it was closed from here. A reply that
    nobody waits for goes to `told`: that is how news of a subscription arrive.
    """

    __slots__ = ("_reader", "_transport", "_waiting", "lost", "told")

    _transport: asyncio.Transport

    def __init__(self, lost: Callable[[str], None], told: ReplyCallback | None = None) -> None:
        self._reader = hiredis.Reader()
        self._waiting: deque[ReplyCallback] = deque()
        self.lost: Callable[[str], None] | None = lost
        self.told = told

    def send(self, commands: bytes, *waiting: ReplyCallback) -> None:
        """Send packed commands, and name who waits for each reply."""
        self._waiting.extend(waiting)
        self._transport.write(commands)

    async def call(self, *command: Argument) -> Any:
        """Send one command and return its reply; an error reply is raised."""
        replied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.send(pack_command(command), lambda reply: _answer(replied, reply))
        reply = await replied
        if isinstance(reply, hiredis.ReplyError):
            raise StoreError(str(reply))
        return reply

    def close(self) -> None:
        """End the connection at once; replies that are still on their way reach nobody."""
        self._end("the connection was closed")
        self._transport.abort()

    def _end(self, reason: str) -> None:
        self.lost = None
        waiting, self._waiting = self._waiting, deque()
        error = hiredis.ReplyError(reason)
        for then in waiting:
            then(error)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := _next(reader)) is not False:
                if self._waiting:
                    self._waiting.popleft()(reply)
                elif self.told is not None:
                    self.told(reply)
                else:
                    raise hiredis.ProtocolError("a reply without a command")
        except hiredis.ProtocolError as error:
            self._lose(f"it does not speak the Redis protocol: {error}")
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(f"the connection was lost: {exc or 'the server closed it'}")

    def _lose(self, reason: str) -> None:
        lost = self.lost
        if lost is not None:
            self._end(reason)
            lost(reason)


def _next(reader: hiredis.Reader) -> Any:
    """Return the next reply, False where none is complete."""
    try:
        return reader.gets()
    except TypeError as error:  # a map of lists, which only another version of the protocol has
        raise hiredis.ProtocolError(str(error)) from None


def _answer(waiting: asyncio.Future[Any], reply: Any) -> None:
    if not waiting.done():
        waiting.set_result(reply)


async def connect(
    address: StoreAddress, lost: Callable[[str], None], told: ReplyCallback | None = None
) -> RedisConnection:
    """Open a connection and enter; a `StoreError` says why that cannot be."""
    connection = RedisConnection(lost, told)
    loop = asyncio.get_running_loop()
    context = _context(address)
    try:
        if address.path:
            await loop.create_unix_connection(lambda: connection, address.path)
        else:
            await loop.create_connection(
                lambda: connection, address.host, address.port, ssl=context
            )
    except OSError as error:
        raise StoreError(f"cannot connect: {error.strerror or error}") from error
    except UnicodeError as error:
        raise StoreError(f"{address.host!r} is not the name of a host") from error
    try:
        await _authenticate(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _context(address: StoreAddress) -> ssl.SSLContext | None:
    """Return what to check the server's certificate with, where TLS is spoken."""
    if not address.is_tls:
        return None
    try:
        return ssl.create_default_context(cafile=address.ca or None)
    except OSError as error:
        raise StoreError(f"cannot read {address.ca}: {error.strerror or error}") from error


async def _authenticate(connection: RedisConnection, address: StoreAddress) -> None:
    if address.password:
        entry = [address.user, address.password] if address.user else [address.password]
        try:
            await connection.call(b"AUTH", *entry)
        except StoreError as error:
            # Some servers repeat the arguments of a command that they do not accept.
            code = str(error).partition(" ")[0]
            raise StoreError(f"it refuses the user name or password ({code})") from None
    if address.db:
        await connection.call(b"SELECT", address.db)
    await connection.call(b"CLIENT", b"SETNAME", CLIENT_NAME)
