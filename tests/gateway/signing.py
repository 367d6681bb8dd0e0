"""Keys made for the tests, and tokens signed with them."""

import hmac
from functools import cache

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PublicFormat
from cryptography.hazmat.primitives.serialization import PrivateFormat as Private
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.utils import base64url_encode as encode

SECRET = "a shared secret that is long enough for HS256"

_CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES256K": ec.SECP256K1()}


@cache
def private(kind="RSA", number=0):
    """Return a private key; another for each number."""
    match kind:
        case "RSA":
            return rsa.generate_private_key(65537, 2048)
        case "weak":
            return rsa.generate_private_key(65537, 1024)
        case "EdDSA":
            return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(_CURVES[kind])


def pem(key, form=PublicFormat.SubjectPublicKeyInfo):
    """Return the public half of a key."""
    return key.public_key().public_bytes(Encoding.PEM, form)


def private_pem(key):
    return key.private_bytes(Encoding.PEM, Private.PKCS8, NoEncryption())


def jwk(key, **more):
    """Return the public half of a key as a JWK."""
    algorithm = RSAAlgorithm
    if isinstance(key, ec.EllipticCurvePrivateKey):
        algorithm = ECAlgorithm
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        algorithm = OKPAlgorithm
    return algorithm.to_jwk(key.public_key(), as_dict=True) | more


def jwks(*keys):
    return msgspec.json.encode({"keys": keys})


def token(claims, key=None, algorithm="RS256", **headers):
    """Return a signed token; with the first RSA key unless another is given."""
    return jwt.encode(claims, key or private(), algorithm=algorithm, headers=headers)


def forged(claims, header, signature=b""):
    """Return a token as anybody could write it."""
    parts = [encode(msgspec.json.encode(one)) for one in (header, claims)]
    return b".".join([*parts, encode(signature)]).decode()


def keyed(claims, secret, algorithm="HS256"):
    """Return a token signed with any bytes as the secret, fit for one or not."""
    header = {"alg": algorithm}
    signing = forged(claims, header).removesuffix(".").encode()
    return forged(claims, header, hmac.digest(secret, signing, f"sha{algorithm[2:]}"))


def bearer(text):
    return {"Authorization": f"Bearer {text}"}
