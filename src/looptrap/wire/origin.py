"""Origin: scheme, host and port, parsed from a base URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, urlsplit

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
            raise ValueError(
                f"{redact_url(url)}: scheme is {parts.scheme!r}, must be http or https"
            )
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
