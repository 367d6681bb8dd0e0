"""RedisConnection: commands out, replies in, in the same order."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, cast

import hiredis

from looptrap.store.redis.address import StoreAddress

CLIENT_NAME = b"looptrap"
"""Name of the connection in CLIENT LIST."""

T = TypeVar("T")
ReplyCallback = Callable[[Any], None]
Argument = bytes | str | int

pack_command: Callable[[tuple[Argument, ...]], bytes] = cast(Any, hiredis.pack_command)
"""Return a command in the Redis protocol."""


class StoreError(ConnectionError):
    """The server cannot be reached, refuses the login, or fails a command."""


class RedisConnection(asyncio.Protocol):
    """Sends commands and passes each reply to its callback.

    `on_lost` is called once when the connection ends, unless it was closed here. A reply without
    a command goes to `on_message`: the messages of a subscription.
    """

    __slots__ = ("_pending", "_reader", "_transport", "on_lost", "on_message")

    _transport: asyncio.Transport

    def __init__(
        self, on_lost: Callable[[str], None], on_message: ReplyCallback | None = None
    ) -> None:
        self._reader = hiredis.Reader()
        self._pending: deque[ReplyCallback] = deque()
        self.on_lost: Callable[[str], None] | None = on_lost
        self.on_message = on_message

    def send(self, commands: bytes, *callbacks: ReplyCallback) -> None:
        """Send packed commands, with a callback for each reply."""
        self._pending.extend(callbacks)
        self._transport.write(commands)

    async def call(self, *command: Argument) -> Any:
        """Send one command and return its reply; an error reply is raised."""
        replied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.send(pack_command(command), partial(resolve, replied))
        reply = await replied
        if isinstance(reply, hiredis.ReplyError):
            raise StoreError(str(reply))
        return reply

    def close(self) -> None:
        """Close at once; pending commands fail."""
        self._fail_pending("the connection was closed")
        self._transport.abort()

    def _fail_pending(self, reason: str) -> None:
        self.on_lost = None
        callbacks, self._pending = self._pending, deque()
        error = hiredis.ReplyError(reason)
        for then in callbacks:
            then(error)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := _next_reply(reader)) is not False:
                if self._pending:
                    self._pending.popleft()(reply)
                elif self.on_message is not None:
                    self.on_message(reply)
                else:
                    raise hiredis.ProtocolError("a reply without a command")
        except hiredis.ProtocolError as error:
            self._lose(f"it does not speak the Redis protocol: {error}")
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(f"the connection was lost: {exc or 'the server closed it'}")

    def _lose(self, reason: str) -> None:
        on_lost = self.on_lost
        if on_lost is not None:
            self._fail_pending(reason)
            on_lost(reason)


def _next_reply(reader: hiredis.Reader) -> Any:
    """Return the next reply, False if none is complete."""
    try:
        return reader.gets()
    except TypeError as error:  # a map with list keys, which only RESP3 has
        raise hiredis.ProtocolError(str(error)) from None


def resolve(future: asyncio.Future[T], value: T) -> None:
    """Set a future's result unless it was cancelled."""
    if not future.done():
        future.set_result(value)


def ignore(_value: object) -> None:
    """Ignore a reply whose failure shows in the next one, or the end of a connection."""


async def connect(
    address: StoreAddress,
    on_lost: Callable[[str], None] = ignore,
    on_message: ReplyCallback | None = None,
    *,
    prepare: Callable[[RedisConnection], Awaitable[object]] | None = None,
) -> RedisConnection:
    """Connect, log in and `prepare` the connection; raise StoreError if that fails."""
    connection = RedisConnection(on_lost, on_message)
    loop = asyncio.get_running_loop()
    context = _context(address)
    try:
        if address.path:
            await loop.create_unix_connection(lambda: connection, address.path)
        else:
            place = address.host, address.port
            await loop.create_connection(lambda: connection, *place, ssl=context)
    except OSError as error:
        reason = error.strerror
        if error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError):
            reason = os.strerror(error.errno)  # without the words that asyncio puts around it
        raise StoreError(f"cannot connect: {reason or error}") from error
    except UnicodeError as error:
        raise StoreError(f"{address.host!r} is not the name of a host") from error
    try:
        await _authenticate(connection, address)
        if prepare is not None:
            await prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _context(address: StoreAddress) -> ssl.SSLContext | None:
    """Return the TLS context, None without TLS."""
    if not address.is_tls:
        return None
    try:
        return ssl.create_default_context(cafile=address.ca or None)
    except OSError as error:
        raise StoreError(f"cannot read {address.ca}: {error.strerror or error}") from error


async def _authenticate(connection: RedisConnection, address: StoreAddress) -> None:
    if address.password:
        credentials = [address.user, address.password] if address.user else [address.password]
        try:
            await connection.call(b"AUTH", *credentials)
        except StoreError as error:
            # Some servers repeat the arguments of a command that they refuse.
            code = str(error).partition(" ")[0]
            raise StoreError(f"it refuses the user name or password ({code})") from None
    if address.db:
        await connection.call(b"SELECT", address.db)
    await connection.call(b"CLIENT", b"SETNAME", CLIENT_NAME)
