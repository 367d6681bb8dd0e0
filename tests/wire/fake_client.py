"""The server's surroundings: raw clients, a scripted handler, a transport without a socket."""

import asyncio
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.patience import PATIENCE

from looptrap.wire.limits import ServerLimits
from looptrap.wire.server import Server
from looptrap.wire.server_connection import ServerConnection
from looptrap.wire.write_queue import WriteQueue

JSON = [(b"Content-Type", b"application/json")]


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Seen(NamedTuple):
    """What of a request matters to most tests."""

    method: bytes
    target: bytes
    headers: tuple
    body: bytes


def echo(exchange):
    """Answer with the request's own body."""
    exchange.answer(200, JSON, exchange.body)


class Scripted:
    """A handler that notes everything and answers as a test says."""

    def __init__(self, answer=echo, on_head=None):
        self.answer = answer
        self.head = on_head
        self.heads = []
        self.requests = []
        self.lost = []
        self.exchanges = asyncio.Queue()
        self.departures = asyncio.Queue()

    def on_head(self, exchange):
        self.heads.append(exchange.target)
        if self.head is not None:
            self.head(exchange)

    def on_request(self, exchange):
        seen = Seen(exchange.method, exchange.target, tuple(exchange.headers), exchange.body)
        self.requests.append(seen)
        self.exchanges.put_nowait(exchange)
        if self.answer is not None:
            self.answer(exchange)

    def on_disconnect(self, exchange):
        self.lost.append(exchange)
        self.departures.put_nowait(exchange)

    async def next_exchange(self):
        return await asyncio.wait_for(self.exchanges.get(), PATIENCE)

    async def next_departure(self):
        return await asyncio.wait_for(self.departures.get(), PATIENCE)


class Answer(NamedTuple):
    status: int
    headers: dict
    body: bytes


class Client:
    """Sends exactly the bytes it is given; reads answers as a plain HTTP/1.1 client would."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, data):
        self.writer.write(data)
        await asyncio.wait_for(self.writer.drain(), PATIENCE)

    async def head(self):
        raw = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE)
        first, *lines = raw[:-4].split(b"\r\n")
        fields = [line.split(b": ", 1) for line in lines]
        return int(first.split(b" ")[1]), {name.lower(): value for name, value in fields}

    async def answer(self, method=b"GET"):
        """Read one answer; the body as its framing says."""
        status, headers = await self.head()
        if method == b"HEAD" or status in (204, 304) or status < 200:
            body = b""
        elif headers.get(b"transfer-encoding") == b"chunked":
            body = b"".join([chunk async for chunk in self.chunks()])
        elif b"content-length" in headers:
            size = int(headers[b"content-length"])
            body = await asyncio.wait_for(self.reader.readexactly(size), PATIENCE)
        else:
            body = await self.rest()
        return Answer(status, headers, body)

    async def chunks(self):
        while True:
            size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), PATIENCE), 16)
            data = await asyncio.wait_for(self.reader.readexactly(size + 2), PATIENCE)
            assert data[-2:] == b"\r\n"
            if size == 0:
                return
            yield data[:-2]

    async def rest(self):
        """Read until the server closes."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE)

    def close(self):
        self.writer.close()


@asynccontextmanager
async def serving(handler=None, limits=None, *, host="127.0.0.1", ssl=None, **options):
    """A server on a free port, and a function that connects to it."""
    server = Server(handler or Scripted(), limits or ServerLimits(), **options)
    [(_, port, *_)] = await server.listen(host, 0, ssl=ssl)
    clients = []

    async def connect(**kwargs):
        client = Client(*await asyncio.open_connection(host, port, **kwargs))
        clients.append(client)
        return client

    connect.port = port
    try:
        yield server, connect
    finally:
        for client in clients:
            client.close()
        await server.close(0)


async def until(condition):
    """Let the loop turn until `condition()` holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


class FakeTransport(asyncio.Transport):
    """Notes what a connection does to its transport."""

    def __init__(self):
        super().__init__()
        self.writes = []
        self.closed = False
        self.aborted = False
        self.eof = False
        self.reading = True
        self.buffered = 0

    @property
    def sent(self):
        return b"".join(self.writes)

    def write(self, data):
        assert not self.eof
        self.writes.append(data)

    def get_extra_info(self, name, default=None):
        return ("192.0.2.7", 4711) if name == "peername" else None

    def get_write_buffer_size(self):
        return self.buffered

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def abort(self):
        self.closed = self.aborted = True

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.eof = True

    def pause_reading(self):
        assert self.reading
        self.reading = False

    def resume_reading(self):
        assert not self.reading
        self.reading = True


class NoQueue(WriteQueue):
    """Sends at once, where no loop runs."""

    def add(self, connection):
        connection.send()


def feed(pieces, handler, limits=None):
    """Give `pieces` to a fresh connection; return its transport and server."""
    server = Server(handler, limits or ServerLimits(), clock=Clock())
    server.writes = NoQueue()
    connection = ServerConnection(server)
    transport = FakeTransport()
    connection.connection_made(transport)
    for piece in pieces:
        connection.data_received(piece)
    return transport, server, connection
