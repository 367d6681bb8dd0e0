"""Provider: one base URL, the key that is sent there, and where it reads credentials.

A caller without a gateway key is identified by its credential. It must be the one that the provider
reads: else a client could become a new caller by changing a header that has no effect.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from looptrap.bounded import BoundedCache
from looptrap.config.provider import Auth
from looptrap.dialect.model import DialectName
from looptrap.dialect.registry import dialect_of
from looptrap.wire.exchange import UpstreamError
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool, Pools

AUTHORIZATION, X_API_KEY, API_KEY = b"authorization", b"x-api-key", b"api-key"
X_GOOG_API_KEY = b"x-goog-api-key"
IN_QUERY = b"?key"
"""Stands for the `key` of the query among the names of headers; no header can have this name."""

ORDER = (AUTHORIZATION, X_API_KEY, API_KEY, X_GOOG_API_KEY, IN_QUERY)
"""Where a credential is looked for, in order, if neither provider nor dialect says more."""

_FIRST: dict[str, tuple[bytes, ...]] = {
    "anthropic": (X_API_KEY,),
    "gemini": (X_GOOG_API_KEY, IN_QUERY),
    "gemini_interactions": (X_GOOG_API_KEY, IN_QUERY),
}
"""Where a dialect has it, before the others."""

_AT_DOMAIN = {
    "openai.com": (AUTHORIZATION,),
    "anthropic.com": (X_API_KEY, AUTHORIZATION),
    "googleapis.com": (X_GOOG_API_KEY, IN_QUERY, AUTHORIZATION),
    "azure.com": (API_KEY, X_API_KEY, AUTHORIZATION),
}
"""Everything that a provider reads, by its domain. Only the caller's own credential is forwarded
there: then it does not matter which of several the provider would prefer."""

_SIGNATURE = b"AWS4-"


class Carriers(NamedTuple):
    """Where a provider reads the credential of a caller."""

    order: tuple[bytes, ...]
    """Names of headers, and `IN_QUERY`: the first that is sent has the caller's."""
    exclusive: frozenset[bytes] = frozenset()
    """Those of which only the caller's own is forwarded."""


@lru_cache(maxsize=256)
def carriers_of(path: bytes) -> Carriers:
    """Return where an unknown provider reads it: by the dialect of the path."""
    return Carriers(_ordered(_FIRST.get(dialect_of(path.decode("latin-1")), ())))


def carriers_at(host: str, auth: Auth | None, dialect: DialectName) -> Carriers:
    """Return where the provider at a host reads it; `auth` is from its settings."""
    for domain, read in _AT_DOMAIN.items():
        if host == domain or host.endswith(f".{domain}"):
            if dialect.startswith("openai") and domain != "azure.com":
                # In the dialect of OpenAI, every provider takes its key as OpenAI does.
                read = tuple(sorted(read, key=lambda one: one != AUTHORIZATION))
            return Carriers(read, frozenset(ORDER))
    first = _FIRST.get(dialect, ())
    if auth is not None and auth != "none":
        carrier = AUTHORIZATION if auth == "bearer" else auth.encode()
        first = (carrier, *first)
    return Carriers(_ordered(first))


def credential_in(value: bytes) -> bytes | None:
    """Return the credential in a header, however it is written; None for a signature.

    A signature identifies no caller: it changes with every request, and is not verified here.
    """
    if value.startswith(_SIGNATURE):
        return None
    scheme, rest = (*value.split(None, 1), b"", b"")[:2]
    scheme, rest = scheme.lower(), rest.strip()
    if scheme == b"bearer":
        return rest.split(None, 1)[0] if rest else b""
    if not rest:
        return value.strip()
    if scheme == b"basic":
        try:
            return b"basic " + a2b_base64(rest)
        except Error:
            pass
    return scheme + b" " + rest


def _ordered(first: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys((*first, *ORDER)))


_has_version = re.compile(rb"/v\d[a-z0-9]*(?:/|\Z)").search
_PRINTABLE = " !#$%&'()*+,-./:;<=>?@[]^_`{|}~"


