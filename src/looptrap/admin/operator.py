"""Operators: who uses the admin address, by token or by the header of an authenticating proxy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from aiohttp import web

from looptrap.config import Config
from looptrap.config.gateway import OPERATOR_NAME, Role
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.auth import token_from_env, unmapped_address
from looptrap.gateway.browser import is_local_name

ADMIN_NAME, READER_NAME = "admin", "reader"
"""The names of those who use the token of admin_token_env, or none, and of read_token_env."""


class Operator(NamedTuple):
    """Somebody who may use the admin address, and what they may do there."""

    name: str
    role: Role = "write"

    @property
    def may_write(self) -> bool:
        return self.role == "write"


ADMIN = Operator(ADMIN_NAME)
READER = Operator(READER_NAME, "read")


class BadUserError(ValueError):
    """The header of a trusted proxy names no user."""


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

        A BadUserError says that the proxy passes on what a client wrote, or nothing usable.
        """
        values = request.headers.getall(self.name, [])
        if not values or not self._is_trusted(request.remote or ""):
            return None
        if len(values) > 1:
            raise BadUserError("is there more than once")
        if not re.fullmatch(OPERATOR_NAME, values[0]) or not values[0].isprintable():
            raise BadUserError("is not a name")
        return Operator(values[0], self.roles.get(values[0], self.role))

    def is_own_host(self, host: str) -> bool:
        """Return whether a Host is a name of this address: no site can point such a name here."""
        return host.lower() == self.host or is_local_name(host.lower())

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
