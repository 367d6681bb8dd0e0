"""Origins, parsed from base URLs, and the proxies that the environment sets for them."""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """A server; `host` is in lower case, without brackets."""

    scheme: Literal["http", "https"]
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> tuple[Origin, str]:
        """Split a base URL into its origin and its path without the trailing slash."""
        parts = split_url(url)
        if parts.scheme not in ("http", "https"):
            message = f"scheme is {parts.scheme!r}, must be http or https"
            raise ValueError(f"{redact_url(url)}: {message}")
        if parts.username is not None or parts.password is not None:
            raise ValueError(f"{parts.hostname!r}: a user name or password is not allowed here")
        if parts.query or parts.fragment:
            raise ValueError(f"{redact_url(url)}: a base URL has no query and no fragment")
        host = ascii_host(parts)
        scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
        port = parts.port if parts.port is not None else DEFAULT_PORTS[scheme]
        return cls(scheme, host, port), parts.path.rstrip("/")

    @property
    def authority(self) -> str:
        """The value of the Host field: with the port unless it is the scheme's default."""
        host = bracket_host(self.host)
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{bracket_host(self.host)}:{self.port}"


def redact_url(url: str) -> str:
    """Return a URL for messages, without credentials."""
    return repr(url.rpartition("@")[2])


def split_url(url: str) -> SplitResult:
    """Split a URL; raise ValueError with a one-sentence reason."""
    if not url.isprintable() or " " in url:
        raise ValueError(f"{redact_url(url)}: a URL has no spaces and no control characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        # Python's own message repeats the port, which may be part of a password.
        why = error if "@" not in url else "not of the form http://user:password@host:port"
        raise ValueError(f"{redact_url(url)}: {why}") from None
    if port == 0:
        raise ValueError(f"{redact_url(url)}: port is 0, must be 1 to 65535")
    return parts


def ascii_host(parts: SplitResult) -> str:
    """Return the host in the form that DNS and TLS compare."""
    host = parts.hostname or ""
    if not host:
        raise ValueError(f"{redact_url(parts.geturl())}: no host")
    if ":" in host or host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ValueError(f"{host!r}: not a host name ({error})") from None


def bracket_host(host: str) -> str:
    """Write an IPv6 literal the way URLs and Host fields do."""
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; `authorization` is the ready value of Proxy-Authorization, or empty."""

    host: str
    port: int
    authorization: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, url: str) -> Proxy:
        """Parse `http://user:password@host:port`; the scheme is optional."""
        parts = split_url(url if "://" in url else f"http://{url}")
        host = ascii_host(parts)
        if parts.scheme != "http":
            raise ValueError(f"proxy {host!r}: scheme is {parts.scheme!r}, must be http")
        authorization = b""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = b"Basic " + b64encode(pair.encode())
        return cls(host, parts.port or 80, authorization)

    @property
    def fields(self) -> bytes:
        """The Proxy-Authorization header line, or nothing."""
        if not self.authorization:
            return b""
        return b"Proxy-Authorization: " + self.authorization + b"\r\n"

    def __str__(self) -> str:
        return f"{bracket_host(self.host)}:{self.port}"


class ProxyEnvironment:
    """The proxies of an environment, and the hosts of NO_PROXY."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        def read(name: str) -> str:
            return (environ.get(name.lower()) or environ.get(name) or "").strip()

        everywhere = read("ALL_PROXY")
        self._by_scheme = {
            scheme: Proxy.of(url) if (url := read(name) or everywhere) else None
            for scheme, name in (("http", "HTTP_PROXY"), ("https", "HTTPS_PROXY"))
        }
        self._exempt = list(map(NoProxyRule.of, read("NO_PROXY").replace(",", " ").split()))

    def choose(self, origin: Origin) -> Proxy | None:
        """Return the proxy for an origin, or None for a direct connection."""
        if any(exemption.covers(origin) for exemption in self._exempt):
            return None
        return self._by_scheme[origin.scheme]


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class NoProxyRule:
    """One NO_PROXY entry: `*`, a host with its subdomains, `.suffix`, an address, a network."""

    name: str
    port: int | None
    network: Network | None

    @classmethod
    def of(cls, entry: str) -> NoProxyRule:
        """Parse an entry, with or without a port."""
        network = parse_network(entry.strip("[]"))
        if network is not None:
            return cls("", None, network)
        name, colon, digits = entry.rpartition(":")
        if not colon or not digits.isdecimal():
            name, digits = entry, ""
        port = int(digits) if digits else None
        host = name.lower().removeprefix("*") if name != "*" else "*"
        return cls(host, port, parse_network(name.strip("[]")))

    def covers(self, origin: Origin) -> bool:
        """Return whether the entry covers an origin."""
        if self.port is not None and self.port != origin.port:
            return False
        if self.network is not None:
            address = parse_network(origin.host)
            return address is not None and address.network_address in self.network
        if self.name == "*":
            return True
        if self.name.startswith("."):
            return origin.host.endswith(self.name)
        return origin.host == self.name or origin.host.endswith("." + self.name)


def parse_network(text: str) -> Network | None:
    """Parse an address or a CIDR block; None for anything else, such as a name."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
