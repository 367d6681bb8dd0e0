"""Authentication at the admin address: operators, their tokens, and requests of other sites."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from looptrap.admin.api import ApiError, error_response, http_exception_response
from looptrap.bounded import LruMap
from looptrap.config import Config
from looptrap.config.gateway import OPERATOR_NAME, Role
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.auth import check_token, is_loopback, token_from_env, unmapped_address
from looptrap.gateway.browser import is_local_name


class Operator(NamedTuple):
    """Somebody who may use the admin address, and what they may do there."""

    name: str
    role: Role = "write"

    @property
    def may_write(self) -> bool:
        return self.role == "write"


ADMIN, READER = Operator("admin"), Operator("reader", "read")
"""Those who use the token of admin_token_env, or none, and of read_token_env."""


@dataclass(frozen=True, slots=True)
class UserHeader:
    """The header in which a proxy names its user, and the addresses from which it is believed."""

    name: str
    proxies: Sequence[IPv4Network | IPv6Network]
    role: Role = "read"
    """Of users who are not listed."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Of those who are, by name."""
    host: str = ""
    """The public name of this address."""

    def user(self, request: web.Request) -> Operator | None:
        """Return who sent a request; None if no trusted proxy says so.

        Raises ApiError where the proxy passes on what a client wrote, or nothing usable, or where
        the request came under a name that is not this address's own.
        """
        values = request.headers.getall(self.name, [])
        if not values or not self._is_trusted(request.remote or ""):
            return None
        if len(values) > 1:
            message = "The user header of the proxy is there more than once."
            raise ApiError(400, "bad_user", message)
        if not re.fullmatch(OPERATOR_NAME, values[0]) or not values[0].isprintable():
            raise ApiError(400, "bad_user", "The user header of the proxy is not a name.")
        # A site may point its name at this machine, whose browser may be a trusted address.
        host = _host(request).lower()
        if host != self.host and not is_local_name(host):
            message = "Reach this address by the name in public_url, or by its own."
            raise ApiError(403, "foreign_host", message)
        return Operator(values[0], self.roles.get(values[0], self.role))

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ip_address(unmapped_address(peer).partition("%")[0])
        except ValueError:
            return False
        return any(address in network for network in self.proxies)


class TokenHolder(NamedTuple):
    """An operator, their token, and the setting that names its variable."""

    operator: Operator
    token: str
    place: str


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """Who may use the admin address; without any, everybody on this machine."""

    holders: tuple[TokenHolder, ...] = ()
    users: UserHeader | None = None


EVERYBODY_HERE = AdminAccess()


def token_access(token: str = "", read_token: str = "") -> AdminAccess:
    """Return the access with two tokens without names: to change things, and to read them."""
    both = (
        TokenHolder(ADMIN, token, "gateway.admin_token_env"),
        TokenHolder(READER, read_token, "gateway.read_token_env"),
    )
    return AdminAccess(tuple(one for one in both if one.token))


def configured_access(config: Config, env: Mapping[str, str]) -> AdminAccess:
    """Return the access under a configuration; a ConfigError names all variables not set."""
    gateway = config.gateway
    operators = [
        (ADMIN, gateway.admin_token_env, "gateway.admin_token_env"),
        (READER, gateway.read_token_env, "gateway.read_token_env"),
        *(
            (Operator(one.name, one.role), one.token_env, f"gateway.operators[{i}].token_env")
            for i, one in enumerate(gateway.operators)
        ),
    ]
    problems: list[Problem] = []
    holders: list[TokenHolder] = []
    for operator, variable, place in operators:
        try:
            token = token_from_env(variable, place, env)
        except ConfigError as error:
            problems += error.problems
        else:
            holders += [TokenHolder(operator, token, place)] if token else []
    if problems:
        raise ConfigError(problems)
    users = None
    if gateway.user_header is not None:
        roles = {one.name: one.role for one in gateway.operators if one.token_env is None}
        host = urlsplit(config.public_url or "").hostname or ""
        users = UserHeader(
            gateway.user_header, gateway.trusted_proxies, gateway.user_role, roles, host
        )
    return AdminAccess(tuple(holders), users)


UNAUTHENTICATED_PATHS = ("/livez", "/readyz")
"""For orchestrators, which have no token; they show nothing but health."""

DASHBOARD_PREFIX = "/ui/"

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


def is_dashboard_path(path: str) -> bool:
    """Return whether a path belongs to the dashboard: it is served without a token."""
    return path == "/" or path.startswith(DASHBOARD_PREFIX)


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
        operator: Operator | None = ADMIN
        if not is_open:
            try:
                operator = self._users.user(request) if self._users is not None else None
            except ApiError as error:
                return http_exception_response(error)
            operator = operator or self._token_holder(request)
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

    def _token_holder(self, request: web.Request) -> Operator | None:
        """Return whose token a request has."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        # Bytes that are no text arrive as surrogates.
        sent_token = text.strip().encode(errors="surrogateescape")
        # All are always compared, so that the time taken reveals nothing.
        matches = [one for token, one in self._holders if compare_digest(sent_token, token)]
        return matches[0] if matches and scheme.lower() == "bearer" else None


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
