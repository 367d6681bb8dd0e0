"""What a caller's token says of it: believed when signed and in time, and remembered meanwhile."""

import logging
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jwt.utils import base64url_encode as encode
from tests.gateway.signing import SECRET, forged, jwk, jwks, keyed, pem, private, token
from tests.wire.fake_client import Clock, Scripted

from looptrap.config.gateway import GatewaySettings
from looptrap.errors import ConfigError
from looptrap.gateway.auth import Authenticator
from looptrap.gateway.jwt_claims import (
    CLOCK_LEEWAY_S,
    LOG_INTERVAL_S,
    MAX_CACHED_TOKENS,
    MAX_CLAIM_CHARS,
    MAX_CLAIMS,
    MAX_TOKEN_BYTES,
    ClaimsReader,
    claims_as_text,
    read_payload,
)
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.request_context import InboundHeaderReader, RequestContexts
from looptrap.gateway.state_file import StateFile
from looptrap.wire.exchange import Exchange
from looptrap.wire.limits import ServerLimits
from looptrap.wire.request import HeadReader
from looptrap.wire.server import Server
from looptrap.wire.server_connection import ServerConnection

NOW = 1_000_000.0
ACME = {"org_id": "acme", "exp": NOW + 600}


@pytest.fixture
def believing(tmp_path):
    """Make what reads claims, with these keys in its file, or with none."""

    def make(keys=None, **settings):
        if keys is not None:
            file = tmp_path / "keys"
            file.write_bytes(keys)
            settings = {"jwt": "verified", "jwt_keys": str(file)} | settings
        return ClaimsReader.under(GatewaySettings(**settings))

    return make


def sent(text, name=b"authorization", scheme="Bearer "):
    return [(b"accept", b"*/*"), (name, f"{scheme}{text}".encode())]


KEYS = {
    "RS256": private(),
    "PS384": private(),
    "ES256": private("ES256"),
    "ES384": private("ES384"),
    "ES256K": private("ES256K"),
    "EdDSA": private("EdDSA"),
}


@pytest.mark.parametrize("algorithm", KEYS)
@pytest.mark.parametrize("form", ["PEM", "JWKS"])
def test_a_signature_by_the_key_is_believed(believing, algorithm, form):
    key = KEYS[algorithm]
    claims = believing(pem(key) if form == "PEM" else jwks(jwk(key, kid="k1")))
    signed = token(ACME, key, algorithm, **({"kid": "k1"} if form == "JWKS" else {}))
    found, until = claims.of(sent(signed), NOW)
    assert found == {"org_id": "acme", "exp": str(NOW + 600)}
    assert until == NOW + 600 + CLOCK_LEEWAY_S
    assert not claims.refused


@pytest.mark.parametrize(
    ("length", "algorithms"),
    [(32, ["HS256"]), (63, ["HS256", "HS384"]), (64, ["HS256", "HS384", "HS512"])],
)
def test_a_shared_secret_verifies_what_it_is_long_enough_for(believing, length, algorithms):
    secret = b"s" * length
    claims = believing(secret + b"\n")
    for algorithm in ("HS256", "HS384", "HS512"):
        found, _ = claims.of(sent(keyed(ACME, secret, algorithm)), NOW)
        assert found.get("org_id") == ("acme" if algorithm in algorithms else None)
    assert claims.of(sent(keyed(ACME, b"t" * length)), NOW)[0] == {}


PUBLIC = pem(private())
OTHERS = token(ACME, private(number=1))
STOLEN = token({"org_id": "other"}).rpartition(".")[2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(OTHERS, "signature", id="signed by another"),
        pytest.param(f"{OTHERS.rpartition('.')[0]}.{STOLEN}", "signature", id="a stolen signature"),
        pytest.param(forged(ACME, {"alg": "none"}), "algorithm", id="none"),
        pytest.param(forged(ACME, {"alg": "nOnE"}), "algorithm", id="none, in disguise"),
        pytest.param(forged(ACME, {}), "algorithm", id="no algorithm"),
        pytest.param(forged(ACME, {"alg": ["RS256"]}), "algorithm", id="a list of algorithms"),
        pytest.param(forged(ACME, {"alg": "RS256"}), "signature", id="no signature"),
        pytest.param(
            token(ACME, b64=True, crit=["exp"]), "malformed", id="an extension nobody knows"
        ),
        pytest.param(token(ACME, SECRET, "HS256"), "algorithm", id="a secret in place of a key"),
        pytest.param(token(ACME, KEYS["ES256"], "ES256"), "algorithm", id="another kind of key"),
        pytest.param("eyJ.e30.AA", "malformed", id="no JSON"),
        pytest.param("W10.e30.AA", "malformed", id="a header that is a list"),
        pytest.param(f"{'A' * MAX_TOKEN_BYTES}.e30.AA", "too_long", id="longer than any token"),
    ],
)
def test_what_the_key_did_not_sign_says_nothing(believing, text, reason):
    claims = believing(PUBLIC)
    assert claims.of(sent(text), NOW) == ({}, None)
    assert claims.refused == {reason: 1}


