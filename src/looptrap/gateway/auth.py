"""Authenticator: identifies callers by gateway key, else by credential, else by address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from ipaddress import ip_address
from urllib.parse import unquote_to_bytes

import msgspec

from looptrap.bounded import BoundedCache, LruMap
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.keys import PREFIX, KeyRing
from looptrap.gateway.provider import IN_QUERY, ORDER, Carriers, carriers_of, credential_in
from looptrap.policy.policy import Project
from looptrap.schema.wording import quoted
from looptrap.wire.header_fields import Field

KEY_HEADER = b"x-looptrap-key"
"""Carries a gateway key beside the caller's own provider credential."""

CREDENTIAL_HEADERS = frozenset((*ORDER, KEY_HEADER)) - {IN_QUERY}
_GATEWAY_KEY = re.compile(rb"""(?:\A|(?<=[\s,"']))lt-[^\s,"']*""")
_WHOLE_KEY = re.compile(rb"lt-[0-9a-f]{8}-[A-Za-z0-9_-]{43}")

MIN_TOKEN_CHARS = 16
"""Characters of an operator's token, unless only loopback is served."""

_MAX_CACHED_IDENTITIES = 4096
_MAX_CACHED_BYTES = 2048  # longer credentials are digested each time, which bounds the memory


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Who pays for a request, and what of it must not be forwarded."""

    caller: str
    """`key:<name>`, `cred:<16 hex digits>` or `addr:<address>`."""
    project: str = ""
    key_name: str = ""
    drop: frozenset[bytes] = frozenset()
    """The (lower-case) names of headers that are not forwarded: those with the gateway key, or
    with credentials that the provider might read in place of the caller's."""
    drop_query: bool = False
    """Whether the query has the gateway key, which is not forwarded."""
    drop_every_key: bool = False
    """Whether no `key` of the query is forwarded: the caller's credential is in a header."""
    has_credential: bool = False
    """Whether a provider's credential is forwarded."""

    @property
    def uses_operator_key(self) -> bool:
        """Whether the operator's key is sent to the provider, not the caller's."""
        return bool(self.key_name) and not self.has_credential


class Denial(msgspec.Struct, frozen=True, gc=False):
    """Why a request is refused; no credential is repeated."""

    status: int
    code: str
    message: str


KEY_MISSING = Denial(
    401,
    "missing_api_key",
    "This gateway asks for a key of its own (lt-…). Send it as your API key, or in X-Looptrap-Key"
    " beside the provider's.",
)
KEY_UNKNOWN = Denial(401, "invalid_api_key", "Unknown gateway key.")
KEY_REVOKED = Denial(401, "invalid_api_key", "This gateway key has been revoked.")
KEYS_AMBIGUOUS = Denial(401, "invalid_api_key", "The request carries two different gateway keys.")
TWO_CREDENTIALS = Denial(
    400,
    "ambiguous_credential",
    "The request carries two different credentials in the same place. Send one.",
)
KEY_IN_PATH = Denial(
    400, "key_in_path", "The path of the request contains a gateway key. Send it as your API key."
)

_IdentityKey = tuple[Carriers, tuple[Field, ...]] | str
"""What an identity is cached by: credentials, else an address."""


class Authenticator:
    """Identifies callers; identities are cached until the keys change."""

    def __init__(
        self,
        ring: KeyRing,
        *,
        secret: bytes,
        projects: Mapping[str, str] | None = None,
        carriers: Callable[[bytes], Carriers] = carriers_of,
    ) -> None:
        """`projects` maps names of keys to projects, in place of the keys' own.

        `carriers` returns which credentials the provider of a path reads.
        """
        self._ring = ring
        self._secret = secret
        self._projects = dict(projects or {})
        self._carriers = carriers
        self._generation = ring.generation
        self._cached: LruMap[_IdentityKey, Identity] = LruMap(_MAX_CACHED_IDENTITIES)

    @property
    def generation(self) -> int:
        """Changes with the keys: what follows from the earlier keys is void."""
        return self._ring.generation

    def identify(self, headers: Iterable[Field], target: bytes, peer: str) -> Identity | Denial:
        """Return who sent a request with these headers (lower-case names) from an address."""
        presented = _query_keys[target]
        for field in headers:
            if field[0] in CREDENTIAL_HEADERS:
                presented += (field,)
        if self._generation != self._ring.generation:
            self._generation = self._ring.generation
            self._cached.clear()
        if not presented:
            return self._cached.get(peer) or self._identify(None, presented, peer)
        carriers = self._carriers(target.partition(b"?")[0])
        cached = self._cached.get((carriers, presented))
        return cached or self._identify(carriers, presented, peer)

    def _identify(
        self, carriers: Carriers | None, presented: tuple[Field, ...], peer: str
    ) -> Identity | Denial:
        identity = self._by_key(presented)
        if isinstance(identity, Denial):
            return identity
        if identity is None and self._ring.has_keys:
            return KEY_MISSING
        if identity is None and carriers is not None:
            identity = self._by_credential(carriers, presented)
            if isinstance(identity, Denial):
                return identity
        if identity is None:
            # No credential identifies the caller, so its address does, and is what it is cached by.
            carriers = None
            identity = Identity(caller=f"addr:{unmapped_address(peer)}")
        self._cache(peer if carriers is None else (carriers, presented), identity)
        return identity

    def _by_key(self, presented: tuple[Field, ...]) -> Identity | Denial | None:
        """Return the caller by a gateway key; None without any."""
        texts: set[bytes] = set()
        carriers: set[bytes] = set()
        for name, value in presented:
            ours = _GATEWAY_KEY.findall(value) or ([value] if value and name == KEY_HEADER else [])
            if ours:
                texts.update(ours)
                carriers.add(name)
        if not texts:
            return None
        if len(texts) > 1:
            return KEYS_AMBIGUOUS
        key = self._ring.find(texts.pop())
        if key is None:
            return KEY_UNKNOWN
        if self._ring.is_revoked(key):
            return KEY_REVOKED
        return Identity(
            caller=f"key:{key.name}",
            project=self._projects.get(key.name, key.project),
            key_name=key.name,
            drop=frozenset(carriers - {IN_QUERY}),
            drop_query=IN_QUERY in carriers,
            has_credential=any(credential_in(v) != b"" for n, v in presented if n not in carriers),
        )

    def _by_credential(
        self, carriers: Carriers, presented: tuple[Field, ...]
    ) -> Identity | Denial | None:
        """Return the caller by the one credential that the provider reads; None without any."""
        for carrier in carriers.order:
            found = {credential_in(value) for name, value in presented if name == carrier} - {b""}
            if not found:
                continue
            if len(found) > 1:
                return TWO_CREDENTIALS
            credential = found.pop()
            if credential is None:
                return None
            others = carriers.exclusive & {name for name, _ in presented if name != carrier}
            return Identity(
                caller=f"cred:{self._digest(credential)}",
                drop=others - {IN_QUERY},
                drop_every_key=IN_QUERY in others,
                has_credential=True,
            )
        return None

    def _digest(self, credential: bytes) -> str:
        content, person = b"%d:%b" % (len(credential), credential), b"looptrap-cred"
        return blake2b(content, digest_size=8, key=self._secret, person=person).hexdigest()

    def _cache(self, key: _IdentityKey, identity: Identity) -> None:
        fields = () if isinstance(key, str) else key[1]
        if sum(len(name) + len(value) for name, value in fields) <= _MAX_CACHED_BYTES:
            self._cached[key] = identity


