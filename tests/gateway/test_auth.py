"""Who is calling: gateway keys, provider credentials, addresses; and who is not let in."""

import logging
import re
from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from looptrap.errors import ConfigError
from looptrap.gateway import auth, keys
from looptrap.gateway.auth import (
    Authenticator,
    Denial,
    Identity,
    check_exposure,
    projects_by_key,
    strip_gateway_keys,
)
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.state_file import StateFile
from looptrap.policy.policy import Project

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SECRET = bytes(range(32))
CHAT = b"/v1/chat/completions"
PEER = "192.0.2.7"
JSON = (b"content-type", b"application/json")
WHOLE = b"lt-0123abcd-" + b"x" * 43


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "looptrap.state")


def add(file, name, project=""):
    return keys.add(file, name, project=project, now=NOW)[1].encode()


def opened(ring=None, **settings):
    return Authenticator(ring or KeyRing(), secret=SECRET, **settings)


def caller(*headers, target=CHAT, peer=PEER, by=None):
    identity = (by or opened()).identify([JSON, *headers], target, peer)
    assert isinstance(identity, Identity)
    return identity.caller


CARRIERS = [
    pytest.param([(b"authorization", b"Bearer %b")], b"", id="Authorization: Bearer"),
    pytest.param([(b"authorization", b"bearer  %b")], b"", id="lower-case scheme, two spaces"),
    pytest.param([(b"authorization", b"%b")], b"", id="Authorization without a scheme"),
    pytest.param([(b"authorization", b"Token %b")], b"", id="another scheme"),
    pytest.param([(b"x-api-key", b"%b")], b"", id="x-api-key"),
    pytest.param([(b"api-key", b"%b")], b"", id="api-key"),
    pytest.param([(b"x-goog-api-key", b"%b")], b"", id="x-goog-api-key"),
    pytest.param([(b"x-looptrap-key", b"%b")], b"", id="X-Looptrap-Key"),
    pytest.param([], b"alt=sse&key=%b", id="?key="),
    pytest.param([], b"k%%65y=%b", id="?key= with an escaped name"),
    pytest.param([(b"authorization", b"Bearer %b"), (b"x-api-key", b"%b")], b"", id="two headers"),
    pytest.param([(b"x-api-key", b"%b")], b"key=%b", id="header and query"),
]


def carried(headers, query, text):
    fields = [(name, value % text) for name, value in headers]
    return [JSON, *fields], CHAT + (b"?" + query % text if query else b"")


@pytest.mark.parametrize(("headers", "query"), CARRIERS)
class TestWhereverTheKeyIs:
    def test_it_names_the_caller_and_is_not_forwarded(self, file, headers, query):
        text = add(file, "ci", "research")
        fields, target = carried(headers, query, text)
        authenticator = opened(KeyRing(file))
        for _ in range(2):  # the second answer is a remembered one
            assert authenticator.identify(fields, target, PEER) == Identity(
                caller="key:ci",
                project="research",
                key_name="ci",
                drop=frozenset(name for name, _ in headers),
                drop_query=bool(query),
            )

    def test_an_unknown_one_is_refused_even_where_no_keys_are_asked_for(self, headers, query):
        fields, target = carried(headers, query, b"lt-0123abcd-" + b"x" * 43)
        assert opened().identify(fields, target, PEER) == auth.KEY_UNKNOWN

    def test_a_revoked_one_is_refused(self, file, headers, query):
        fields, target = carried(headers, query, add(file, "ci"))
        keys.revoke(file, "ci", now=NOW)
        assert opened(KeyRing(file)).identify(fields, target, PEER) == auth.KEY_REVOKED


def test_refusals_are_401_with_codes_that_sdks_know():
    denied = {one.code for one in (auth.KEY_UNKNOWN, auth.KEY_REVOKED, auth.KEYS_AMBIGUOUS)}
    assert denied == {"invalid_api_key"}
    assert auth.KEY_MISSING.code == "missing_api_key"
    assert {
        one.status
        for one in (auth.KEY_UNKNOWN, auth.KEY_REVOKED, auth.KEYS_AMBIGUOUS, auth.KEY_MISSING)
    } == {401}