def test_a_public_key_is_never_taken_for_a_secret(believing):
    """Whoever knows the public key could sign with it, if the token chose the algorithm."""
    for keys in (PUBLIC, jwks(jwk(private()))):
        claims = believing(keys)
        for secret in (keys, PUBLIC, PUBLIC.strip(), PUBLIC.splitlines()[1]):
            assert claims.of(sent(keyed(ACME, secret)), NOW) == ({}, None)
        assert claims.refused == {"algorithm": 4}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param({"exp": NOW - CLOCK_LEEWAY_S}, "expired", id="over"),
        pytest.param({"exp": NOW - CLOCK_LEEWAY_S + 1}, None, id="over, within the leeway"),
        pytest.param({"nbf": NOW + CLOCK_LEEWAY_S + 1}, "not_yet_valid", id="not yet"),
        pytest.param({"nbf": NOW + CLOCK_LEEWAY_S}, None, id="not yet, within the leeway"),
        pytest.param({"iat": NOW + 900}, None, id="when it was made does not matter"),
        pytest.param({"exp": "soon"}, "malformed", id="a time in words"),
        pytest.param({"exp": None}, "malformed", id="no time"),
        pytest.param({"exp": True}, "malformed", id="a time that is true"),
        pytest.param({"exp": 10**400}, "malformed", id="a time beyond all"),
    ],
)
def test_a_token_holds_for_its_time(believing, said, reason):
    claims = believing(PUBLIC)
    found, _ = claims.of(sent(token({"org_id": "acme", **said})), NOW)
    assert (found.get("org_id"), *claims.refused) == (("acme",) if not reason else (None, reason))


def test_a_time_that_is_not_a_number_never_passes():
    for text in (b"NaN", b"Infinity", b"-Infinity"):
        assert read_payload(b'{"exp": %b}' % text, issuer=None, audience=None) == "malformed"


def test_what_is_not_yet_valid_is_looked_at_again_when_it_is(believing):
    claims = believing(PUBLIC)
    early = sent(token({"org_id": "acme", "nbf": NOW + 100}))
    assert claims.of(early, NOW) == ({}, NOW + 100 - CLOCK_LEEWAY_S)
    assert claims.of(early, NOW + 100 - CLOCK_LEEWAY_S)[0]["org_id"] == "acme"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param({"iss": "https://id", "aud": "agents"}, None, id="as wanted"),
        pytest.param({"iss": "https://id", "aud": ["x", "agents"]}, None, id="one of several"),
        pytest.param({"iss": "https://id/", "aud": "agents"}, "issuer", id="another issuer"),
        pytest.param({"aud": "agents"}, "issuer", id="no issuer"),
        pytest.param({"iss": "https://id", "aud": "agent"}, "audience", id="another audience"),
        pytest.param({"iss": "https://id", "aud": ["x"]}, "audience", id="all others"),
        pytest.param({"iss": "https://id"}, "audience", id="no audience"),
    ],
)
@pytest.mark.parametrize("trust", ["verified", "unverified"])
def test_issuer_and_audience_are_asked_for_where_they_are_set(believing, said, reason, trust):
    keys = PUBLIC if trust == "verified" else None
    claims = believing(keys, jwt=trust, jwt_issuer="https://id", jwt_audience="agents")
    found, _ = claims.of(sent(token({"org_id": "acme", **said})), NOW)
    assert (found.get("org_id"), *claims.refused) == (("acme",) if not reason else (None, reason))


def test_without_an_audience_set_a_token_for_others_counts(believing):
    found, _ = believing(PUBLIC).of(sent(token({"org_id": "acme", "aud": "them"})), NOW)
    assert found["org_id"] == "acme"


@pytest.mark.parametrize(
    ("kid", "reason"),
    [
        pytest.param("new", None, id="its key"),
        pytest.param(None, None, id="no key named: all are tried"),
        pytest.param("old", "signature", id="another key of the set"),
        pytest.param("gone", "unknown_key", id="a key that is not there"),
    ],
)
def test_a_token_names_its_key(believing, kid, reason):
    old, new = private(number=1), private()
    claims = believing(jwks(jwk(old, kid="old"), jwk(new, kid="new")))
    found, _ = claims.of(sent(token(ACME, new, **({"kid": kid} if kid else {}))), NOW)
    assert (found.get("org_id"), *claims.refused) == (("acme",) if not reason else (None, reason))


