"""Scripted servers on real sockets, and a sink that keeps what it hears."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.patience import PATIENCE

from looptrap.wire.exchange import UpstreamError
from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Answer:
    """A sink that keeps one answer and fails the test when it is called out of turn."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.status = 0
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.length: int | None = None
        self.has_body: bool | None = None
        self.chunks: list[bytes] = []
        self.error: UpstreamError | None = None
        self.changed = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def is_over(self) -> bool:
        return self.calls[-1:] in (["end"], ["error"])

    def _note(self, call: str) -> None:
        assert not self.is_over, f"{call} after {self.calls[-1]}"
        self.calls.append(call)
        self.changed.set()

    def on_head(
        self,
        status: int,
        reason: bytes,
        headers: list[tuple[bytes, bytes]],
        length: int | None,
        has_body: bool,
    ) -> None:
        assert "head" not in self.calls
        self.status, self.reason, self.headers = status, reason, headers
        self.length, self.has_body = length, has_body
        self._note("head")

    def on_data(self, chunk: bytes) -> None:
        assert "head" in self.calls
        assert type(chunk) is bytes
        assert chunk
        self.chunks.append(chunk)
        self._note("data")

    def flush(self) -> None:
        assert self.calls[-1:] in (["head"], ["data"]), "a flush with nothing to pass on"
        self._note("flush")

    def on_end(self) -> None:
        assert "head" in self.calls
        self._note("end")

    def on_error(self, error: UpstreamError) -> None:
        assert error.started == ("head" in self.calls)
        self.error = error
        self._note("error")

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def complete(self) -> Answer:
        """Wait for the end and fail where it is an error."""
        await self.until(lambda: self.is_over)
        assert self.error is None, self.error
        return self

    async def failed(self) -> UpstreamError:
        """Wait for the error and fail where the answer is complete."""
        await self.until(lambda: self.is_over)
        assert self.error is not None, "complete"
        return self.error


class Peer:
    """The upstream's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """Read one request with its sized body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return head + await self.reader.readexactly(size)

    async def send(self, *pieces: bytes) -> None:
        """Send each piece as a segment of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            # Two turns of the loop: on loopback the other side has read the piece by then.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def reset(self) -> None:
        """Close so that the client sees ECONNRESET."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> bytes:
        """Wait until the client has closed; return what it still sent."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


Play = Callable[[Peer], Awaitable[None]]


def answering(*answers: bytes | Iterable[bytes]) -> Play:
    """A play that gives each request the next answer, then waits for the client to leave."""

    async def play(peer: Peer) -> None:
        for answer in answers:
            await peer.request()
            await peer.send(*([answer] if isinstance(answer, bytes) else answer))
        await peer.gone()

    return play


def serving(answers: Iterable[Iterable[bytes]]) -> Play:
    """A play that gives each request, on whichever connection, the next answer in its pieces."""
    left = iter(answers)

    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(*next(left))

    return play


class FakeUpstream:
    """Plays the n-th play on the n-th connection, the last one on all that follow."""

    def __init__(self, *plays: Play) -> None:
        self.plays = plays
        self.connections = 0
        self.open = 0
        self.names: list[str | None] = []
        self.failures: list[Exception] = []
        self.reports: list[str] = []
        self.port = 0
        self.changed = asyncio.Event()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        play = self.plays[min(self.connections, len(self.plays) - 1)]
        self.connections += 1
        self.open += 1
        self.changed.set()
        try:
            await play(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left: what that means is for the test to say
        except Exception as failure:  # noqa: BLE001  raised again by `upstream`
            self.failures.append(failure)
        finally:
            writer.transport.abort()
            self.open -= 1
            self.changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def origin(self, scheme: str = "http", host: str = "127.0.0.1") -> Origin:
        return Origin.of(f"{scheme}://{host}:{self.port}")[0]


@asynccontextmanager
async def upstream(
    *plays: Play, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[FakeUpstream]:
    """Run a fake upstream; at the end no connection may be left and no play have failed."""
    fake = FakeUpstream(*plays)
    if tls is not None:
        tls.sni_callback = lambda _socket, name, _context: fake.names.append(name)
    loop = asyncio.get_running_loop()
    if loop.get_exception_handler() is None:
        # What the loop would only log is a failure too.
        loop.set_exception_handler(lambda _loop, what: fake.reports.append(str(what)))
    server = await asyncio.start_server(fake.accept, host, 0, ssl=tls)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
        await fake.until(lambda: fake.open == 0)
    finally:
        server.close()
    if fake.failures:
        raise fake.failures[0]
    assert fake.reports == []


@contextmanager
def full_listener() -> Iterator[Origin]:
    """An address where connecting neither succeeds nor fails: its backlog is full."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield Origin("http", *listener.getsockname())


@asynccontextmanager
async def pool_of(
    fake: FakeUpstream,
    clock: Clock | None = None,
    **limits: float,
) -> AsyncIterator[Pool]:
    """A pool for a plain fake upstream; at the end nothing may be in flight."""
    pool = Pool(fake.origin(), UpstreamLimits(**limits), clock=clock or Clock())  # type: ignore[arg-type]
    try:
        yield pool
        assert pool.in_flight == 0
    finally:
        await pool.close()


class Clock:
    """Time that moves when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def get(pool: Pool, target: bytes = b"/", method: bytes = b"GET", body: bytes = b"") -> Answer:
    """Send a request and return the sink that will have its answer."""
    answer = Answer()
    pool.send(method, target, b"", body, answer)
    return answer


@dataclass(frozen=True)
class Authority:
    """A throw-away certificate authority."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "throw-away authority")])
        certificate = (
            _certificate(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return cls(certificate, key, folder)

    @property
    def file(self) -> Path:
        return self.folder / "ca.pem"

    def server(self, *names: str) -> ssl.SSLContext:
        """A listener's context with a certificate for these host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        certificate = (
            _certificate(subject, self.certificate.subject, key.public_key())
            .add_extension(x509.SubjectAlternativeName([_name(n) for n in names]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        path = self.folder / "server.pem"
        path.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    today = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
