"""Which addresses a webhook may connect to; the checked address is the one connected to."""

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
    """An event was not delivered. Its text is safe to log: it has no path or query of a URL."""

    def __init__(
        self, reason: str, *, retry_after: float | None = None, is_final: bool = False
    ) -> None:
        """`is_final`: the receiver wants no further tries; `retry_after`: what it asked for."""
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.is_final = is_final


HostLookup = Callable[[str, int], Awaitable[list[str]]]
"""From a host name and a port to its addresses."""

_NON_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        [
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carriers' own
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # Azure's metadata host
            "169.254.0.0/16",  # link-local: cloud metadata with credentials
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
_PUBLIC_V6 = IPv6Network("2000::/3")
_NON_PUBLIC_V6 = tuple(
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
    """Return whether an address is on the public internet."""
    ip = ip_address(address)
    if not isinstance(ip, IPv4Address):
        if ip not in _NAT64:
            return ip in _PUBLIC_V6 and not any(ip in network for network in _NON_PUBLIC_V6)
        # In an IPv6-only network, public IPv4 hosts have such addresses.
        ip = IPv4Address(int(ip) & 0xFFFF_FFFF)
    return not any(ip in network for network in _NON_PUBLIC_V4)


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """The URL of a webhook. Its text is safe to log: the origin only."""

    url: URL = field(repr=False)
    allow_private: bool = False

    @classmethod
    def of(
        cls, url: str, *, allow_http: bool = False, allow_private: bool = False
    ) -> WebhookTarget:
        """Parse a URL; the text of a ValueError holds no part that may be secret."""
        if not url.isprintable() or " " in url:
            raise ValueError("has spaces or control characters")
        try:
            # Parsed as aiohttp does: two parsers that disagree on the host would be a bypass.
            parsed = URL(url)
            host, port = parsed.raw_host, parsed.port
        except (ValueError, IndexError):  # the latter of brackets before an @ with nothing behind
            raise ValueError('cannot be read as a URL such as "https://example.com/hook"') from None
        if parsed.scheme not in ("https", "http"):
            raise ValueError(f"begins with {parsed.scheme + '://'!r}, must begin with https://")
        if parsed.scheme == "http" and not allow_http:
            raise ValueError("is plain http, must be https (allow_http = true lets it be)")
        if not host:
            raise ValueError("has no host")
        if not _HOST.fullmatch(host):
            raise ValueError("has a host that is neither a name nor an address")
        if port == 0:
            raise ValueError("has port 0, must be 1 to 65535")
        if is_ip_address(host) and not allow_private and not is_public(host):
            raise ValueError(f"leads to {host}, which is not public (allow_private = true lets it)")
        return cls(parsed, allow_private)

    @property
    def host(self) -> str:
        return self.url.raw_host or ""

    def __str__(self) -> str:
        return f"{self.url.scheme}://{bracket_host(self.host)}:{self.url.port}"


def is_ip_address(host: str) -> bool:
    """Return whether a host is an IP address; raise ValueError for a disguised one."""
    try:
        ip_address(host)
    except ValueError:
        if ":" in host or _is_inet_aton_address(host.rstrip(".")):
            raise ValueError(
                "has a host that stands for an address without looking like one:"
                ' write it out, such as "192.0.2.7"'
            ) from None
        return False
    return True


def _is_inet_aton_address(host: str) -> bool:
    """Return whether C libraries read this as an address: `127.1`, `0x7f000001`, `2130706433`."""
    try:
        socket.inet_aton(host)
    except OSError:
        # Digits and dots only: a connector may take it for an address and skip the resolver.
        return host.replace(".", "").isdigit()
    return True


async def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a host with the system's resolver."""
    loop = asyncio.get_running_loop()
    results = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in results))


class PinnedResolver(AbstractResolver):
    """Resolves a target's host and checks the addresses that are then connected to.

    It is called once per connection, and each delivery has one connection: a name that resolves
    differently in between (DNS rebinding) changes nothing.
    """

    def __init__(self, target: WebhookTarget, lookup: HostLookup = resolve_host) -> None:
        self._target = target
        self._lookup = lookup

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - all families are checked
    ) -> list[ResolveResult]:
        """Return all addresses of the host; raise DeliveryError if one is not allowed."""
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
        """Do nothing: there is nothing to release."""