def test_unverified_is_whatever_anybody_says_but_for_its_time(believing):
    claims = believing(jwt="unverified")
    assert claims.of(sent(OTHERS), NOW)[0]["org_id"] == "acme"
    assert claims.of(sent(forged(ACME, {"alg": "RS256"})), NOW)[0]["org_id"] == "acme"
    for text in (forged(ACME, {"alg": "none"}), token({"org_id": "acme", "exp": 1})):
        assert claims.of(sent(text), NOW) == ({}, None)
    assert claims.refused == {"algorithm": 1, "expired": 1}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="nothing"),
        pytest.param([(b"authorization", b"Bearer sk-proj-abc")], id="an API key"),
        pytest.param([(b"authorization", b"Bearer lt-1234.5678")], id="a gateway key"),
        pytest.param([(b"authorization", b"Basic YTpi.YTpi.YTpi")], id="another scheme"),
        pytest.param([(b"authorization", b"Bearer a.b.c.d.e")], id="an encrypted token"),
        pytest.param(sent(token(ACME), name=b"x-id-token"), id="another header"),
    ],
)
def test_who_shows_no_token_claims_nothing_and_is_not_counted(believing, headers):
    claims = believing(PUBLIC)
    assert claims.of(headers, NOW) == ({}, None)
    assert not claims.refused


@pytest.mark.parametrize("scheme", ["", "Bearer ", "bearer  ", "BEARER\t"])
def test_the_token_comes_where_the_operator_says(believing, scheme):
    claims = believing(PUBLIC, jwt_header="X-Id-Token")
    headers = sent("sk-own") + sent(token(ACME), b"x-id-token", scheme)
    assert claims.of(headers, NOW)[0]["org_id"] == "acme"


# Claims as texts


@pytest.mark.parametrize(
    ("said", "found"),
    [
        pytest.param({"n": 7, "f": 1.5, "big": 2**70}, {"n": "7", "f": "1.5", "big": str(2**70)},
                     id="numbers"),
        pytest.param({"t": True, "f": False}, {"t": "true", "f": "false"}, id="true and false"),
        pytest.param({"a": None, "b": "", "c": "x"}, {"c": "x"}, id="nothing"),
        pytest.param({"roles": ["a", "b"], "c": "x"}, {"c": "x"}, id="lists are none"),
        pytest.param({"org": {"id": 1, "unit": {"id": "u"}}}, {"org.id": "1", "org.unit.id": "u"},
                     id="by their path"),
        pytest.param({"a": {"b": "inner"}, "a.b": "outer"}, {"a.b": "outer"}, id="outermost first"),
        pytest.param({"a": "x" * MAX_CLAIM_CHARS, "b": "x" * (MAX_CLAIM_CHARS + 1),
                      "c" * (MAX_CLAIM_CHARS + 1): "x"},
                     {"a": "x" * MAX_CLAIM_CHARS}, id="too long is none, never cut"),
        pytest.param({"a": "Zoë\n", "b": "half \ud800"}, {"a": "Zoë\n"}, id="half a character"),
    ],
)  # fmt: skip
def test_claims_are_read_as_texts(said, found):
    assert claims_as_text(said) == found


def test_there_are_only_so_many_and_only_so_deep():
    assert len(claims_as_text({f"c{n}": n for n in range(1000)})) == MAX_CLAIMS
    deep = {"x": 1}
    for _ in range(900):
        deep = {"x": 1, "y": deep}
    assert 1 < len(claims_as_text(deep)) < MAX_CLAIMS
    too_deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    assert read_payload(too_deep, issuer=None, audience=None) == "malformed"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=100,
)


@given(st.dictionaries(st.text(), JSON))
def test_whatever_is_claimed_stays_within_bounds(said):
    found = claims_as_text(said)
    assert len(found) <= MAX_CLAIMS
    assert all(
        0 < len(text) <= MAX_CLAIM_CHARS and len(name) <= MAX_CLAIM_CHARS
        for name, text in found.items()
    )
    assert all(isinstance(text, str) and text.encode() for text in found.values())


@given(st.binary(max_size=60) | st.text("eyJhbGciOiJSUzI1NiJ9.=-_", max_size=60))
def test_no_header_does_any_harm(value):
    text = value if isinstance(value, bytes) else value.encode()
    for claims in ANY:
        assert isinstance(claims.of([(b"authorization", text)], NOW)[0].get("a", ""), str)


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_no_three_parts_do_any_harm(header, payload, signature):
    text = b".".join(map(encode, (header, payload, signature)))
    for claims in ANY:
        assert isinstance(claims.of([(b"authorization", text)], NOW)[0].get("a", ""), str)


