"""StoreAddress and StorePlan: servers and credentials, parsed from the store's URL."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

DEFAULT_PORT = 6379
SENTINEL_PORT = 26_379
MAX_DB = 1_000_000

URL = re.compile(r"(?:([^:/?#]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?")
"""Scheme, authority, path, query and fragment."""

SCHEMES = {
    "redis": {"db"},
    "rediss": {"db", "ca"},
    "unix": {"db"},
    "redis+cluster": set(),
    "rediss+cluster": {"ca"},
    "redis+sentinel": {"db", "sentinel_user", "sentinel_password"},
    "rediss+sentinel": {"db", "ca", "sentinel_user", "sentinel_password"},
}
"""The schemes of a store's URL, and the options that each takes after a question mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """One server. Its text is safe to log: it never holds the password."""

    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    """Of a Unix socket; then there is no host."""
    db: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    is_tls: bool = False
    ca: str = ""
    """A file of certificates to trust instead of the system's."""

    def __str__(self) -> str:
        if self.path:
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.is_tls else 'redis'}://{host}:{self.port}"

    def at(self, host: str, port: int) -> StoreAddress:
        """Return another server with the same credentials."""
        return replace(self, host=host, port=port)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlan:
    """What a store's URL says: which servers to ask, and what they are."""

    kind: Literal["single", "cluster", "sentinel"]
    servers: tuple[StoreAddress, ...]
    """The server, some servers of the cluster, or the sentinels."""
    primary_name: str = ""
    """The name by which sentinels know the primary, and …"""
    primary: StoreAddress = field(default_factory=StoreAddress)
    """… its credentials and database; its place is what they say."""


def parse_store_url(url: str) -> StorePlan:
    """Parse a store's URL.

    No error text repeats the URL, which may hold a password.
    """
    if not url.isprintable() or " " in url:
        raise ValueError("the store's URL has spaces or control characters")
    parts = _split(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(
            f"the store's URL begins with {parts.scheme + '://'!r}, must be one of"
            f" {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
        )
    if parts.fragment:
        raise ValueError("the store's URL has a '#': write %23 where a password holds one")
    if "@" in parts.query or ("@" in parts.path and parts.scheme != "unix"):
        raise ValueError(
            "the store's URL has an '@' behind its servers: write %2F or %3F where a password"
            " holds a '/' or a '?', and %40 for an '@'"
        )
    options = _options(parts)
    user, password, hosts = _credentials(parts)
    _, _, kind = parts.scheme.partition("+")
    name, path = _primary_name(parts.path) if kind == "sentinel" else ("", parts.path)
    address = StoreAddress(
        user=user,
        password=password,
        db=_db(parts._replace(path=path), options),
        is_tls=parts.scheme.startswith("rediss"),
        ca=options.get("ca", ""),
    )
    if parts.scheme == "unix":
        if hosts or not parts.path:
            raise ValueError("a unix:// URL needs three slashes and a path: unix:///run/redis.sock")
        return StorePlan(kind="single", servers=(replace(address, path=unquote(parts.path)),))
    servers = hosts.split(",")
    match kind:
        case "cluster":
            places = (_host_and_port(one) for one in servers)
            return StorePlan(kind="cluster", servers=tuple(address.at(*one) for one in places))
        case "sentinel":
            sentinel = replace(
                address,
                user=options.get("sentinel_user", ""),
                password=options.get("sentinel_password", ""),
                db=0,
            )
            places = (_host_and_port(one, SENTINEL_PORT) for one in servers)
            return StorePlan(
                kind="sentinel",
                servers=tuple(sentinel.at(*one) for one in places),
                primary_name=name,
                primary=address,
            )
    if len(servers) > 1:
        raise ValueError(
            f"{parts.scheme}:// takes one server; several need redis+cluster:// or redis+sentinel://"
        )
    return StorePlan(kind="single", servers=(address.at(*_host_and_port(hosts)),))


def _primary_name(path: str) -> tuple[str, str]:
    """Return the name of a sentinels' primary, and what follows it in the path."""
    name, _, rest = path.removeprefix("/").partition("/")
    if not name:
        raise ValueError(
            "a URL of sentinels needs the name of the primary behind them:"
            " redis+sentinel://host:26379,host:26379/mymaster"
        )
    return unquote(name), rest


def _split(url: str) -> SplitResult:
    """Split a URL as RFC 3986 does (appendix B).

    `urlsplit` of some Pythons refuses brackets behind the first server of a cluster.
    """
    match = URL.fullmatch(url)
    assert match is not None  # Every part may be empty.
    scheme, *others = match.groups(default="")
    return SplitResult(scheme.lower(), *others)


def _options(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in options.items():
        allowed = SCHEMES[parts.scheme]
        if name not in allowed:
            known = " and ".join(f"?{one}=" for one in sorted(allowed)) or "no option"
            option = f"?{name}="
            raise ValueError(f"{option!r} is no option of {parts.scheme}://, which takes {known}")
        if not value:
            raise ValueError(f"?{name}= of the store's URL is empty")
    return options


def _credentials(parts: SplitResult) -> tuple[str, str, str]:
    """Return user name, password and the rest of the authority."""
    credentials, at, hosts = parts.netloc.rpartition("@")
    user, colon, password = credentials.partition(":")
    if at and not (colon and password):
        raise ValueError("the store's URL has an '@' but no password before it: user:password@")
    return unquote(user), unquote(password), hosts


def _db(parts: SplitResult, options: dict[str, str]) -> int:
    path = "" if parts.scheme == "unix" else parts.path.strip("/")
    if path and "db" not in SCHEMES[parts.scheme]:
        raise ValueError("a cluster has one database only: nothing may follow its servers")
    if path and "db" in options:
        raise ValueError("the store's URL names a database twice: in its path and as ?db=")
    text = path or options.get("db", "0")
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_DB):
        raise ValueError(f"database {text!r} of the store's URL is not a number from 0 on")
    return int(text)


def _host_and_port(server: str, default: int = DEFAULT_PORT) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{server}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"{server!r} is not a server of the form host:port: {error}") from None
    if not host:
        raise ValueError(f"{server!r} is not a server of the form host:port: no host")
    if port == 0:
        raise ValueError(f"{server!r} is not a server of the form host:port: port is 0")
    return host, default if port is None else port
