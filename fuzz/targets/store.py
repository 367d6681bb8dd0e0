"""What a shared store says: replies on the wire, and what others may have written there."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from tests.wire.fake_client import FakeTransport

from fuzz.target import Target, cuts
from looptrap.gateway.shared_settings import runtime_override, shared_keys
from looptrap.gateway.upstream.circuit_sharing import CircuitSharing
from looptrap.incident.sharing import IncidentSharing
from looptrap.store.redis.connection import RedisConnection

ENTRY = b'{"created":"2026-01-01T00:00:00Z","switch":{"match":{"caller":"c"},"reason":"r"}}'


def check_reply(data: bytes) -> None:
    """Bytes of a server are replies, in any pieces, or the end of the connection."""
    found = []
    for pieces in ([data], cuts(data)):
        lost: list[str] = []
        told: list[Any] = []
        connection = RedisConnection(lost.append, told.append)
        connection.connection_made(FakeTransport())
        for piece in pieces:
            if not lost:
                connection.data_received(piece)
        connection.connection_lost(None)
        assert len(lost) == 1
        found.append([repr(one) for one in told])
    shorter, longer = sorted(found, key=len)
    assert longer[: len(shorter)] == shorter, "other replies when cut in other places"


def check_entry(data: bytes) -> None:
    """What others wrote into the store is used or ignored; never an exception."""
    ours = b'{"version":1}'
    runtime_override._merge_later_wins(data, ours)
    runtime_override._merge_ended_wins(data, ENTRY)
    shared_keys._merge_keys(data, b"[]")
    sharing = IncidentSharing(_store(), "here", quiet=60.0)
    sharing._receive(data)
    sharing._receive(b"remark:" + data)
    assert sharing.ignored + len(sharing.incidents) + len(sharing.annotations) == 2
    circuits = CircuitSharing(_store(), lambda _opening: None)
    _run(circuits._hear(data), circuits)


def _store() -> Any:
    return SimpleNamespace(configuration=SimpleNamespace(command=None))


def _run(coroutine: Any, circuits: CircuitSharing) -> None:
    """Run up to where the store would be asked how long a circuit stays open."""

    async def left(*_: object) -> int:
        return 1

    circuits._configuration = cast(Any, SimpleNamespace(command=left))
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")


def replies() -> Iterator[bytes]:
    """Yield replies of all types."""
    yield b"+OK\r\n:1\r\n$3\r\nabc\r\n$-1\r\n*2\r\n:1\r\n*0\r\n-ERR no\r\n"
    yield b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n"


def entries() -> Iterator[bytes]:
    """Yield entries as instances write them."""
    yield b'{"version":3,"settings":{"detection":"off"}}'
    yield ENTRY
    yield b'[{"name":"ci","id":"ab","digest":"00","project":"","created":"2026-01-01T00:00:00Z"}]'
    yield b'{"instance":"i","provider":"openai","credential":null}'


TARGETS = [
    Target(
        name="store_reply",
        check=check_reply,
        seeds=replies,
        words=(b"\r\n", b"*1\r\n", b"$9999999\r\n"),
    ),
    Target(name="store_entry", check=check_entry, seeds=entries),
]