def strip_gateway_keys(query: bytes, *, every: bool = False) -> bytes:
    """Return the query without gateway keys; with `every`, without a provider's `key` too."""
    return b"&".join(
        field
        for field in query.split(b"&")
        if not any(every or _GATEWAY_KEY.search(value) for value in _keys_in(field))
        and not _WHOLE_KEY.search(unquote_to_bytes(field))
    )


def without_keys(headers: Iterable[Field]) -> list[Field]:
    """Return the headers, and pairs of a Cookie, that contain no gateway key."""
    kept = []
    for name, value in headers:
        if _WHOLE_KEY.search(value):
            if name != b"cookie":
                continue
            pairs = [pair for pair in value.split(b";") if not _WHOLE_KEY.search(pair)]
            value = b";".join(pairs).strip()
            if not value:
                continue
        kept.append((name, value))
    return kept


def has_key(text: bytes) -> bool:
    """Return whether a path or query contains a complete gateway key, escaped or not."""
    if b"%" in text:
        text = unquote_to_bytes(text)
    return PREFIX in text and _WHOLE_KEY.search(text) is not None


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
    """Refuse to serve anybody on an address that others can reach."""
    if has_keys or allow_anonymous or is_loopback(listen_host):
        return
    message = (
        f"{listen_host or 'every address'} can be reached by others and there are no gateway keys:"
        " make one with `looptrap keys add NAME`, listen on 127.0.0.1, or let everybody in with"
        " --allow-anonymous"
    )
    raise ConfigError([Problem("gateway.listen", message)])


def token_from_env(variable: str | None, place: str, env: Mapping[str, str]) -> str:
    """Return the token in a variable, empty where none is named; a named one must be set."""
    if variable is None:
        return ""
    token = env.get(variable, "")
    if not token:
        raise ConfigError([Problem(place, f"the variable {variable} is not set, or empty")])
    return token


def check_token(place: str, token: str, host: str) -> None:
    """Refuse a token that can be guessed on an address that others can reach."""
    if token and len(token) < MIN_TOKEN_CHARS and not is_loopback(host):
        message = (
            f"its token has {len(token)} character{'s'[: len(token) > 1]}, must have"
            f" {MIN_TOKEN_CHARS} or more where others can reach {host}"
        )
        raise ConfigError([Problem(place, message)])


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    host = host.removeprefix("[").removesuffix("]")
    try:
        return ip_address(unmapped_address(host)).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _keys_in(query: bytes) -> Iterator[bytes]:
    """Yield the decoded values of all `key` parameters, however their name is written."""
    for field in query.split(b"&"):
        name, _, value = field.partition(b"=")
        if name == b"key" or (b"%" in name and unquote_to_bytes(name) == b"key"):
            yield unquote_to_bytes(value.replace(b"+", b" "))


_query_keys: BoundedCache[tuple[Field, ...]] = BoundedCache(
    lambda target: tuple([(IN_QUERY, value) for value in _keys_in(target.partition(b"?")[2])]),
    max_key_bytes=_MAX_CACHED_BYTES,
)
"""The keys in the query of a target: most requests have the same few."""


def unmapped_address(peer: str) -> str:
    """Return an IPv4 address as itself, also where a dual-stack socket maps it into IPv6."""
    mapped = peer.removeprefix("::ffff:")
    return mapped if "." in mapped else peer
