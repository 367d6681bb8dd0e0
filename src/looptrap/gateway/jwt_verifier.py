"""TokenVerifier, and its keys from a file: public keys in PEM, a JWKS, or a shared secret.

The algorithms of a key follow from the key alone: a public key is never used as a secret.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificate
from jwt import PyJWK, PyJWS
from jwt.exceptions import InvalidSignatureError, PyJWTError

from looptrap.dialect.content import UNREADABLE
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.jwt_claims import RejectionReason
from looptrap.gateway.tls import os_error_text

KEYS_SETTING = "gateway.jwt_keys"
MAX_KEYS = 32
"""A token that does not name its key is tried with all of them."""

_RSA = frozenset(f"{family}{bits}" for family in ("RS", "PS") for bits in (256, 384, 512))
_CURVES = {"secp256r1": "ES256", "secp256k1": "ES256K", "secp384r1": "ES384", "secp521r1": "ES512"}
_MIN_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The bytes that a secret must have for an algorithm."""
_MIN_RSA_BITS = 2048

_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_SSH = (b"ssh-", b"ecdsa-", b"sk-ssh-", b"sk-ecdsa-")

_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm)


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key, its algorithms, and its name in tokens."""

    material: Any
    algorithms: frozenset[str]
    kid: str | None = None


def read_key_file(path: str) -> tuple[VerificationKey, ...]:
    """Return the keys in a file; a ConfigError says why it cannot be used, not its content."""
    try:
        content = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").strip()
        keys = tuple(_keys(content))
    except OSError as error:
        raise _error(path, os_error_text(error)) from None
    except ConfigError as error:
        raise _error(path, str(error)) from None
    if not keys:
        raise _error(path, "has no key that could verify a signature")
    if len(keys) > MAX_KEYS:
        raise _error(path, f"has {len(keys)} keys, must be {MAX_KEYS} or fewer")
    return keys


def _keys(content: bytes) -> Iterator[VerificationKey]:
    if b"-----BEGIN" in content:
        return _from_pem(content)
    if content[:1] in (b"{", b"["):
        return _from_json(content)
    return iter([_from_text(content)])


def _from_pem(content: bytes) -> Iterator[VerificationKey]:
    blocks = list(_PEM.finditer(content))
    if len(blocks) != content.count(b"-----BEGIN"):
        raise ConfigError("is not whole: a PEM block has no end")
    for i, block in enumerate(blocks, 1):
        label, text = block[1].decode(), block[0]
        if "PRIVATE" in label:
            raise ConfigError("holds a private key, must be the public one")
        try:
            if label == "CERTIFICATE":
                key: Any = load_pem_x509_certificate(text).public_key()
            else:
                key = load_pem_public_key(text)
        except _UNREADABLE:
            raise ConfigError(f"block {i} ({label}) is not a public key or certificate") from None
        algorithms = _algorithms(key)
        if not algorithms:
            raise ConfigError(f"block {i} is a key that signs no tokens (RSA, EC and Ed25519 do)")
        yield VerificationKey(key, algorithms)


def _from_json(content: bytes) -> Iterator[VerificationKey]:
    try:
        said = msgspec.json.decode(content)
    except UNREADABLE:
        raise ConfigError("is not JSON, though it begins so") from None
    listed = [said] if isinstance(said, dict) and "kty" in said else None
    if listed is None and isinstance(said, dict):
        listed = said.get("keys")
    if not isinstance(listed, list):
        raise ConfigError('is not a JWKS: must be { "keys": [ … ] }')
    for i, one in enumerate(listed):
        if isinstance(one, dict) and (key := _from_jwk(one, f"keys[{i}]")):
            yield key


def _from_jwk(one: dict[str, Any], place: str) -> VerificationKey | None:
    """Return a key of a set; None for one that is not for signatures, or of an unknown type."""
    if one.get("use", "sig") != "sig":
        return None
    kid, named = one.get("kid"), one.get("alg")
    if one.get("kty") == "oct":
        try:
            key: Any = urlsafe_b64decode(f"{one.get('k', '')}==")
        except ValueError:
            raise ConfigError(f"{place} is not a secret in base64url") from None
        algorithms = _secret_algorithms(key, place)
    elif "d" in one:
        raise ConfigError(f"{place} is a private key, must be the public one")
    else:
        try:
            key = PyJWK({name: value for name, value in one.items() if name != "alg"}).key
        except (PyJWTError, *_UNREADABLE):
            return None
        algorithms = _algorithms(key, place)
    if named is not None:
        algorithms &= {named} if isinstance(named, str) else set()
    if not algorithms:
        return None
    return VerificationKey(key, algorithms, kid if isinstance(kid, str) else None)


def _from_text(content: bytes) -> VerificationKey:
    if not content:
        raise ConfigError("is empty")
    if not content.isascii() or not content.decode("ascii").isprintable():
        raise ConfigError("must be PEM, a JWKS, or a secret of printable ASCII on one line")
    if content.startswith(_SSH) or _is_public(content):
        raise ConfigError(
            "holds a public key that is not in PEM: as a secret, all who know it could sign"
        )
    return VerificationKey(content, _secret_algorithms(content))


def _is_public(content: bytes) -> bool:
    """Return whether a text is a public key or certificate without its PEM lines."""
    loads: tuple[Callable[[bytes], object], ...] = (load_der_public_key, load_der_x509_certificate)
    for load in loads:
        with suppress(*_UNREADABLE):
            load(b64decode(content))
            return True
    return False


def _secret_algorithms(secret: bytes, place: str = "") -> frozenset[str]:
    fitting = frozenset(name for name, least in _MIN_SECRET_BYTES.items() if len(secret) >= least)
    if not fitting:
        least = min(_MIN_SECRET_BYTES.values())
        message = f"is a secret of {len(secret)} bytes, must be {least} or more"
        raise ConfigError(f"{place} {message}".strip())
    return fitting


def _algorithms(key: object, place: str = "") -> frozenset[str]:
    """Return the algorithms of a public key; refuse a weak one."""
    match key:
        case rsa.RSAPublicKey():
            if key.key_size < _MIN_RSA_BITS:
                message = f"is an RSA key of {key.key_size} bits, must be {_MIN_RSA_BITS} or more"
                raise ConfigError(f"{place} {message}".strip())
            return _RSA
        case ec.EllipticCurvePublicKey():
            name = _CURVES.get(key.curve.name)
            return frozenset([name] if name else [])
        case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
            return frozenset(["EdDSA"])
    return frozenset()


def _error(path: str, message: str) -> ConfigError:
    return ConfigError([Problem(KEYS_SETTING, f"{path}: {message}")])


class TokenVerifier:
    """Verifies and decodes tokens; without keys, it does not verify them."""

    def __init__(self, keys: Sequence[VerificationKey] | None) -> None:
        self._keys = keys
        self._jws = PyJWS()

    def open(self, token: bytes) -> bytes | RejectionReason:
        """Return the payload of a token, or why it is rejected; never raises."""
        try:
            header = self._jws.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            # Critical extensions (`crit`) are not supported, and "none" is no algorithm.
            if not isinstance(algorithm, str) or algorithm.lower() == "none" or "crit" in header:
                return "algorithm"
            if self._keys is None:
                return self._payload(token)
            return self._verified(token, algorithm, kid)
        except PyJWTError:
            return "malformed"

    def _verified(self, token: bytes, algorithm: str, kid: str | None) -> bytes | RejectionReason:
        # The key decides its algorithms, never the token: with HS256, a public key would become a
        # secret that everybody knows.
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

    def _payload(
        self, token: bytes, key: VerificationKey | None = None, algorithm: str = ""
    ) -> bytes:
        if key is None:
            opened = self._jws.decode_complete(token, options={"verify_signature": False})
        else:
            opened = self._jws.decode_complete(token, key.material, algorithms=[algorithm])
        payload: bytes = opened["payload"]
        return payload
