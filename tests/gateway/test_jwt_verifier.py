"""The file with the keys that verify tokens: what it may hold, and what is wrong with the rest."""

from base64 import b64encode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.gateway.signing import SECRET, jwk, jwks, pem, private, private_pem

from looptrap.errors import ConfigError
from looptrap.gateway import jwt_verifier
from looptrap.gateway.jwt_verifier import MAX_KEYS

RSA = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
KEY, CURVE = private(), private("ES256")
DER = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
PKCS1 = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.PKCS1)
SSH = KEY.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def certificate(key):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "id.example")])
    since = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    builder = builder.not_valid_before(since).not_valid_after(since + timedelta(days=1))
    return builder.public_key(key.public_key()).sign(key, SHA256())


def secret(length, **more):
    text = urlsafe_b64encode(b"s" * length).decode().rstrip("=")
    return {"kty": "oct", "k": text, **more}


CERTIFICATE = certificate(KEY)


@pytest.fixture
def read(tmp_path):
    def read(content):
        file = tmp_path / "keys"
        file.write_bytes(content)
        return jwt_verifier.read_key_file(str(file))

    return read


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(pem(KEY), [(RSA, None)], id="a public key"),
        pytest.param(pem(KEY, PublicFormat.PKCS1), [(RSA, None)], id="one of the old form"),
        pytest.param(CERTIFICATE.public_bytes(Encoding.PEM), [(RSA, None)], id="a certificate"),
        pytest.param(
            b"# old\n" + pem(KEY) + b"# new\n" + pem(CURVE),
            [(RSA, None), ({"ES256"}, None)],
            id="two keys, with words between",
        ),
        pytest.param(
            jwks(jwk(KEY, kid="a"), jwk(CURVE)), [(RSA, "a"), ({"ES256"}, None)], id="a JWKS"
        ),
        pytest.param(
            jwks(jwk(KEY, alg="RS512")), [({"RS512"}, None)], id="a key for one algorithm"
        ),
        pytest.param(msgspec.json.encode(jwk(KEY, kid="a")), [(RSA, "a")], id="a single JWK"),
        pytest.param(jwks(jwk(private("EdDSA"))), [({"EdDSA"}, None)], id="an Edwards curve"),
        pytest.param(jwks(secret(48)), [({"HS256", "HS384"}, None)], id="a secret in a JWKS"),
        pytest.param(SECRET.encode(), [({"HS256"}, None)], id="a secret"),
        pytest.param(b"\xef\xbb\xbf" + pem(KEY), [(RSA, None)], id="a byte order mark"),
        pytest.param(
            jwks(
                jwk(KEY, use="enc", kid="e"),
                jwk(KEY, alg="RSA-OAEP"),
                {"kty": "OKP", "crv": "X25519", "x": "AAAA"},
                {"kty": "new"},
                "text",
                jwk(KEY, use="sig", kid="s"),
            ),
            [(RSA, "s")],
            id="what is not for signatures is left out",
        ),
    ],
)
def test_what_a_key_verifies_follows_from_the_key(read, content, found):
    assert [(set(key.algorithms), key.kid) for key in read(content)] == found


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b" \n", "is empty", id="empty"),
        pytest.param(b"x" * 31, "is a secret of 31 bytes, must be 32 or more", id="a weak secret"),
        pytest.param(
            jwks(secret(31)), "keys[0] is a secret of 31 bytes, must be 32", id="one in a JWKS"
        ),
        pytest.param(
            pem(private("weak")), "is an RSA key of 1024 bits, must be 2048", id="a weak key"
        ),
        pytest.param(
            jwks(jwk(KEY), jwk(private("weak"))),
            "keys[1] is an RSA key of 1024 bits",
            id="one of a JWKS",
        ),
        pytest.param(private_pem(KEY), "holds a private key, must be the public", id="private"),
        pytest.param(
            jwks(jwk(KEY) | {"d": "AAAA"}), "keys[0] is a private key", id="private, in a JWKS"
        ),
        pytest.param(pem(KEY)[:-20], "is not whole", id="cut off"),
        pytest.param(
            b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
            "block 1 (PUBLIC KEY) is not a public key",
            id="damaged",
        ),
        pytest.param(
            pem(x25519.X25519PrivateKey.generate()), "block 1 is a key that signs no", id="X25519"
        ),
        pytest.param(b64encode(DER), "holds a public key that is not in PEM", id="base64 alone"),
        pytest.param(b64encode(PKCS1), "holds a public key that is not in", id="of the old form"),
        pytest.param(
            b64encode(CERTIFICATE.public_bytes(Encoding.DER)),
            "holds a public key that is not in PEM",
            id="a certificate, base64 alone",
        ),
        pytest.param(SSH, "holds a public key that is not in PEM", id="SSH"),
        pytest.param(DER, "must be PEM, a JWKS, or a secret of printable ASCII", id="binary"),
        pytest.param(
            b"<html>\n<body>Sign in to see these keys, please</body>", "must be PEM", id="a page"
        ),
        pytest.param(b'{"keys": [', "is not JSON", id="half a JWKS"),
        pytest.param(b'{"issuer": "https://id"}', "is not a JWKS", id="another JSON"),
        pytest.param(jwks(), "has no key that could verify", id="no keys"),
        pytest.param(jwks(jwk(KEY, use="enc")), "has no key that could verify", id="none to use"),
        pytest.param(jwks({"kty": "oct", "k": "é"}), "keys[0] is not a secret in", id="no base64"),
        pytest.param(
            jwks(*[jwk(KEY)] * (MAX_KEYS + 1)), f"has {MAX_KEYS + 1} keys, must be", id="many"
        ),
    ],
)
def test_what_cannot_verify_is_refused_and_not_repeated(read, content, says, tmp_path):
    with pytest.raises(ConfigError) as caught:
        read(content)
    (problem,) = caught.value.problems
    assert (problem.place, problem.message.partition(": ")[0]) == (
        "gateway.jwt_keys",
        str(tmp_path / "keys"),
    )
    said = problem.message.partition(": ")[2]
    assert said.startswith(says)
    assert content.decode("latin-1")[:40] not in said or not content.strip()


@pytest.mark.parametrize(
    ("name", "says"),
    [("nowhere", "no such file or directory"), (".", "is a directory")],
)
def test_a_file_that_cannot_be_read(tmp_path, name, says):
    with pytest.raises(ConfigError, match=f"gateway.jwt_keys: .*: {says}"):
        jwt_verifier.read_key_file(str(tmp_path / name))
