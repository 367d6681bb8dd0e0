"""Who signed a token: one of the keys that the operator gave, or nobody we know."""

from __future__ import annotations

from collections.abc import Sequence

from jwt import PyJWS
from jwt.exceptions import InvalidSignatureError, PyJWTError

from looptrap.gateway.claims.content import Reason
from looptrap.gateway.claims.key_file import Key


class Signatures:
    """Opens tokens; without keys, whoever signed them."""

    def __init__(self, keys: Sequence[Key] | None) -> None:
        self._keys = keys
        self._jws = PyJWS()

    def open(self, token: bytes) -> bytes | Reason:
        """Return the payload of a token, or why it is not believed; never raises."""
        try:
            header = self._jws.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            # Extensions that must be understood (`crit`) are not; "none" is no algorithm for us.
            if not isinstance(algorithm, str) or algorithm.lower() == "none" or "crit" in header:
                return "algorithm"
            if self._keys is None:
                return self._payload(token)
            return self._verified(token, algorithm, kid)
        except PyJWTError:
            return "malformed"

    def _verified(self, token: bytes, algorithm: str, kid: str | None) -> bytes | Reason:
        # What a key is good for is said by the key, never by the token: a public key must not
        # become a secret because somebody writes HS256.
        fitting = [key for key in self._keys or () if algorithm in key.algorithms]
        if not fitting:
            return "algorithm"
        named = [key for key in fitting if kid is None or key.kid is None or key.kid == kid]
        for key in named:
            try:
                return self._payload(token, key, algorithm)
            except InvalidSignatureError:
                continue
        return "signature" if named else "unknown_key"

    def _payload(self, token: bytes, key: Key | None = None, algorithm: str = "") -> bytes:
        if key is None:
            opened = self._jws.decode_complete(token, options={"verify_signature": False})
        else:
            opened = self._jws.decode_complete(token, key.material, algorithms=[algorithm])
        payload: bytes = opened["payload"]
        return payload