@pytest.mark.parametrize(
    "presented",
    [
        pytest.param([], id="nothing"),
        pytest.param([(b"authorization", b"Bearer sk-provider")], id="a provider's credential"),
        pytest.param([(b"authorization", b"Bearer ")], id="an empty credential"),
        pytest.param([(b"x-looptrap-key", b"")], id="an empty X-Looptrap-Key"),
    ],
)
def test_where_there_are_keys_a_request_without_one_is_refused(file, presented):
    add(file, "ci")
    without_any = KeyRing()
    without_any.require()
    for ring in (KeyRing(file), without_any):
        assert opened(ring).identify(presented, CHAT, PEER) == auth.KEY_MISSING


@pytest.mark.parametrize(
    ("beside", "target", "has_credential"),
    [
        ([(b"authorization", b"Bearer sk-own")], CHAT, True),
        ([(b"x-api-key", b"sk-own")], CHAT, True),
        ([], CHAT + b"?key=AIza-own", True),
        ([(b"authorization", b"AWS4-HMAC-SHA256 Credential=AK/x")], CHAT, True),
        ([(b"authorization", b"Bearer ")], CHAT, False),
        ([], CHAT, False),
    ],
    ids=["Authorization", "x-api-key", "?key=", "a signature", "an empty one", "none"],
)
def test_the_callers_own_credential_passes_beside_x_looptrap_key(
    file, beside, target, has_credential
):
    headers = [*beside, (b"x-looptrap-key", add(file, "ci"))]
    identity = opened(KeyRing(file)).identify(headers, target, PEER)
    assert (identity.caller, identity.drop) == ("key:ci", {b"x-looptrap-key"})
    assert not identity.drop_query
    assert identity.has_credential is has_credential


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"x-looptrap-key", b"sk-not-ours")], auth.KEY_UNKNOWN),
        ([(b"x-looptrap-key", b"%(a)b"), (b"authorization", b"Bearer %(b)b")], auth.KEYS_AMBIGUOUS),
        ([(b"x-looptrap-key", b"%(a)b"), (b"x-api-key", b"lt-other")], auth.KEYS_AMBIGUOUS),
        ([(b"authorization", b"Bearer %(a)b, Bearer %(b)b")], auth.KEYS_AMBIGUOUS),
        ([(b"authorization", b"Bearer %(a)b"), (b"authorization", b"lt-x")], auth.KEYS_AMBIGUOUS),
    ],
    ids=["not a key at all", "two valid ones", "one unknown", "in one header", "a header twice"],
)
def test_a_second_or_strange_key_is_never_passed_on(file, headers, expected):
    texts = {b"a": add(file, "a"), b"b": add(file, "b")}
    presented = [(name, value % texts if b"%" in value else value) for name, value in headers]
    assert opened(KeyRing(file)).identify(presented, CHAT, PEER) == expected


@pytest.mark.parametrize(
    ("own", "configured", "expected"),
    [("", {}, ""), ("own", {}, "own"), ("own", {"ci": "other"}, "other"), ("", {"x": "y"}, "")],
    ids=["none", "the key's own", "the configuration wins", "another key's"],
)
def test_a_key_belongs_to_a_project(file, own, configured, expected):
    text = add(file, "ci", own)
    authenticator = opened(KeyRing(file), projects=configured)
    assert authenticator.identify([(b"x-api-key", text)], CHAT, PEER).project == expected


def test_projects_claim_keys_by_name():
    projects = [
        Project(name="a", keys=("x", "y")),
        Project(name="b", keys=("z",)),
        Project(name="c"),
    ]
    assert projects_by_key(projects) == {"x": "a", "y": "a", "z": "b"}


def test_two_projects_cannot_claim_one_key():
    projects = [Project(name="a", keys=("x",)), Project(name="b", keys=("x",))]
    with pytest.raises(ConfigError) as caught:
        projects_by_key(projects)
    assert str(caught.value) == 'projects[1].keys: key "x" belongs to project a already'


