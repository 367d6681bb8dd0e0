"""Who is calling: a gateway key, else the provider credential presented, else the address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from ipaddress import ip_address
from urllib.parse import unquote_to_bytes

import msgspec

from looptrap.errors import ConfigError, Problem
from looptrap.gateway.keys import KeyRing
from looptrap.policy.policy import Project
from looptrap.schema.wording import quoted

Field = tuple[bytes, bytes]

KEY_HEADER = b"x-looptrap-key"
"""Carries a gateway key beside the caller's own provider credential."""

CREDENTIAL_HEADERS = frozenset(
    (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", KEY_HEADER)
)
_IN_QUERY = b"?key"  # no header can have this name
_OURS = re.compile(rb"""(?:\A|(?<=[\s,"']))lt-[^\s,"']*""")
_BEARER = re.compile(rb"\Abearer(?:[ \t]+|\Z)", re.IGNORECASE)
_SIGNATURE = b"AWS4-"

_REMEMBERED = 4096
_MEMORABLE_BYTES = 2048  # longer credentials are digested anew each time, which bounds the memory


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Who pays for a request, and what of it must not be forwarded."""

    caller: str
    """`key:<name>`, `cred:<16 hex digits>` or `addr:<address>`."""
    project: str = ""
    key_name: str = ""
    drop: frozenset[bytes] = frozenset()
    """The (lower-case) names of the headers that carried the gateway key."""
    drop_query: bool = False
    """The query carried the gateway key: forward `without_key(query)`."""
    has_credential: bool = False
    """A provider's credential is forwarded: beside a gateway key, the caller's own."""


class Denied(msgspec.Struct, frozen=True, gc=False):
    """Why a request is not let in; no part of what it presented is repeated."""

    status: int
    code: str
    message: str


MISSING = Denied(
    401,
    "missing_api_key",
    "This gateway asks for a key of its own (lt-…). Send it as your API key, or in X-Looptrap-Key"
    " beside the provider's.",
)
UNKNOWN = Denied(401, "invalid_api_key", "Unknown gateway key.")
REVOKED = Denied(401, "invalid_api_key", "This gateway key has been revoked.")
AMBIGUOUS = Denied(401, "invalid_api_key", "The request carries two different gateway keys.")


class Authenticator:
    """Tells callers apart; what a credential means is remembered until the keys change."""

    def __init__(
        self,
        ring: KeyRing,
        *,
        secret: bytes,
        projects: Mapping[str, str] | None = None,
        require_keys: bool = False,
    ) -> None:
        """`projects` maps names of keys to projects, and wins over what the keys themselves say."""
        self._ring = ring
        self._secret = secret
        self._projects = dict(projects or {})
        self._require_keys = require_keys
        self._generation = ring.generation
        self._remembered: dict[tuple[Field, ...] | str, Identity] = {}

    @property
    def generation(self) -> int:
        """Changes with the keys: what was concluded from them before is void."""
        return self._ring.generation

    def identify(self, headers: Iterable[Field], target: bytes, peer: str) -> Identity | Denied:
        """Return who sent a request with these headers (lower-case names) from that address."""
        presented = (
            _in_query(target) if len(target) <= _MEMORABLE_BYTES else _in_query.__wrapped__(target)
        )
        for field in headers:
            if field[0] in CREDENTIAL_HEADERS:
                presented += (field,)
        if self._generation != self._ring.generation:
            self._generation = self._ring.generation
            self._remembered.clear()
        return self._remembered.get(presented or peer) or self._conclude(presented, peer)

    def _conclude(self, presented: tuple[Field, ...], peer: str) -> Identity | Denied:
        identity = self._by_key(presented)
        if isinstance(identity, Denied):
            return identity
        if identity is None and (self._require_keys or self._ring.has_keys):
            return MISSING
        if identity is None and (credentials := _credentials(presented)):
            identity = Identity(caller=f"cred:{self._digest(credentials)}", has_credential=True)
        if identity is None:
            # Whatever was presented says nothing: the same from elsewhere is another caller.
            presented = ()
            identity = Identity(caller=f"addr:{_plain(peer)}")
        self._remember(presented, peer, identity)
        return identity

    def _by_key(self, presented: tuple[Field, ...]) -> Identity | Denied | None:
        """Return whose gateway key is among what was presented; None without any."""
        texts: set[bytes] = set()
        carriers: set[bytes] = set()
        for name, value in presented:
            ours = _OURS.findall(value) or ([value] if value and name == KEY_HEADER else [])
            if ours:
                texts.update(ours)
                carriers.add(name)
        if not texts:
            return None
        if len(texts) > 1:
            return AMBIGUOUS
        key = self._ring.find(texts.pop())
        if key is None:
            return UNKNOWN
        if key.revoked is not None:
            return REVOKED
        return Identity(
            caller=f"key:{key.name}",
            project=self._projects.get(key.name, key.project),
            key_name=key.name,
            drop=frozenset(carriers - {_IN_QUERY}),
            drop_query=_IN_QUERY in carriers,
            has_credential=any(_BEARER.sub(b"", v) for n, v in presented if n not in carriers),
        )

    def _digest(self, credentials: list[bytes]) -> str:
        told_apart = b"".join([b"%d:%b" % (len(text), text) for text in credentials])
        person = b"looptrap-cred"
        return blake2b(told_apart, digest_size=8, key=self._secret, person=person).hexdigest()

    def _remember(self, presented: tuple[Field, ...], peer: str, identity: Identity) -> None:
        if sum(len(name) + len(value) for name, value in presented) > _MEMORABLE_BYTES:
            return
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[presented or peer] = identity


def without_key(query: bytes) -> bytes:
    """Return the query less the gateway keys in it, every other byte as it was sent."""
    return b"&".join(
        field for field in query.split(b"&") if not any(map(_OURS.search, _keys_in(field)))
    )


def projects_by_key(projects: Iterable[Project]) -> dict[str, str]:
    """Return the name of the project of each key that a project lists."""
    by_key: dict[str, str] = {}
    for i, project in enumerate(projects):
        for name in project.keys:
            if by_key.setdefault(name, project.name) != project.name:
                message = f"key {quoted(name)} belongs to project {by_key[name]} already"
                raise ConfigError([Problem(f"projects[{i}].keys", message)])
    return by_key


def check_exposure(listen_host: str, *, has_keys: bool, allow_anonymous: bool) -> None:
    """Refuse to serve just anybody on an address that others can reach."""
    if has_keys or allow_anonymous or is_loopback(listen_host):
        return
    raise ConfigError(
        [
            Problem(
                "gateway.listen",
                f"{listen_host or 'every address'} can be reached by others and there are no"
                " gateway keys: make one with `looptrap keys add NAME`, listen on 127.0.0.1,"
                " or let everybody in with --allow-anonymous",
            )
        ]
    )


def is_loopback(host: str) -> bool:
    """Say whether an address can be reached from this machine only."""
    host = host.removeprefix("[").removesuffix("]")
    try:
        return ip_address(_plain(host)).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@lru_cache(maxsize=1024)
def _in_query(target: bytes) -> tuple[Field, ...]:
    """Return the keys in a target's query; remembered, as most requests have the same few."""
    return tuple([(_IN_QUERY, value) for value in _keys_in(target.partition(b"?")[2])])


def _keys_in(query: bytes) -> Iterator[bytes]:
    """Yield the decoded values of all `key` parameters, however their name is written."""
    for field in query.split(b"&"):
        name, _, value = field.partition(b"=")
        if name == b"key" or (b"%" in name and unquote_to_bytes(name) == b"key"):
            yield unquote_to_bytes(value.replace(b"+", b" "))


def _credentials(presented: Iterable[Field]) -> list[bytes]:
    """Return the distinct provider credentials, in an order of their own.

    A signature is none: it changes with every request, and whom it claims to be is not proven here.
    """
    texts = {_BEARER.sub(b"", value) for _, value in presented if not value.startswith(_SIGNATURE)}
    return sorted(texts - {b""})


def _plain(peer: str) -> str:
    """Return an IPv4 address as itself, also where a dual-stack socket maps it into IPv6."""
    mapped = peer.removeprefix("::ffff:")
    return mapped if "." in mapped else peer
