"""Addresses: where providers, proxies, stores and receivers are. No error repeats a password."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fuzz.target import Target, pick, seed
from looptrap.incident.alert.channel import WebhookSigner
from looptrap.incident.alert.webhook import WebhookTarget as Receiver
from looptrap.incident.alert.webhook import is_public
from looptrap.store.redis.address import parse_store_url
from looptrap.wire.origin import Origin, Proxy, ProxyEnvironment

PASSWORD = "hunter2hunter2"
READERS: tuple[Callable[[str], object], ...] = (
    Origin.of,
    Proxy.of,
    parse_store_url,
    Receiver.of,
    WebhookSigner.of,
    lambda text: ProxyEnvironment({"HTTPS_PROXY": "proxy:1", "NO_PROXY": text}).choose(
        Origin("https", "a.example", 443)
    ),
)


def check_address(data: bytes) -> None:
    """An address is read, or a ValueError; what was read prints without its password."""
    read, rest = pick(data, READERS)
    text = rest.decode("utf-8", "surrogateescape")
    try:
        found = read(text)
    except ValueError as error:
        told = str(error)
    else:
        told = f"{found} {found!r}"
        if isinstance(found, Receiver):
            told = told.replace(found.url.raw_host or "", "")
    # Elsewhere in a mangled URL nobody can tell a password from a user, a port or a path.
    is_password = f":{PASSWORD}@" in text and text.count(PASSWORD) == 1
    if is_password or read in (Receiver.of, WebhookSigner.of):
        assert PASSWORD not in told, "a secret is told"


def check_public(data: bytes) -> None:
    """No way of writing an address of this machine leads past the check of receivers."""
    host = data.decode("latin-1")
    try:
        receiver = Receiver.of(f"https://{host}/hook")
        inside = not is_public(receiver.url.raw_host)
    except ValueError:
        return
    assert not inside, f"{receiver.url.raw_host} is let through"


def addresses() -> Iterator[bytes]:
    """Yield addresses of all kinds."""
    secret = PASSWORD.encode()
    yield seed(0, b"https://api.example.com:443/v1/")
    yield seed(0, b"http://[::1]:80")
    yield seed(1, b"http://user:%b@proxy:3128" % secret)
    yield seed(2, b"rediss://user:%b@host:6379/1?ca=/a" % secret)
    yield seed(2, b"redis+cluster://:%b@a:1,b:2,[::1]:3" % secret)
    yield seed(2, b"unix:///run/redis.sock?db=1")
    yield seed(3, b"https://user:%b@hooks.example.com/%b?token=%b" % (secret, secret, secret))
    yield seed(4, b"whsec_%b" % (secret * 3))
    yield seed(5, b"*.example, .b, 10.0.0.0/8, [::1]:80, c:443")


def hosts() -> Iterator[bytes]:
    """Yield ways to write addresses."""
    yield from (
        b"example.com", b"127.0.0.1", b"127.1", b"0x7f.1", b"2130706433", b"[::1]",
        b"[::ffff:7f00:1]", b"[64:ff9b::7f00:1]", b"169.254.169.254", b"017700000001",
        b"127.0.0.1.", b"[fe80::1%25eth0]",
    )  # fmt: skip


TARGETS = [
    Target(name="address", check=check_address, seeds=addresses, words=(b"@", b":", b"[", b"%40")),
    Target(
        name="public",
        check=check_public,
        seeds=hosts,
        words=(b".", b"0x", b"::", b"%", b"\xe3\x80\x82"),
    ),
]
