"""Finding the way to a host: its addresses, IPv6, the slow and the dead among them."""

import socket

import pytest
from tests.wire.fake_upstream import OK, Peer, answering, full_listener, get, upstream

from looptrap.wire import dial
from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool


def resolving_to(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    """Let every name have these addresses."""
    found = [
        (
            socket.AF_INET6 if ":" in host else socket.AF_INET,
            socket.SOCK_STREAM,
            6,
            "",
            (host, port),
        )
        for host, port in addresses
    ]

    async def resolve(host: str, port: int):
        return found

    monkeypatch.setattr(dial, "_resolve", resolve)


async def test_a_dead_address_is_passed_over(monkeypatch):
    async with upstream(answering(OK)) as fake:
        resolving_to(monkeypatch, ("127.0.0.2", fake.port), ("127.0.0.1", fake.port))
        pool = Pool(Origin("http", "two.test", 80), UpstreamLimits())
        await get(pool).complete()
        await pool.close()


async def test_a_slow_address_does_not_hold_up_the_next(monkeypatch):
    monkeypatch.setattr(dial, "ADDRESS_HEAD_START_S", 0.01)
    with full_listener() as slow:
        async with upstream(answering(OK), host="::1") as fake:
            resolving_to(monkeypatch, (slow.host, slow.port), ("::1", fake.port))
            pool = Pool(Origin("http", "two.test", 80), UpstreamLimits())
            await get(pool).complete()
            await pool.close()


async def test_when_every_address_fails_each_reason_is_told_once(monkeypatch):
    async with upstream(answering(OK)) as fake:
        port = fake.port
    resolving_to(monkeypatch, ("127.0.0.1", port), ("127.0.0.2", port), ("::1", port))
    pool = Pool(Origin("http", "dead.test", 80), UpstreamLimits())
    error = await get(pool).failed()
    assert (error.kind, str(error)) == (
        "connect",
        "dead.test:80: cannot connect: Connection refused",
    )


def test_families_take_turns():
    four = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (str(n), 0)) for n in range(2)]
    six = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (str(n), 0)) for n in range(3)]
    expected = [six[0], four[0], six[1], four[1], six[2]]
    assert dial._alternate_families([*six, *four]) == expected


async def test_an_ipv6_origin_is_reached_and_named_in_brackets():
    requests = []

    async def play(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(OK)
        await peer.gone()

    async with upstream(play, host="::1") as fake:
        pool = Pool(fake.origin(host="[::1]"), UpstreamLimits())
        await get(pool).complete()
        assert b"\r\nHost: [::1]:%d\r\n" % fake.port in requests[0]
        await pool.close()
