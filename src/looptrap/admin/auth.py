"""The door of the admin address: who is let in, who may change something, and from which page."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from looptrap.admin.api import error_response
from looptrap.admin.dashboard_files import is_dashboard_path
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.auth import check_token, is_loopback

UNAUTHENTICATED_PATHS = ("/livez", "/readyz")
"""Asked by orchestrators, which have no token; they tell nothing but health."""

READ_METHODS = ("GET", "HEAD")
READ_ONLY_POST_PATHS = ("/api/v1/what-if", "/api/v1/try")
"""Questions too long for a URL: they change nothing, whatever their method."""

SAME_SITE_VALUES = ("same-origin", "none")
"""What browsers say of a request that a page of ours makes, or a person who types an address."""

MAY_WRITE = web.RequestKey("may_write", bool)
"""Whether who sent a request may change something."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer, unless it has its own: nothing of it is run, framed, kept or lent to a page."""

Access = Literal["all", "read", "none"]

FREE_GUESSES = 3
"""Wrong tokens of one address that are answered at once …"""
FREE_IN_ALL = 100
"""… and of all addresses together."""
FIRST_WAIT, LONGEST_WAIT = 0.25, 5.0
"""Seconds for which the answer to the next wrong token is held back, doubled with every other."""
FORGOTTEN_AFTER = 600.0
"""Seconds after the latest wrong token of an address."""
MOST_ADDRESSES = 1024
MOST_WAITING = 64
"""Answers that are held back at once; more wrong tokens get 429."""
QUIET = 60.0
"""Seconds between two lines in the log."""

log = logging.getLogger("looptrap")


class Tried(msgspec.Struct, gc=False):
    """Wrong tokens, and when the latest came."""

    count: int = 0
    latest: float = 0.0


class Guesses:
    """Holds back the answers to wrong tokens, and logs that there were some.

    A right token never waits, whoever else has guessed.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._all = Tried()
        self._by_address: OrderedDict[str, Tried] = OrderedDict()
        self._waiting = 0
        self._unlogged = 0
        self._quiet_until = 0.0

    async def hold(self, address: str) -> bool:
        """Take a wrong token and wait before it is answered; False when too many wait already."""
        now = self._clock()
        tried = self._by_address.pop(address, None) or Tried()
        self._by_address[address] = tried
        if len(self._by_address) > MOST_ADDRESSES:
            self._by_address.popitem(last=False)
        seconds = max(
            _wait(_count(tried, now) - FREE_GUESSES), _wait(_count(self._all, now) - FREE_IN_ALL)
        )
        self._log(address, tried.count, now)
        if not seconds:
            return True
        if self._waiting >= MOST_WAITING:
            return False
        self._waiting += 1
        try:
            await self._sleep(seconds)
        finally:
            self._waiting -= 1
        return True

    def _log(self, address: str, count: int, now: float) -> None:
        self._unlogged += 1
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET
            log.warning(
                "wrong tokens at the admin address: %d since the last such line, now from %s (%d)",
                self._unlogged,
                address,
                count,
            )
            self._unlogged = 0


def _count(tried: Tried, now: float) -> int:
    if now - tried.latest > FORGOTTEN_AFTER:
        tried.count = 0
    tried.count += 1
    tried.latest = now
    return tried.count


def _wait(beyond: int) -> float:
    """Return the seconds to wait after so many wrong tokens more than are free."""
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(beyond - 1, 10)) if beyond > 0 else 0.0


class AdminAuth:
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
        check_token("gateway.admin_token_env", token, host)
        check_token("gateway.read_token_env", read_token, host)
        self._token = token.encode()
        self._read_token = read_token.encode()
        self._guesses = Guesses()

    async def judge(self, request: web.Request) -> web.Response | None:
        """Do as `refusal` does, and let whoever sent a wrong token wait for the answer."""
        told = self.refusal(request)
        is_guess = told is not None and told.status == 401 and "Authorization" in request.headers
        if not is_guess or await self._guesses.hold(request.remote or ""):
            return told
        told = error_response(429, "too_many_guesses", "Too many wrong tokens. Try again later.")
        told.headers["Retry-After"] = f"{LONGEST_WAIT:.0f}"
        return told

    def refusal(self, request: web.Request) -> web.Response | None:
        """Return why a request is not let in; None for one that is, and notes what it may do."""
        if request.path in UNAUTHENTICATED_PATHS:
            return None
        if not self._token and not is_loopback(_host(request)):
            return error_response(
                403, "foreign_host", "Use 127.0.0.1 or localhost to reach this address."
            )
        access = self._access(request)
        request[MAY_WRITE] = access == "all"
        # A browser asks for the page before anybody can tell it a token.
        if access == "none" and not is_dashboard_path(request.path):
            told = error_response(401, "missing_token", "Send Authorization: Bearer <admin token>.")
            told.headers["WWW-Authenticate"] = "Bearer"
            return told
        if request.method in READ_METHODS:
            return None
        if not _is_same_site(request):
            return error_response(
                403, "cross_site", "A page of another site cannot change anything here."
            )
        if access == "read" and request.path not in READ_ONLY_POST_PATHS:
            return error_response(403, "read_only", "This token may see all and change nothing.")
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


def _is_same_site(request: web.Request) -> bool:
    """Say whether no page of another site made a browser send this."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in SAME_SITE_VALUES
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host


def _host(request: web.Request) -> str:
    host, _, port = request.host.rpartition(":")
    return host if port.isdigit() and host else request.host
