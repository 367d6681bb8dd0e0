"""Tokens that callers present, and the files of keys that tell which of them to believe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec
from tests.gateway.signing import SECRET, forged, jwk, jwks, keyed, pem, private

from fuzz.target import Target, pick, seed
from looptrap.config.gateway import GatewaySettings
from looptrap.errors import ConfigError
from looptrap.gateway.jwt_claims import (
    MAX_CLAIM_CHARS,
    MAX_CLAIMS,
    ClaimsReader,
    TokenContent,
    read_payload,
)
from looptrap.gateway.jwt_verifier import TokenVerifier, VerificationKey
from looptrap.gateway.jwt_verifier import read_key_file as read_keys

CLAIMS = {"sub": "me", "org": {"id": 7}, "exp": 2_000_000_000, "aud": ["a"], "iss": "i"}
KEYS = (VerificationKey(SECRET.encode(), frozenset({"HS256"}), "k"),)


def check_token(data: bytes) -> None:
    """A token is believed or not; nobody's but the holder of the key is."""
    trusts, text = pick(data, (False, True))
    settings = GatewaySettings(jwt="unverified" if trusts else "verified")
    claims = ClaimsReader(settings, TokenVerifier(None if trusts else KEYS).open)
    believed, _ = claims.of([(settings.jwt_header.lower().encode(), text)], 1_900_000_000.0)
    assert len(believed) <= MAX_CLAIMS
    if believed and not trusts:
        signed, _, signature = text.rpartition(b".")
        header = msgspec.json.decode(_unpacked(signed.split(b" ")[-1].partition(b".")[0]))
        assert header["alg"] == "HS256"
        assert signature


def _unpacked(text: bytes) -> bytes:
    from jwt.utils import base64url_decode

    return bytes(base64url_decode(text))


def check_payload(data: bytes) -> None:
    """What a token says is a bounded number of short texts, or a reason not to listen."""
    for issuer, audience in ((None, None), ("i", "a")):
        said = read_payload(data, issuer=issuer, audience=audience)
        if isinstance(said, TokenContent):
            assert len(said.claims) <= MAX_CLAIMS
            assert all(
                len(name) <= MAX_CLAIM_CHARS >= len(text) for name, text in said.claims.items()
            )
            for text in said.claims.values():
                text.encode()


def check_key_file(data: bytes) -> None:
    """A file of keys is read, or a ConfigError that does not repeat what it holds."""
    with NamedTemporaryFile(prefix="looptrap-fuzz-") as file:
        Path(file.name).write_bytes(data)
        try:
            keys = read_keys(file.name)
        except ConfigError as error:
            told = str(error)
            held = data.strip().decode("latin-1")
            assert len(held) < 24 or held not in told
            return
    assert keys
    assert all(key.algorithms for key in keys)


def tokens() -> Iterator[bytes]:
    """Yield good tokens, and some that are not."""
    for place in (0, 1):
        yield seed(place, b"Bearer " + keyed(CLAIMS, SECRET.encode()).encode())
        yield seed(place, forged(CLAIMS, {"alg": "none"}).encode())
        yield seed(place, forged(CLAIMS, {"alg": "HS256", "kid": "k", "crit": ["b64"]}).encode())


def payloads() -> Iterator[bytes]:
    """Yield what tokens say."""
    yield msgspec.json.encode(CLAIMS)


def key_files() -> Iterator[bytes]:
    """Yield keys in every form."""
    rsa, curve, edwards = private(), private("ES256"), private("EdDSA")
    yield pem(rsa) + pem(curve)
    yield jwks(jwk(rsa, kid="a", use="sig", alg="RS256"), jwk(edwards, kid="b"))
    yield jwks({"kty": "oct", "k": "c2VjcmV0" * 8, "kid": "c", "alg": "HS256"})
    yield SECRET.encode()


WORDS = (
    b"-----BEGIN PUBLIC KEY-----", b"-----END PUBLIC KEY-----", b'"kty":"oct"', b'"kty":"RSA"',
    b'"keys":[', b'"crv":"P-256"', b'"alg":', b'"d":""', b"ssh-rsa ", b".", b"eyJhbGciOiJub25lIn0.",
)  # fmt: skip
TARGETS = [
    Target(name="token", check=check_token, seeds=tokens, words=WORDS),
    Target(name="payload", check=check_payload, seeds=payloads),
    Target(name="key_file", check=check_key_file, seeds=key_files, words=WORDS),
]