class TestRemembering:
    def test_a_key_revoked_while_running_is_refused_after_the_refresh(self, file):
        text = add(file, "ci")
        ring = KeyRing(file)
        authenticator = opened(ring)
        headers = [(b"authorization", b"Bearer " + text)]
        assert caller(*headers, by=authenticator) == "key:ci"
        keys.revoke(file, "ci", now=NOW)
        ring.refresh()
        assert authenticator.identify(headers, CHAT, PEER) == auth.KEY_REVOKED

    def test_the_first_key_closes_a_gateway_that_was_open(self, file):
        ring = KeyRing(file)
        authenticator = opened(ring)
        own = [(b"authorization", b"Bearer sk-own")]
        assert caller(*own, by=authenticator).startswith("cred:")
        assert caller(by=authenticator) == f"addr:{PEER}"
        add(file, "ci")
        ring.refresh()
        assert authenticator.identify(own, CHAT, PEER) == auth.KEY_MISSING
        assert authenticator.identify([], CHAT, PEER) == auth.KEY_MISSING

    def test_a_known_credential_is_one_look_up(self, monkeypatch):
        authenticator = opened()
        first = authenticator.identify([(b"x-api-key", b"sk")], CHAT, PEER)
        monkeypatch.setattr(authenticator, "_identify", lambda *_: pytest.fail("concluded again"))
        assert authenticator.identify([(b"x-api-key", b"sk")], CHAT, "192.0.2.8") is first

    def test_never_grows_beyond_its_bounds(self):
        authenticator = opened()
        first = caller((b"x-api-key", b"0"), by=authenticator)
        for i in range(2 * auth._MAX_CACHED_IDENTITIES):
            caller((b"x-api-key", b"%d" % i), by=authenticator)
        caller((b"x-api-key", b"x" * 50_000), by=authenticator)
        remembered = authenticator._cached
        assert len(remembered) <= auth._MAX_CACHED_IDENTITIES
        assert max(len(value) for _, fields in remembered for _, value in fields) < 100
        assert caller((b"x-api-key", b"0"), by=authenticator) == first

    def test_long_targets_are_read_but_not_kept(self):
        auth._query_keys.clear()
        long = CHAT + b"?pad=" + b"x" * 5000 + b"&key=lt-unknown"
        assert opened().identify([], long, PEER) == auth.KEY_UNKNOWN
        assert len(auth._query_keys) == 0


TEXTS = st.binary(min_size=1, max_size=40).filter(
    lambda text: text.strip() == text and b"lt-" not in text and not text.startswith(b"AWS4-")
)
"""Header values as the wire hands them over, none of them a gateway key or a signature."""
CREDENTIALS = TEXTS.filter(
    lambda text: not text.lower().startswith(b"bearer") and len(text.split()) == 1
)


@given(credential=CREDENTIALS)
def test_a_credential_is_the_same_caller_wherever_it_is_presented(credential):
    escaped = b"".join(b"%%%02x" % byte for byte in credential)
    callers = {
        caller((b"authorization", b"Bearer " + credential)),
        caller((b"authorization", b"bearer\t" + credential)),
        caller((b"x-api-key", credential), peer="::1"),
        caller((b"api-key", credential)),
        caller((b"x-goog-api-key", credential)),
        caller(target=CHAT + b"?alt=sse&key=" + escaped),
        caller((b"authorization", b"Bearer " + credential), (b"x-api-key", credential)),
    }
    assert len(callers) == 1
    assert re.fullmatch("cred:[0-9a-f]{16}", callers.pop())


@given(one=CREDENTIALS, other=CREDENTIALS)
def test_distinct_credentials_never_share_a_caller(one, other):
    first, second = caller((b"authorization", b"Bearer " + one)), caller((b"x-api-key", other))
    assert (first == second) == (one == other)


AUTHORIZATION = (b"authorization", b"Bearer sk-real")
READ_AT = [
    pytest.param("/v1/chat/completions", AUTHORIZATION, id="chat: Authorization"),
    pytest.param("/v1/responses", AUTHORIZATION, id="responses: Authorization"),
    pytest.param("/v1/embeddings", AUTHORIZATION, id="embeddings: Authorization"),
    pytest.param("/v1/messages", (b"x-api-key", b"sk-real"), id="messages: x-api-key"),
    pytest.param(
        "/v1beta/models/g:generateContent", (b"x-goog-api-key", b"sk-real"), id="Gemini: its header"
    ),
    pytest.param("/v1beta/models/g:generateContent", b"key=sk-real", id="Gemini: the query"),
    pytest.param("/mcp", AUTHORIZATION, id="another path: Authorization"),
]


