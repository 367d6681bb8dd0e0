"""ClaimsReader: reads the claims of callers from the header with their token."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal, NoReturn

import msgspec

from looptrap.bounded import LruMap
from looptrap.config.gateway import GatewaySettings
from looptrap.dialect.model import NO_CLAIMS
from looptrap.errors import ConfigError, Problem

RejectionReason = Literal[
    "too_long",
    "malformed",
    "algorithm",
    "unknown_key",
    "signature",
    "issuer",
    "audience",
    "not_yet_valid",
    "expired",
]
"""Why a token is rejected."""

MAX_CLAIMS = 64
MAX_CLAIM_CHARS = 256
"""Characters of a claim, and of its name; longer ones are ignored: cut, they could equal others."""
MAX_CLAIM_DEPTH = 8
"""Levels of nested tables in which claims are read."""


class TokenContent(msgspec.Struct, frozen=True, gc=False):
    """The claims of a token, and when they are valid."""

    claims: Mapping[str, str]
    since: float
    until: float


def read_payload(
    payload: bytes, *, issuer: str | None, audience: str | None
) -> TokenContent | RejectionReason:
    """Return the content of a payload, or why it is rejected; never raises."""
    try:
        said = json.loads(payload, parse_constant=_refuse_constant)
        if not isinstance(said, dict):
            return "malformed"
        if issuer is not None and said.get("iss") != issuer:
            return "issuer"
        named = said.get("aud")
        if audience not in (None, named) and not (isinstance(named, list) and audience in named):
            return "audience"
        since, until = _timestamp(said, "nbf", -float("inf")), _timestamp(said, "exp", float("inf"))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return "malformed"
    return TokenContent(claims_as_text(said), since, until)


def claims_as_text(said: Mapping[str, Any]) -> dict[str, str]:
    """Return claims as texts, in tables by their path (`org.id`), without lists and nulls.

    Outer claims come first, so that an inner one cannot replace them.
    """
    found: dict[str, str] = {}
    tables = deque([("", said, 1)])
    while tables:
        prefix, table, depth = tables.popleft()
        for name, value in table.items():
            path = prefix + name
            if isinstance(value, dict):
                if depth < MAX_CLAIM_DEPTH:
                    tables.append((f"{path}.", value, depth + 1))
            elif (text := _text(value)) and len(path) <= MAX_CLAIM_CHARS:
                found.setdefault(path, text)
                if len(found) == MAX_CLAIMS:
                    return found
    return found


def _text(value: object) -> str:
    """Return a claim as text; empty for one of another type, or too long."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            text = str(value)
        case str():
            text = value
        case _:
            return ""
    # Half of a surrogate pair cannot be encoded.
    has_surrogates = not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text)
    return text if len(text) <= MAX_CLAIM_CHARS and not has_surrogates else ""


def _timestamp(said: Mapping[str, Any], name: str, default: float) -> float:
    value = said.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(name)
    return float(value)


def _refuse_constant(constant: str) -> NoReturn:
    # NaN is neither past nor future: such a token would never expire.
    raise ValueError(constant)


MAX_TOKEN_BYTES = 8192
CLOCK_LEEWAY_S = 30.0
"""Seconds by which the clocks of a token's issuer and of this machine may differ."""
MAX_CACHED_TOKENS = 1024
LOG_INTERVAL_S = 60.0
"""Seconds between two log lines about rejected tokens."""

TrustedClaims = tuple[Mapping[str, str], float | None]
"""Claims, and when to read them again; None for never."""

NO_TRUSTED_CLAIMS: TrustedClaims = (NO_CLAIMS, None)

_is_token = re.compile(rb"(?:bearer[ \t]+)?([\w=-]+\.[\w=-]+\.[\w=-]*)", re.IGNORECASE).fullmatch

log = logging.getLogger("looptrap")


class ClaimsReader:
    """Returns the claims of callers; those of a rejected token are empty."""

    def __init__(
        self,
        settings: GatewaySettings,
        open_token: Callable[[bytes], bytes | RejectionReason] | None,
        refused: Counter[RejectionReason] | None = None,
    ) -> None:
        """Without `open_token`, no claims are read."""
        self.refused: Counter[RejectionReason] = Counter() if refused is None else refused
        """Rejected tokens, by reason; a token is not counted again while its head is cached."""
        self._header = settings.jwt_header.lower().encode()
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        self._open = open_token
        # By digest, since tokens are long and secret. Only verified ones are cached, so that forged
        # ones push out no others.
        self._cached: LruMap[bytes, TokenContent | RejectionReason] = LruMap(MAX_CACHED_TOKENS)
        self._quiet_until = 0.0

    @classmethod
    def under(
        cls, settings: GatewaySettings, refused: Counter[RejectionReason] | None = None
    ) -> ClaimsReader:
        """Return a reader with the keys of the settings, and earlier counts; may raise ConfigError.

        Where claims are off, nothing is read or imported.
        """
        if settings.jwt == "off":
            return cls(settings, None, refused)
        try:
            from looptrap.gateway.jwt_verifier import TokenVerifier, read_key_file
        except ImportError as error:
            if error.name is None or error.name.partition(".")[0] not in ("jwt", "cryptography"):
                raise
            message = 'needs PyJWT: pip install "looptrap[jwt]"'
            raise ConfigError([Problem("gateway.jwt", message)]) from None
        keys = None if settings.jwt_keys is None else read_key_file(settings.jwt_keys)
        return cls(settings, TokenVerifier(keys).open, refused)

    def of(self, headers: Iterable[tuple[bytes, bytes]], now: float) -> TrustedClaims:
        """Return the claims of a request with these headers (lower-case names)."""
        if self._open is None:
            return NO_TRUSTED_CLAIMS
        sent = next((value for name, value in headers if name == self._header), b"")
        token = _is_token(sent)
        if token is None:
            return NO_TRUSTED_CLAIMS
        content = self._content(token[1], self._open)
        if isinstance(content, str):
            return self._refuse(content, now)
        if now >= content.until + CLOCK_LEEWAY_S:
            return self._refuse("expired", now)
        if now < content.since - CLOCK_LEEWAY_S:
            return self._refuse("not_yet_valid", now, content.since - CLOCK_LEEWAY_S)
        until = content.until + CLOCK_LEEWAY_S
        return content.claims, until if until != float("inf") else None

    def _content(
        self, token: bytes, open_token: Callable[[bytes], bytes | RejectionReason]
    ) -> TokenContent | RejectionReason:
        if len(token) > MAX_TOKEN_BYTES:
            return "too_long"
        digest = sha256(token).digest()
        cached = self._cached.get(digest)
        if cached is not None:
            return cached
        payload = open_token(token)
        if isinstance(payload, str):
            return payload
        content = read_payload(payload, issuer=self._issuer, audience=self._audience)
        self._cached[digest] = content
        return content

    def _refuse(
        self, reason: RejectionReason, now: float, until: float | None = None
    ) -> TrustedClaims:
        """Count and, now and then, log that a token is rejected; never its content."""
        self.refused[reason] += 1
        if now >= self._quiet_until:
            self._quiet_until = now + LOG_INTERVAL_S
            log.warning("a JWT is not believed (%s): its claims read as empty", reason)
        return NO_CLAIMS, until
