"""Authentication at the admin address: tokens, what they may do, and requests of other sites."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from hmac import compare_digest
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from looptrap.admin.api import error_response
from looptrap.admin.dashboard_files import is_dashboard_path
from looptrap.admin.operator import (
    ADMIN,
    EVERYBODY_HERE,
    READER,
    AdminAccess,
    BadUserError,
    Operator,
    TokenHolder,
)
from looptrap.bounded import LruMap
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.auth import check_token, is_loopback

UNAUTHENTICATED_PATHS = ("/livez", "/readyz")
"""For orchestrators, which have no token; they show nothing but health."""

READ_METHODS = ("GET", "HEAD")

SAME_SITE_VALUES = ("same-origin", "none")
"""Sec-Fetch-Site of a request by the dashboard, or by a person who types an address."""

OPERATOR = web.RequestKey("operator", Operator)
"""Who sent a request; not set on those for files of the dashboard."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every response without its own: it must not be run, framed, cached or lent to a page."""

FREE_GUESSES = 3
"""Wrong tokens of one address that are answered at once …"""
FREE_GUESSES_TOTAL = 100
"""… and of all addresses together."""
FIRST_DELAY_S, MAX_DELAY_S = 0.25, 5.0
"""Delay of the answer to the next wrong token, doubled with each further one."""
RESET_AFTER_S = 600.0
"""Time after the latest wrong token of an address until its count starts again."""
MAX_ADDRESSES = 1024
MAX_DELAYED = 64
"""Delayed answers at once; more wrong tokens get 429."""
LOG_INTERVAL_S = 60.0

log = logging.getLogger("looptrap")


class FailureCount(msgspec.Struct, gc=False):
    """Wrong tokens, and the time of the latest."""

    count: int = 0
    latest: float = 0.0

    def add(self, now: float) -> int:
        """Count one more and return the count."""
        self.count = 1 if now - self.latest > RESET_AFTER_S else self.count + 1
        self.latest = now
        return self.count


