"""Browsers: which web pages may send requests through this gateway.

A page of any site can make its visitor's browser send requests to 127.0.0.1. Where no gateway key
is required, such a request would be served as the visitor's own. Programs other than browsers send
neither `Origin` nor `Sec-Fetch-Site`.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from looptrap.gateway.auth import Denial, Identity, is_loopback
from looptrap.wire.header_fields import Field

APP_ORIGINS = (b"app://", b"file://", b"tauri://", b"vscode-file://", b"vscode-webview://")
"""Origins of desktop applications, such as Electron's: no page of a web site can have them."""

LOCAL_ENDINGS = (".localhost", ".local", ".internal")
"""Names outside the public DNS, which no site can point here."""

ALLOWED_METHODS = b"DELETE, GET, HEAD, PATCH, POST, PUT"
PREFLIGHT_MAX_AGE_S = b"600"
"""Seconds for which a browser may cache the answer to a preflight."""

CROSS_SITE = Denial(
    403,
    "cross_site_request",
    "A web page may not use this gateway, unless gateway.allowed_origins lists its origin.",
)
FOREIGN_HOST = Denial(
    403,
    "foreign_host",
    "This gateway was reached under a name that is not its own. Use 127.0.0.1 or localhost, or list"
    " the name, as in https://name, in gateway.allowed_origins.",
)
PREFLIGHT = Denial(204, "", "")
"""Not a refusal: the answer to a browser that asks what a page may send."""


class Browsers:
    """Decides about requests of web pages; a reload makes another."""

    def __init__(self, allowed_origins: Iterable[str] = (), listen_host: str = "127.0.0.1") -> None:
        self._allowed = frozenset(origin.encode() for origin in allowed_origins)
        hosts = {_without_port(origin.partition("://")[2]) for origin in allowed_origins}
        self._hosts = hosts | {listen_host.lower()}
        self._is_loopback = is_loopback(listen_host)
        self._harmless: set[Field] = set()  # Host fields of requests that were no browser's

    def decide(
        self, method: bytes, headers: Iterable[Field], identity: Identity
    ) -> tuple[Denial | None, tuple[Field, ...]]:
        """Return why a request is not served, and the headers that let a page read the answer."""
        relevant = [field for field in headers if field[0] in _RELEVANT_HEADERS]
        if len(relevant) == 1 and relevant[0] in self._harmless:
            return NOTHING
        found = dict(relevant)
        origin = found.get(b"origin", b"").lower()
        if origin in self._allowed and origin:
            if method == b"OPTIONS" and b"access-control-request-method" in found:
                return PREFLIGHT, _preflight(origin, found)
            return None, _readable(origin)
        if identity.key_name:
            return None, ()
        refusal = self._refusal(origin, found)
        if refusal is None and len(relevant) == 1 and not origin and b"host" in found:
            if len(self._harmless) >= _MAX_HARMLESS_HOSTS:
                self._harmless.clear()
            self._harmless.add(relevant[0])
        return refusal, ()

    def _refusal(self, origin: bytes, found: dict[bytes, bytes]) -> Denial | None:
        host = found.get(b"host", b"").decode("latin-1").lower()
        name = _without_port(host)
        is_own = not name or name in self._hosts or is_local_name(name)
        if origin and not origin.startswith(APP_ORIGINS):
            # Same origin: a page that this address served, under a name of its own.
            is_same = origin.partition(b"://")[2] == host.encode("latin-1") and is_own
            return None if is_same else CROSS_SITE
        if not origin and found.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            return CROSS_SITE
        return None if is_own or not self._is_loopback else FOREIGN_HOST


NOTHING: tuple[None, tuple[Field, ...]] = (None, ())

_MAX_HARMLESS_HOSTS = 256

_RELEVANT_HEADERS = {
    b"host", b"origin", b"sec-fetch-site", b"access-control-request-method",
    b"access-control-request-headers", b"access-control-request-private-network",
}  # fmt: skip


def _readable(origin: bytes) -> tuple[Field, ...]:
    return (
        (b"Access-Control-Allow-Origin", origin),
        (b"Access-Control-Expose-Headers", b"*"),
        (b"Vary", b"Origin"),
    )


def _preflight(origin: bytes, found: dict[bytes, bytes]) -> tuple[Field, ...]:
    fields = [
        (b"Access-Control-Allow-Origin", origin),
        (b"Access-Control-Allow-Methods", ALLOWED_METHODS),
        (b"Access-Control-Max-Age", PREFLIGHT_MAX_AGE_S),
        (b"Vary", b"Origin, Access-Control-Request-Headers"),
    ]
    if asked := found.get(b"access-control-request-headers"):
        fields.append((b"Access-Control-Allow-Headers", asked))
    if found.get(b"access-control-request-private-network") == b"true":
        fields.append((b"Access-Control-Allow-Private-Network", b"true"))
    return tuple(fields)


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() else host


def is_local_name(name: str) -> bool:
    """Return whether no site can have a name: an address, or a name of this machine or network."""
    name = name.removesuffix(".")
    if ("." not in name and ":" not in name) or name.endswith(LOCAL_ENDINGS):
        return True
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
