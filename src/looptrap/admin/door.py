"""The door of the admin address: who is let in, who may change something, and from which page."""

from __future__ import annotations

from hmac import compare_digest
from typing import Literal
from urllib.parse import urlsplit

from aiohttp import web

from looptrap.admin.answer import error
from looptrap.admin.page import is_page
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.auth import is_loopback

OPEN_PATHS = ("/livez", "/readyz")
"""Asked by orchestrators, which have no token; they tell nothing but health."""

READING = ("GET", "HEAD")
ASKING = ("/api/v1/what-if", "/api/v1/try")
"""Questions too long for a URL: they change nothing, whatever their method."""

OURS = ("same-origin", "none")
"""What browsers say of a request that a page of ours makes, or a person who types an address."""

MAY_WRITE = web.RequestKey("may_write", bool)
"""Whether who sent a request may change something."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer, unless it has its own: nothing of it is run, framed, kept or lent to a page."""

Access = Literal["all", "read", "none"]


class Door:
    """Knows the tokens; without any, everybody on this machine may do everything."""

    def __init__(self, host: str, token: str = "", read_token: str = "") -> None:
        if not token and not is_loopback(host):
            raise ConfigError(
                [
                    Problem(
                        "gateway.admin",
                        f"{host} can be reached by others: name a variable with a token"
                        " in admin_token_env, or listen on 127.0.0.1",
                    )
                ]
            )
        if token and token == read_token:
            message = "its token is that of admin_token_env, so whoever reads may change everything"
            raise ConfigError([Problem("gateway.read_token_env", message)])
        self._token = token.encode()
        self._read_token = read_token.encode()

    def refusal(self, request: web.Request) -> web.Response | None:
        """Return why a request is not let in; None for one that is, and notes what it may do."""
        if request.path in OPEN_PATHS:
            return None
        if not self._token and not is_loopback(_host(request)):
            return error(403, "foreign_host", "Use 127.0.0.1 or localhost to reach this address.")
        access = self._access(request)
        request[MAY_WRITE] = access == "all"
        # A browser asks for the page before anybody can tell it a token.
        if access == "none" and not is_page(request.path):
            told = error(401, "missing_token", "Send Authorization: Bearer <admin token>.")
            told.headers["WWW-Authenticate"] = "Bearer"
            return told
        if request.method in READING:
            return None
        if not _is_from_here(request):
            return error(403, "cross_site", "A page of another site cannot change anything here.")
        if access == "read" and request.path not in ASKING:
            return error(403, "read_only", "This token may see all and change nothing.")
        return None

    def _access(self, request: web.Request) -> Access:
        if not self._token:
            return "all"
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        # Bytes that are no text arrive as surrogates, which have an encoding only this way.
        given = text.strip().encode(errors="surrogateescape")
        # Both are compared, always: time tells nothing of either.
        is_admin = compare_digest(given, self._token)
        is_reader = compare_digest(given, self._read_token) and bool(self._read_token)
        if scheme.lower() != "bearer":
            return "none"
        return "all" if is_admin else "read" if is_reader else "none"


def _is_from_here(request: web.Request) -> bool:
    """Say whether no page of another site made a browser send this."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in OURS
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host


def _host(request: web.Request) -> str:
    host, _, port = request.host.rpartition(":")
    return host if port.isdigit() and host else request.host
