"""Provider credentials: where each provider looks for one, and what of a header is the credential.

A caller without a gateway key is known by its credential. It must be the one that the provider
reads: with anything else, a client could become a new caller by changing what nobody looks at.
"""

from __future__ import annotations

from binascii import Error, a2b_base64
from functools import lru_cache

import msgspec

from looptrap.config.provider import Credential
from looptrap.dialect.model import DialectName
from looptrap.dialect.registry import dialect_of

AUTHORIZATION, X_API_KEY, API_KEY = b"authorization", b"x-api-key", b"api-key"
X_GOOG_API_KEY = b"x-goog-api-key"
IN_QUERY = b"?key"
"""Stands for the `key` of the query among the names of headers; no header can have this name."""

ORDER = (AUTHORIZATION, X_API_KEY, API_KEY, X_GOOG_API_KEY, IN_QUERY)
"""Where a credential is looked for, first to last, if neither provider nor dialect says more."""

_FIRST: dict[str, tuple[bytes, ...]] = {
    "anthropic": (X_API_KEY,),
    "gemini": (X_GOOG_API_KEY, IN_QUERY),
}
"""What a dialect puts before the others."""

_CARRIER: dict[Credential, bytes] = {
    "bearer": AUTHORIZATION,
    "x-api-key": X_API_KEY,
    "api-key": API_KEY,
    "x-goog-api-key": X_GOOG_API_KEY,
}

_AT_DOMAIN = {
    "openai.com": (AUTHORIZATION,),
    "anthropic.com": (X_API_KEY, AUTHORIZATION),
    "googleapis.com": (X_GOOG_API_KEY, IN_QUERY, AUTHORIZATION),
    "azure.com": (API_KEY, X_API_KEY, AUTHORIZATION),
}
"""Everything that a provider reads, by its domain. One credential is enough there, so only the
caller's own is forwarded: then it does not matter which of several the provider would prefer."""

_SIGNATURE = b"AWS4-"


class Carriers(msgspec.Struct, frozen=True, gc=False):
    """Where a provider looks for the credential of a caller."""

    order: tuple[bytes, ...]
    """Names of headers, and `IN_QUERY`: the first that is there is the caller's."""
    exclusive: frozenset[bytes] = frozenset()
    """Those of which only the caller's own is forwarded."""


@lru_cache(maxsize=256)
def carriers_of(path: bytes) -> Carriers:
    """Return where an unknown provider looks: as the dialect of the path has it."""
    return Carriers(_ordered(_FIRST.get(dialect_of(path.decode("latin-1")), ())))


def carriers_at(host: str, credential: Credential | None, dialect: DialectName) -> Carriers:
    """Return where the provider at a host looks; `credential` is what its settings say."""
    for domain, read in _AT_DOMAIN.items():
        if host == domain or host.endswith(f".{domain}"):
            if dialect.startswith("openai") and domain != "azure.com":
                # Asked as OpenAI is, every provider takes its key as OpenAI does.
                read = tuple(sorted(read, key=lambda one: one != AUTHORIZATION))
            return Carriers(read, frozenset(ORDER))
    if credential is None:
        return Carriers(_ordered(_FIRST.get(dialect, ())))
    return Carriers(_ordered((_CARRIER[credential], *_FIRST.get(dialect, ()))))


def credential_in(value: bytes) -> bytes | None:
    """Return the credential in a header, however it is written; None for a signature.

    A signature identifies nobody: it changes with every request, and whose it is is not proven.
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