@pytest.mark.parametrize(("path", "real"), READ_AT)
@given(junk=CREDENTIALS)
def test_nothing_beside_the_credential_that_is_read_makes_another_caller(path, real, junk):
    own = {b"x-goog-api-key"} if isinstance(real, bytes) else {real[0]}
    headers = [] if isinstance(real, bytes) else [real]
    query = real if isinstance(real, bytes) else b""
    alone = caller(*headers, target=path.encode() + b"?" + query)
    for name in {b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"} - own:
        target = path.encode() + b"?" + query
        assert caller(*headers, (name, junk), target=target) == alone
        assert caller((name, junk), *headers, target=target) == alone
    if not query:
        escaped = b"".join(b"%%%02x" % byte for byte in junk)
        assert caller(*headers, target=path.encode() + b"?key=" + escaped) == alone


@pytest.mark.parametrize(
    "written",
    [
        b"bearer sk-real",
        b"BEARER   sk-real",
        b"Bearer\tsk-real",
        b"Bearer sk-real junk",
        b"sk-real",
    ],
    ids=["lower case", "more spaces", "a tab", "more behind it", "no scheme"],
)
def test_a_bearer_token_is_one_caller_however_it_is_written(written):
    assert caller((b"authorization", written)) == caller(AUTHORIZATION)


@pytest.mark.parametrize(
    "written",
    [b"basic dTpw", b"BASIC  dTpw", b"Basic dT*pw", b"Basic dTpw===="],
    ids=["lower case", "capitals", "a letter that decoders skip", "more padding"],
)
def test_a_user_and_password_are_one_caller_however_they_are_written(written):
    assert caller((b"authorization", written)) == caller((b"authorization", b"Basic dTpw"))
    assert caller((b"authorization", b"Basic dTpx")) != caller((b"authorization", b"Basic dTpw"))


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([AUTHORIZATION, (b"authorization", b"Bearer junk")], b""),
        ([(b"authorization", b"Bearer junk"), AUTHORIZATION], b""),
        ([], b"?key=sk-real&key=junk"),
    ],
    ids=["a header, the real one first", "a header, the real one last", "the query"],
)
def test_two_credentials_in_one_place_are_refused(headers, query):
    found = opened().identify(headers, CHAT + query, PEER)
    assert found == auth.TWO_CREDENTIALS
    assert found.status == 400
    assert caller(AUTHORIZATION, AUTHORIZATION) == caller(AUTHORIZATION)


def test_empty_credentials_are_passed_by():
    assert caller((b"x-api-key", b""), AUTHORIZATION, target=b"/v1/messages") == caller(
        AUTHORIZATION
    )
    assert caller((b"authorization", b"Bearer "), (b"api-key", b"sk-real")) == caller(AUTHORIZATION)


@given(credential=CREDENTIALS, text=st.text())
def test_neither_sessions_nor_other_headers_change_or_make_a_caller(credential, text):
    value = text.encode()
    claims = [
        (b"x-looptrap-session", value),
        (b"x-session-id", value),
        (b"x-forwarded-for", value),
        (b"cookie", value),
        (b"x-looptrap-caller", value),
    ]
    assert caller((b"x-api-key", credential), *claims) == caller((b"x-api-key", credential))
    assert caller(*claims) == f"addr:{PEER}"


@given(credential=st.one_of(CREDENTIALS, st.sampled_from([b"key:ci", b"addr:::1", b"cred:0" * 4])))
def test_no_credential_can_pose_as_a_key_or_an_address(credential):
    assert caller((b"authorization", b"Bearer " + credential)).startswith("cred:")


@given(credential=CREDENTIALS)
def test_callers_cannot_be_computed_without_the_secret(credential):
    other = Authenticator(KeyRing(), secret=bytes(32))
    field = (b"x-api-key", credential)
    assert caller(field) != caller(field, by=other)


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("192.0.2.7", "addr:192.0.2.7"),
        ("::ffff:192.0.2.7", "addr:192.0.2.7"),
        ("2001:db8::1", "addr:2001:db8::1"),
        ("::ffff:1", "addr:::ffff:1"),
        ("", "addr:"),
    ],
    ids=["IPv4", "IPv4 on a dual-stack socket", "IPv6", "an IPv6 look-alike", "a Unix socket"],
)
def test_without_a_credential_the_address_is_the_caller(peer, expected):
    assert caller(peer=peer) == expected


