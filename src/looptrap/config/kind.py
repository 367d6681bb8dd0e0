"""Kinds of values that only a gateway's settings have: addresses, base URLs, origins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from looptrap.database.place import FORM, place_problem, shown_place
from looptrap.errors import Problem
from looptrap.schema.kind import INVALID, Kind, Listing, refuse
from looptrap.store.redis.address import parse_store_url
from looptrap.wire.origin import DEFAULT_PORTS, Origin

MEMORY = "memory"
"""The store inside one process."""

_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.%]+)\]|([^\[\]:\s/]+)):(\d{1,5})")

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A host and a port to listen at."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to listen at; the host is a name or an IP address, IPv6 in brackets."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
        if match is None or int(match[3]) > 65_535:
            return refuse(self, value, place, problems)
        return Address(match[1] or match[2], int(match[3]))

    def plain(self, value: Any) -> Any:
        return str(value)

    def words(self) -> str:
        return 'an address such as "127.0.0.1:4100" or "[::1]:4100"'


@dataclass(frozen=True, slots=True)
class StorePlace:
    """`memory`, or the URL of a store that instances share; its password is never shown."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if value == MEMORY:
            return value
        if not isinstance(value, str):
            return refuse(self, value, place, problems)
        try:
            parse_store_url(value)
        except ValueError as error:
            problems.append(Problem(place, f"{error}; must be {self.words()}"))
            return INVALID
        return value

    def plain(self, value: Any) -> Any:
        authority = urlsplit(value).netloc
        # The last one: whatever stands before it may be part of the password.
        entry, at, place = authority.rpartition("@")
        shown = f"{entry.partition(':')[0]}:***@{place}"
        hidden = value.replace(authority, shown, 1) if at else value
        return re.sub(r"(?<=[?&]sentinel_password=)[^&]*", "***", hidden)

    def words(self) -> str:
        return '"memory" or a URL such as "redis://127.0.0.1:6379"'


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """A SQLite file, or the URL of a PostgreSQL; its password is never shown."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, place, problems)
        if problem := place_problem(value):
            problems.append(Problem(place, problem))
            return INVALID
        return value

    def plain(self, value: Any) -> Any:
        return shown_place(value)

    def words(self) -> str:
        return f'the path of a file, {FORM}, or "" to keep nothing'


@dataclass(frozen=True, slots=True)
class BaseUrl(Kind):
    """An http or https URL under which a provider answers."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, place, problems)
        try:
            Origin.of(value)
        except ValueError as error:
            problems.append(Problem(place, f"{error}; must be {self.words()}"))
            return INVALID
        return value

    def words(self) -> str:
        return 'a base URL such as "https://api.openai.com/v1"'


@dataclass(frozen=True, slots=True)
class WebOrigin(Kind):
    """The origin of web pages, as browsers send it."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        match = _ORIGIN.fullmatch(value.lower()) if isinstance(value, str) else None
        if match is None or (match[2] is not None and int(match[2]) > 65_535):
            return refuse(self, value, place, problems)
        # Browsers leave out the port that a scheme has by itself.
        is_default = match[2] is not None and DEFAULT_PORTS.get(match[1]) == int(match[2])
        return match[0].rpartition(":")[0] if is_default else match[0]

    def words(self) -> str:
        return 'an origin such as "https://chat.example" or "http://localhost:3000"'


@dataclass(frozen=True, slots=True)
class Network(Kind):
    """An IP address, or a network of them."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        try:
            return ip_network(value if isinstance(value, str) else "")
        except ValueError:
            return refuse(self, value, place, problems)

    def plain(self, value: Any) -> Any:
        return str(value)

    def words(self) -> str:
        return 'an address or a network such as "127.0.0.1" or "10.0.0.0/8"'


@dataclass(frozen=True, slots=True)
class OneOrMore:
    """One value of a kind, or a list of several that differ."""

    of: Kind
    noun: str
    """What several of them are called together."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if not isinstance(value, list):
            read = self.of.read(value, place, problems)
            return read if read is INVALID else (read,)
        items = Listing(self.of, self.noun).read(value, place, problems)
        if items is not INVALID and len(set(items)) < max(len(items), 1):
            what = "names one twice" if items else "is empty"
            problems.append(Problem(place, f"{what}, must be {self.words()}"))
            return INVALID
        return items

    def plain(self, value: Any) -> Any:
        items = [self.of.plain(item) for item in value]
        return items[0] if len(items) == 1 else items

    def words(self) -> str:
        return f"{self.of.words()}, or a list of {self.noun}"
