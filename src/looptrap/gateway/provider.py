"""Providers: one base URL, the key that is sent there, and the connections to it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from looptrap.bounded import BoundedCache
from looptrap.config.provider import Credential
from looptrap.dialect.model import DialectName
from looptrap.dialect.registry import dialect_of
from looptrap.gateway.credential import Carriers, carriers_at
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool, Pools

_has_version = re.compile(rb"/v\d[a-z0-9]*(?:/|\Z)").search
_PRINTABLE = " !#$%&'()*+,-./:;<=>?@[]^_`{|}~"


class Provider:
    """A place that answers calls."""

    __slots__ = (
        "_base_path",
        "_credential",
        "_key_field",
        "_openai_credential",
        "_openai_field",
        "_overlaps",
        "_pool",
        "_targets",
        "circuit",
        "field",
        "key_name",
        "name",
        "origin",
        "speaks",
    )

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        key: str = "",
        key_name: str = "",
        credential: Credential | None = None,
        circuit: str = "",
        speaks: Iterable[DialectName] = (),
    ) -> None:
        self.name = name
        self.field = (b"X-Looptrap-Provider", quote(name, _PRINTABLE).encode())
        """The header that names it to clients."""
        self.circuit = circuit or name
        """What of it fails by itself: one URL of several."""
        self.key_name = key_name
        """The variable that the key is from."""
        self.speaks = frozenset(speaks)
        """Empty for whatever it is sent."""
        self.origin, base_path = Origin.of(base_url)
        self._base_path = base_path.encode()
        self._overlaps = _suffixes(self._base_path)
        self._credential = credential
        self._key_field = _key_field(credential or "bearer", key)
        # Anthropic wants its key as OpenAI does where it is spoken to as OpenAI is.
        is_bilingual = credential == "x-api-key" and "anthropic" in self.speaks
        self._openai_credential = "bearer" if is_bilingual else credential
        self._openai_field = _key_field(self._openai_credential or "bearer", key)
        self._targets = BoundedCache(self._join)
        self._pool: Pool | None = None

    @property
    def base_url(self) -> str:
        """Where it answers."""
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
        """Return where it looks for the credential of a caller who has no gateway key."""
        is_openai = dialect.startswith("openai")
        credential = self._openai_credential if is_openai else self._credential
        return carriers_at(self.origin.host, credential, dialect)

    def target(self, asked: bytes) -> bytes:
        """Return the request target at the provider; what base and path share is not doubled."""
        return self._targets[asked]

    def _join(self, asked: bytes) -> bytes:
        path, mark, query = asked.partition(b"?")
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


def _key_field(credential: Credential, key: str) -> bytes | None:
    if not key:
        return None
    line = f"authorization: Bearer {key}" if credential == "bearer" else f"{credential}: {key}"
    return f"{line}\r\n".encode()


def _is_openai(path: bytes) -> bool:
    return dialect_of(path.decode("latin-1")).startswith("openai")