def test_a_signature_is_no_credential_as_it_is_new_with_every_request():
    authenticator = opened()
    for peer in ("192.0.2.7", "192.0.2.8"):
        for i in range(3):
            signed = (b"authorization", b"AWS4-HMAC-SHA256 Credential=AK/x, Signature=%d" % i)
            assert caller(signed, peer=peer, by=authenticator) == f"addr:{peer}"


@pytest.mark.parametrize(
    "value",
    [b"Bearer eyJ.eyJ.lt-looks-like-it", b"Bearer salt-1", b"Bearer sk-lt-1"],
    ids=["a JWT's signature", "the end of a word", "inside a key"],
)
def test_a_credential_that_merely_contains_our_prefix_is_a_providers(value):
    assert caller((b"authorization", value)).startswith("cred:")


@pytest.mark.parametrize(
    ("query", "forwarded"),
    [
        (b"key=lt-1-x", b""),
        (b"alt=sse&key=lt-1-x", b"alt=sse"),
        (b"a=%20b&key=lt%2D1-x&c=&d", b"a=%20b&c=&d"),
        (b"k%65y=+lt-1-x&a=1", b"a=1"),
        (b"key=AIza&alt=sse", b"key=AIza&alt=sse"),
        (b"monkey=lt-1&a=key=lt-1", b"monkey=lt-1&a=key=lt-1"),
        (b"token=%b&a=1" % WHOLE, b"a=1"),
        (b"a=1&t=lt%%2d%b" % WHOLE[3:], b"a=1"),
        (b"", b""),
    ],
    ids=[
        "alone",
        "last",
        "escaped",
        "escaped name",
        "a provider's",
        "other fields",
        "a whole key elsewhere",
        "a whole key elsewhere, escaped",
        "empty",
    ],
)
def test_a_gateway_key_is_cut_out_of_the_query_and_nothing_else(query, forwarded):
    assert strip_gateway_keys(query) == forwarded


@given(query=st.lists(st.binary().filter(lambda one: b"&" not in one)).map(b"&".join))
def test_a_query_without_a_gateway_key_stays_byte_for_byte(query):
    assume(b"lt" not in query and b"%" not in query)
    assert strip_gateway_keys(query) == query


def test_no_secret_shows_in_answers_representations_or_logs(file, caplog):
    caplog.set_level(logging.DEBUG)
    planted = b"sk-planted-credential"
    text = add(file, "ci")
    open_to_all, closed = opened(), opened(KeyRing(file))
    results = [
        open_to_all.identify([(b"authorization", b"Bearer " + planted)], CHAT, PEER),
        open_to_all.identify([(b"x-looptrap-key", planted)], CHAT, PEER),
        open_to_all.identify([], CHAT + b"?key=lt-" + planted, PEER),
        closed.identify([(b"x-api-key", planted)], CHAT, PEER),
        closed.identify([(b"x-api-key", text)], CHAT, PEER),
        closed.identify([(b"x-api-key", text[:-5])], CHAT, PEER),
    ]
    assert [type(one) for one in results] == [Identity, Denial, Denial, Denial, Identity, Denial]
    shown = repr(results) + repr(open_to_all) + repr(closed) + caplog.text
    for secret in ("planted", text.decode()[4:], SECRET.hex(), repr(SECRET)):
        assert secret not in shown


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost", "LOCALHOST", "::ffff:127.0.0.1"],
)
def test_without_keys_the_gateway_is_open_on_loopback(host):
    check_exposure(host, has_keys=False, allow_anonymous=False)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "192.0.2.7", "::ffff:192.0.2.7", "gateway.example", "localhost.example"],
)
def test_without_keys_it_does_not_start_where_others_reach_it(host):
    with pytest.raises(ConfigError) as caught:
        check_exposure(host, has_keys=False, allow_anonymous=False)
    message = str(caught.value)
    for way_out in ("looptrap keys add", "127.0.0.1", "--allow-anonymous"):
        assert way_out in message
    assert "\n" not in message
    check_exposure(host, has_keys=True, allow_anonymous=False)
    check_exposure(host, has_keys=False, allow_anonymous=True)
