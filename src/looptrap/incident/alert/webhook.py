"""Webhooks: one HTTP request to a checked address, bounded, without redirects.

The address that is checked is the one connected to.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Network, ip_address, ip_network

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from looptrap import __version__
from looptrap.wire.header_fields import parse_retry_after
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


NOT_PUBLIC = "which is not public (allow_private = true lets it)"

HostLookup = Callable[[str, int], Awaitable[list[str]]]
"""From a host name and a port to its addresses."""

_NON_PUBLIC = [
    ip_network(network)
    for network in (
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
        "2001::/23",  # protocols; Teredo, which holds an IPv4 address
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which holds an IPv4 address
        "3fff::/20",  # documentation
    )
]
_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%.+)?")


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet."""
    ip = ip_address(address)
    if ip in _NAT64:  # in an IPv6-only network, public IPv4 hosts have such addresses
        ip = IPv4Address(int(ip) & 0xFFFF_FFFF)
    if ip.version == 6 and ip not in _PUBLIC_V6:
        return False
    return not any(ip in network for network in _NON_PUBLIC)


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
            raise ValueError(f"leads to {host}, {NOT_PUBLIC}")
        return cls(parsed, allow_private)

    def __str__(self) -> str:
        return f"{self.url.scheme}://{bracket_host(self.url.raw_host or '')}:{self.url.port}"


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
                raise DeliveryError(f"{self._target} leads to {address}, {NOT_PUBLIC}")
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


POST_TIMEOUT_S = 10.0
"""Seconds from the name look-up to the response."""
MAX_READ_BYTES = 65_536
"""Bytes of a response that are read before the connection is closed."""
MAX_RETRY_AFTER_S = 3_600.0
"""The longest Retry-After of a receiver that is honoured."""

_HEADERS = {"content-type": "application/json", "user-agent": f"Looptrap/{__version__}"}
_WORD = re.compile(rb"[a-z_]{1,60}")


class WebhookClient:
    """Posts bodies to one target."""

    def __init__(
        self,
        target: WebhookTarget,
        *,
        clock: Callable[[], float],
        lookup: HostLookup = resolve_host,
        tls: ssl.SSLContext | None = None,
        timeout: float = POST_TIMEOUT_S,
    ) -> None:
        self.target = target
        self._clock = clock
        self._lookup = lookup
        self._tls = tls
        self._timeout = aiohttp.ClientTimeout(total=timeout)

    async def send(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Post a body; raise DeliveryError if it was not accepted."""
        try:
            await self._send(body, headers)
        except TimeoutError:
            raise DeliveryError(f"{self.target}: no answer in {self._timeout.total:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise DeliveryError(f"{self.target}: {_describe_error(error)}") from None

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=PinnedResolver(self.target, self._lookup),
            use_dns_cache=False,
            force_close=True,
            ssl=self._tls or True,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            auto_decompress=False,  # the body is not used, and may be a decompression bomb
            trust_env=False,  # a proxy would resolve the host again, unchecked
        )

    async def _send(self, body: bytes, headers: Mapping[str, str]) -> None:
        async with (
            self._session() as session,
            session.post(
                self.target.url, data=body, headers={**_HEADERS, **headers}, allow_redirects=False
            ) as response,
        ):
            start = b""
            # The status decides; an error in the rest of the response does not matter.
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                start = await _read_start(response.content)
            if not 200 <= response.status < 300:
                raise self._refusal(response, start)

    def _refusal(self, response: aiohttp.ClientResponse, start: bytes) -> DeliveryError:
        status = response.status
        reason = f"{self.target} answered {status}"
        if 300 <= status < 400:
            reason += ", a redirect, which is not followed: set the URL to where it leads"
        elif word := _WORD.fullmatch(start.strip()):
            # Slack names its error in one word. A longer text might repeat the URL.
            reason += f" {word[0].decode()}"
        retry_after = None
        if status in (429, 503):
            retry_after = parse_retry_after(response.headers.get("retry-after", ""), self._clock())
        if retry_after is not None:
            retry_after = min(retry_after, MAX_RETRY_AFTER_S)
        return DeliveryError(reason, retry_after=retry_after, is_final=status == 410)


async def _read_start(content: aiohttp.StreamReader) -> bytes:
    """Read up to the limit, and return the first bytes."""
    start, left = b"", MAX_READ_BYTES
    while left > 0 and (piece := await content.read(left)):
        start = start or piece[:100]
        left -= len(piece)
    return start


def _describe_error(error: Exception) -> str:
    """Describe an error without parts of the URL."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            cause = error.certificate_error
            reason = getattr(cause, "verify_message", "") or type(cause).__name__
            return f"certificate not accepted: {reason}"
        case aiohttp.ServerDisconnectedError():
            return "closed the connection without an answer"
        case aiohttp.ClientConnectorSSLError():
            return "TLS failed"
        case OSError() if error.errno:
            return os.strerror(error.errno)
        case aiohttp.ClientConnectionError() | OSError():
            return "the connection failed"
        case _:
            return f"no proper answer ({type(error).__name__})"