class GuessLimiter:
    """Delays the answers to wrong tokens and logs them; a right token never waits."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._total = FailureCount()
        self._by_address: LruMap[str, FailureCount] = LruMap(MAX_ADDRESSES)
        self._delayed = 0
        self._unlogged = 0
        self._next_log = 0.0

    async def delay(self, address: str) -> bool:
        """Count a wrong token and wait before it is answered; False if too many wait already."""
        now = self._clock()
        failures = self._by_address.get(address) or FailureCount()
        self._by_address[address] = failures  # again: the latest is dropped last
        excess = failures.add(now) - FREE_GUESSES
        seconds = max(_delay(excess), _delay(self._total.add(now) - FREE_GUESSES_TOTAL))
        self._log(address, failures.count, now)
        if not seconds:
            return True
        if self._delayed >= MAX_DELAYED:
            return False
        self._delayed += 1
        try:
            await self._sleep(seconds)
        finally:
            self._delayed -= 1
        return True

    def _log(self, address: str, count: int, now: float) -> None:
        self._unlogged += 1
        if now >= self._next_log:
            message = (
                "wrong tokens at the admin address: %d since the last warning, now from %s (%d)"
            )
            log.warning(message, self._unlogged, address, count)
            self._next_log, self._unlogged = now + LOG_INTERVAL_S, 0


def _delay(excess: int) -> float:
    """Return the delay after that many wrong tokens more than are free."""
    return min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(excess - 1, 10)) if excess > 0 else 0.0


class AdminAuth:
    """Checks who sends a request; without tokens and user header, this machine may do all."""

    def __init__(self, host: str, access: AdminAccess, read_paths: Collection[str] = ()) -> None:
        """`read_paths` are those at which readers may send more than READ_METHODS."""
        # The read token is a second one: alone it would leave nobody who may write.
        if not access.users and all(one.operator is READER for one in access.holders):
            if not is_loopback(host):
                message = (
                    f"{host} can be reached by others: name a variable with a token"
                    " in admin_token_env, or listen on 127.0.0.1"
                )
                raise ConfigError([Problem("gateway.admin", message)])
            access = EVERYBODY_HERE
        _check_tokens(access.holders, host)
        self._holders = [(one.token.encode(), one.operator) for one in access.holders]
        self._users = access.users
        self._read_paths = read_paths
        self._limiter = GuessLimiter()

    async def judge(self, request: web.Request) -> web.Response | None:
        """Return the refusal of a request, if any; that of a wrong token is delayed."""
        refused = self.refusal(request)
        if refused is None or refused.status != 401 or "Authorization" not in request.headers:
            return refused
        if await self._limiter.delay(request.remote or ""):
            return refused
        refused = error_response(429, "too_many_guesses", "Too many wrong tokens. Try again later.")
        refused.headers["Retry-After"] = f"{MAX_DELAY_S:.0f}"
        return refused

    def refusal(self, request: web.Request) -> web.Response | None:
        """Return why a request is refused; None for another, on which it notes what it may do."""
        if request.path in UNAUTHENTICATED_PATHS:
            return None
        is_open = not self._holders and self._users is None
        if is_open and not is_loopback(_host(request)):
            message = "Use 127.0.0.1 or localhost to reach this address."
            return error_response(403, "foreign_host", message)
        try:
            operator = ADMIN if is_open else self._user(request) or self._token_holder(request)
        except BadUserError as error:
            message = f"The user header of the proxy {error}."
            return error_response(400, "bad_user", message)
        except ForeignHostError:
            message = "Reach this address by the name in public_url, or by its own."
            return error_response(403, "foreign_host", message)
        if operator is not None:
            request[OPERATOR] = operator
        # A browser loads the page before it can be given a token.
        elif not is_dashboard_path(request.path):
            message = "Send Authorization: Bearer <admin token>."
            refused = error_response(401, "missing_token", message)
            refused.headers["WWW-Authenticate"] = "Bearer"
            return refused
        if request.method in READ_METHODS:
            return None
        if not _is_same_site(request):
            message = "A page of another site cannot change anything here."
            return error_response(403, "cross_site", message)
        is_reader = operator is not None and not operator.may_write
        if is_reader and request.path not in self._read_paths:
            return error_response(403, "read_only", "You may see all and change nothing.")
        return None

    def _user(self, request: web.Request) -> Operator | None:
        """Return the user whom a trusted proxy names."""
        if self._users is None or (user := self._users.user(request)) is None:
            return None
        # A site may point its name at this machine, whose browser may be a trusted address.
        if not self._users.is_own_host(_host(request)):
            raise ForeignHostError
        return user

    def _token_holder(self, request: web.Request) -> Operator | None:
        """Return whose token a request has."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        # Bytes that are no text arrive as surrogates.
        sent_token = text.strip().encode(errors="surrogateescape")
        # All are always compared, so that the time taken reveals nothing.
        matches = [one for token, one in self._holders if compare_digest(sent_token, token)]
        return matches[0] if matches and scheme.lower() == "bearer" else None


class ForeignHostError(Exception):
    """A request came under a name that is not this address's own."""


def _check_tokens(holders: Iterable[TokenHolder], host: str) -> None:
    """Raise ConfigError for tokens that are equal, or can be guessed."""
    places: dict[str, str] = {}
    for _, token, place in holders:
        check_token(place, token, host)
        first = places.setdefault(token, place)
        if first != place:
            message = f"its token is that of {first.removeprefix('gateway.')}, must be another"
            raise ConfigError([Problem(place, message)])


def _is_same_site(request: web.Request) -> bool:
    """Say whether no page of another site sent this."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in SAME_SITE_VALUES
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host


def _host(request: web.Request) -> str:
    host, _, port = request.host.rpartition(":")
    return host if port.isdigit() and host else request.host
