"""Which addresses an outgoing request may go to, told of the very addresses it then connects to."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from looptrap.wire.origin import bracket_host


class DeliveryError(Exception):
    """An event did not get through. Its text is fit for logs: nothing of a URL's path or query."""

    def __init__(
        self, reason: str, *, retry_after: float | None = None, is_final: bool = False
    ) -> None:
        """With `is_final` the receiver wants no more of it; `retry_after` is its own wish."""
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.is_final = is_final


HostLookup = Callable[[str, int], Awaitable[list[str]]]
"""From a host name and a port to its addresses."""

_CLOSED_V4 = tuple(
    map(
        IPv4Network,
        [
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carriers' own
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # Azure's host, which answers machines about themselves
            "169.254.0.0/16",  # link-local: there clouds hand out credentials
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocols
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ],
    )
)
_OPEN_V6 = IPv6Network("2000::/3")
_CLOSED_V6 = tuple(
    map(
        IPv6Network,
        [
            "2001::/23",  # protocols; Teredo, which holds an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which holds an IPv4 address
            "3fff::/20",  # documentation
        ],
    )
)
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%.+)?")
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Tell whether an address is one of the open internet."""
    ip = ip_address(address)
    if not isinstance(ip, IPv4Address):
        if ip not in _NAT64:
            return ip in _OPEN_V6 and not any(ip in closed for closed in _CLOSED_V6)
        # Where a network speaks IPv6 only, public hosts of IPv4 have such addresses.
        ip = IPv4Address(int(ip) & 0xFFFF_FFFF)
    return not any(ip in closed for closed in _CLOSED_V4)


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Where a channel's requests go. Its text is fit for logs: the origin and nothing else."""

    url: URL = field(repr=False)
    allow_private: bool = False

    @classmethod
    def of(
        cls, url: str, *, allow_http: bool = False, allow_private: bool = False
    ) -> WebhookTarget:
        """Read a URL; a ValueError says what is wrong and repeats nothing that may be secret."""
        if not url.isprintable() or " " in url:
            raise ValueError("has spaces or control characters")
        try:
            # As aiohttp reads it: a host that two readers take for two hosts is a way around.
            read = URL(url)
            host, port = read.raw_host, read.port
        except (ValueError, IndexError):  # the latter of brackets before an @ with nothing behind
            raise ValueError('cannot be read as a URL such as "https://example.com/hook"') from None
        if read.scheme not in ("https", "http"):
            raise ValueError(f"begins with {read.scheme + '://'!r}, must begin with https://")
        if read.scheme == "http" and not allow_http:
            raise ValueError("is plain http, must be https (allow_http = true lets it be)")
        if not host:
            raise ValueError("has no host")
        if not _HOST.fullmatch(host):
            raise ValueError("has a host that is neither a name nor an address")
        if port == 0:
            raise ValueError("has port 0, must be 1 to 65535")
        if is_ip_address(host) and not allow_private and not is_public(host):
            raise ValueError(f"leads to {host}, which is not public (allow_private = true lets it)")
        return cls(read, allow_private)

    @property
    def host(self) -> str:
        return self.url.raw_host or ""

    def __str__(self) -> str:
        return f"{self.url.scheme}://{bracket_host(self.host)}:{self.url.port}"


def is_ip_address(host: str) -> bool:
    """Tell whether a host is an address; a ValueError where it is one in disguise."""
    try:
        ip_address(host)
    except ValueError:
        if ":" in host or _means_an_address(host.rstrip(".")):
            raise ValueError(
                "has a host that stands for an address without looking like one:"
                ' write it out, such as "192.0.2.7"'
            ) from None
        return False
    return True


def _means_an_address(host: str) -> bool:
    """Tell whether a C library takes this for an address: `127.1`, `0x7f000001`, `2130706433`."""
    try:
        socket.inet_aton(host)
    except OSError:
        # Digits and dots alone: a connector may take it for one and ask nobody about it.
        return host.replace(".", "").isdigit()
    return True


async def resolve_host(host: str, port: int) -> list[str]:
    """Ask the system for a host's addresses."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class PinnedResolver(AbstractResolver):
    """Resolves a target's host; what it returns was looked at, and is what is connected to.

    Asked once a connection, and there is one connection a delivery: a name that changes its
    meaning in between changes nothing.
    """

    def __init__(self, target: WebhookTarget, lookup: HostLookup = resolve_host) -> None:
        self._target = target
        self._lookup = lookup

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - all are looked at
    ) -> list[ResolveResult]:
        """Return all addresses of the host, or refuse them all where one is not allowed."""
        try:
            addresses = await self._lookup(host, port)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DeliveryError(f"{self._target}: no address found: {reason}") from None
        if not addresses:
            raise DeliveryError(f"{self._target}: no address found")
        for address in addresses:
            if not self._target.allow_private and not is_public(address):
                raise DeliveryError(
                    f"{self._target} leads to {address}, which is not public"
                    " (allow_private = true lets it)"
                )
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Hold nothing, so release nothing."""
