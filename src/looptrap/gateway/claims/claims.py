"""Claims of callers, read from the header that carries their token."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

from looptrap.call.model import NO_CLAIMS
from looptrap.config.gateway import GatewaySettings
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.claims.content import Content, Reason, read

LONGEST_TOKEN = 8192
LEEWAY = 30.0
"""Seconds by which the clocks of who made a token and of this machine may differ."""
REMEMBERED = 1024
QUIET = 60.0
"""Seconds between two lines about tokens that are not believed."""

Believed = tuple[Mapping[str, str], float | None]
"""Claims, and when to ask again; None where nothing changes with time."""

NOTHING: Believed = (NO_CLAIMS, None)

_is_token = re.compile(rb"(?:bearer[ \t]+)?([\w=-]+\.[\w=-]+\.[\w=-]*)", re.IGNORECASE).fullmatch

log = logging.getLogger("looptrap")


class Claims:
    """Says what callers claim and are believed; a token that is not believed says nothing."""

    def __init__(
        self,
        settings: GatewaySettings,
        open_token: Callable[[bytes], bytes | Reason] | None,
        refused: Counter[Reason] | None = None,
    ) -> None:
        """Without `open_token`, nobody is believed anything."""
        self.refused: Counter[Reason] = Counter() if refused is None else refused
        """How many tokens were not believed, by reason; one that comes again is not counted
        again as long as its request's head is remembered."""
        self._header = settings.jwt_header.lower().encode()
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        self._open = open_token
        # By digest: tokens are long, and whoever holds one is whom it names. Only what was opened
        # is kept, so that nobody can push others out with tokens of their own making.
        self._known: dict[bytes, Content | Reason] = {}
        self._quiet_until = 0.0

    @classmethod
    def under(cls, settings: GatewaySettings, refused: Counter[Reason] | None = None) -> Claims:
        """Read the keys that the settings name, and go on with counts; a ConfigError says why not.

        Where claims are off, nothing is read or imported.
        """
        if settings.jwt == "off":
            return cls(settings, None, refused)
        try:
            from looptrap.gateway.claims import key_file
            from looptrap.gateway.claims.signature import Signatures
        except ImportError as error:
            if error.name is None or error.name.partition(".")[0] not in ("jwt", "cryptography"):
                raise
            message = 'needs PyJWT: pip install "looptrap[jwt]"'
            raise ConfigError([Problem("gateway.jwt", message)]) from None
        keys = key_file.read(settings.jwt_keys) if settings.jwt_keys is not None else None
        return cls(settings, Signatures(keys).open, refused)

    def of(self, headers: Iterable[tuple[bytes, bytes]], now: float) -> Believed:
        """Return what a request with these headers (lower-case names) claims and is believed."""
        if self._open is None:
            return NOTHING
        sent = next((value for name, value in headers if name == self._header), b"")
        token = _is_token(sent)
        if token is None:
            # An API key, most likely: nobody claims anything.
            return NOTHING
        content = self._content(token[1], self._open)
        if isinstance(content, str):
            return self._refuse(content, now)
        if now >= content.until + LEEWAY:
            return self._refuse("expired", now)
        if now < content.since - LEEWAY:
            return self._refuse("not_yet_valid", now, content.since - LEEWAY)
        until = content.until + LEEWAY
        return content.claims, until if until != float("inf") else None

    def _content(
        self, token: bytes, open_token: Callable[[bytes], bytes | Reason]
    ) -> Content | Reason:
        if len(token) > LONGEST_TOKEN:
            return "too_long"
        digest = sha256(token).digest()
        known = self._known.get(digest)
        if known is not None:
            return known
        payload = open_token(token)
        if isinstance(payload, str):
            return payload
        content = read(payload, issuer=self._issuer, audience=self._audience)
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[digest] = content
        return content

    def _refuse(self, reason: Reason, now: float, until: float | None = None) -> Believed:
        """Count and tell, now and then, that a token is not believed; never what it says."""
        self.refused[reason] += 1
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET
            log.warning("a JWT is not believed (%s): its claims read as empty", reason)
        return NO_CLAIMS, until