class Provider:
    """A service that answers calls."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        key: str = "",
        key_name: str = "",
        auth: Auth | None = None,
        circuit: str = "",
        speaks: Iterable[DialectName] = (),
        has_breaker: bool = True,
    ) -> None:
        self.name = name
        self.field = (b"X-Looptrap-Provider", quote(name, _PRINTABLE).encode())
        """The header that names it to clients."""
        self.circuit = circuit or name
        """The name of its circuit: of one URL of several."""
        self.key_name = key_name
        """The variable that the key is from."""
        self.speaks = frozenset(speaks)
        """Its dialects; empty for any."""
        self.has_breaker = has_breaker
        """Whether calls are refused for a while after failures in a row."""
        self.origin, base_path = Origin.of(base_url)
        self._base_path = base_path.encode()
        self._overlaps = _suffixes(self._base_path)
        self._auth = auth
        self.needs_key = auth != "none"
        """Whether it answers only calls with a key."""
        self._key_field = _key_field(auth or "bearer", key)
        # Anthropic reads its key as OpenAI does where it is called in the dialect of OpenAI.
        is_bilingual = auth == "x-api-key" and "anthropic" in self.speaks
        self._openai_auth = "bearer" if is_bilingual else auth
        self._openai_field = _key_field(self._openai_auth or "bearer", key)
        self._targets = BoundedCache(self._join)
        self._pool: Pool | None = None

    @property
    def base_url(self) -> str:
        """Its URL, without the path of a call."""
        return f"{self.origin.scheme}://{self.origin.authority}{self._base_path.decode()}"

    def pool(self, pools: Pools) -> Pool:
        """Return the connections to this provider."""
        if self._pool is None:
            self._pool = pools.pool(self.origin)
        return self._pool

    def key_field(self, dialect: DialectName) -> bytes | None:
        """Return the header that carries the operator's key, where there is one."""
        return self._openai_field if dialect.startswith("openai") else self._key_field

    def carriers(self, dialect: DialectName) -> Carriers:
        """Return where it reads the credential of a caller without a gateway key."""
        is_openai = dialect.startswith("openai")
        return carriers_at(
            self.origin.host, self._openai_auth if is_openai else self._auth, dialect
        )

    def target(self, target: bytes) -> bytes:
        """Return the request target at the provider; what base and path share is not repeated."""
        return self._targets[target]

    def _join(self, target: bytes) -> bytes:
        path, mark, query = target.partition(b"?")
        for overlap in self._overlaps:
            if path.startswith(overlap) and path[len(overlap) : len(overlap) + 1] in (b"/", b""):
                path = path[len(overlap) :]
                break
        else:
            # OpenAI's clients have the version in their base URL: of two, the provider's counts.
            if path.startswith(b"/v1/") and _has_version(self._base_path) and _is_openai(path):
                path = path[3:]
        return ((self._base_path + path) or b"/") + mark + query


def _suffixes(base_path: bytes) -> tuple[bytes, ...]:
    """Return `/api/v1` and `/v1` of `/api/v1`: the longest first."""
    parts = base_path.split(b"/")[1:]
    return tuple(b"".join(b"/" + part for part in parts[start:]) for start in range(len(parts)))


def _key_field(auth: Auth, key: str) -> bytes | None:
    if not key or auth == "none":
        return None
    line = f"authorization: Bearer {key}" if auth == "bearer" else f"{auth}: {key}"
    return f"{line}\r\n".encode()


def _is_openai(path: bytes) -> bool:
    return dialect_of(path.decode("latin-1")).startswith("openai")


_STATUS_BY_ERROR = {
    "connect_timeout": 504,
    "first_byte_timeout": 504,
    "idle_timeout": 504,
    "busy": 503,
}
"""502 for everything else."""


def status_and_code(error: UpstreamError) -> tuple[int, str]:
    """Return the status and the code for a client whose provider does not answer."""
    return _STATUS_BY_ERROR.get(error.kind, 502), f"upstream_{error.kind}"