ANY = [ClaimsReader.under(GatewaySettings(jwt="unverified"))]


# What is remembered


def counting(payload=b'{"org_id": "acme", "exp": 1000600}'):
    opened = []

    def open_token(text):
        opened.append(text)
        return payload

    return opened, open_token


def test_a_token_is_opened_once_whatever_else_comes_with_it():
    opened, open_token = counting()
    claims = ClaimsReader(GatewaySettings(), open_token)
    for n in range(5):
        found, _ = claims.of([(b"x-request-id", b"%d" % n), *sent("a.b.c")], NOW)
        assert found["org_id"] == "acme"
    assert opened == [b"a.b.c"]
    assert claims.of(sent("a.b.c"), NOW + 600 + CLOCK_LEEWAY_S) == ({}, None)
    assert (claims.refused, len(opened)) == ({"expired": 1}, 1)


def test_what_could_not_be_opened_takes_no_place():
    opened, open_token = counting("signature")
    claims = ClaimsReader(GatewaySettings(), open_token)
    for _ in range(2):
        claims.of(sent("a.b.c"), NOW)
    assert (len(opened), claims.refused) == (2, {"signature": 2})


def test_what_is_remembered_is_bounded():
    opened, open_token = counting()
    claims = ClaimsReader(GatewaySettings(), open_token)
    for n in range(MAX_CACHED_TOKENS + 1):
        claims.of(sent(f"a.b.{n}"), NOW)
    assert len(claims._cached) <= MAX_CACHED_TOKENS
    assert len(opened) == MAX_CACHED_TOKENS + 1


def test_refusals_are_counted_on_and_told_once_a_minute(believing, caplog):
    before = Counter({"expired": 3})
    _, open_token = counting("signature")
    claims = ClaimsReader(GatewaySettings(), open_token, before)
    with caplog.at_level(logging.WARNING, logger="looptrap"):
        for after in (0, 1, LOG_INTERVAL_S - 1, LOG_INTERVAL_S, LOG_INTERVAL_S + 1):
            claims.of(sent("a.b.c"), NOW + after)
    assert claims.refused == {"expired": 3, "signature": 5}
    assert [record.getMessage() for record in caplog.records] == [
        "a JWT is not believed (signature): its claims read as empty"
    ] * 2


@pytest.fixture
def envelopes(tmp_path):
    def make(claims, clock):
        ring = KeyRing(StateFile(tmp_path / "state"))
        authenticator = Authenticator(ring, secret=b"s" * 32)
        return RequestContexts(
            authenticator, InboundHeaderReader([], relay_compressed=True), claims, clock
        )

    return make


def exchange(headers):
    lines = [b"POST /v1/x HTTP/1.1", b"host: x", *(b": ".join(field) for field in headers)]
    head, _ = HeadReader(ServerLimits()).read(b"\r\n".join(lines))
    return Exchange(ServerConnection(Server(Scripted(), ServerLimits())), head)


def test_an_envelope_is_opened_anew_when_its_claims_have_run_out(envelopes):
    clock = Clock()
    clock.now = NOW
    opened = envelopes(ClaimsReader(GatewaySettings(), counting()[1]), clock)
    asked = exchange(sent("a.b.c"))
    first = opened.open(asked)
    assert first.claims["org_id"] == "acme"
    clock.now = first.claims_until - 0.001
    assert opened.open(asked) is first
    clock.now = first.claims_until
    last = opened.open(asked)
    assert (last.claims, last.claims_until) == ({}, None)
    clock.now += 3600
    assert opened.open(asked) is last


def test_where_claims_are_off_the_clock_is_not_asked_again(envelopes):
    asked = []
    opened = envelopes(ClaimsReader.under(GatewaySettings()), lambda: asked.append(1) or NOW)
    request = exchange(sent(token(ACME)))
    first = opened.open(request)
    assert (first.claims, first.claims_until) == ({}, None)
    asked.clear()
    assert opened.open(request) is first
    assert asked == []


def test_without_pyjwt_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jwt", None)
    monkeypatch.delitem(sys.modules, "looptrap.gateway.jwt_verifier")
    with pytest.raises(
        ConfigError, match=r'^gateway\.jwt: needs PyJWT: pip install "looptrap\[jwt'
    ):
        ClaimsReader.under(GatewaySettings(jwt="unverified"))
    assert ClaimsReader.under(GatewaySettings()).of(sent(token(ACME)), NOW) == ({}, None)
