"""Claims through the running gateway: kill switches and rules by them, and no token left behind."""

import time

import pytest
from aiohttp import ClientSession
from tests.gateway.serving import CHAT, JSON, chat, until
from tests.gateway.signing import bearer, forged, jwk, jwks, pem, private, token

from looptrap.admin.server import AdminServer
from looptrap.config import load
from looptrap.config.kind import Address
from looptrap.errors import ConfigError

KILLED = """
[[kill_switches]]
match = { "jwt:org_id" = "acme" }
reason = "over its contract"
"""
BY_ORG = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  by = ["caller", "jwt:org.id"]
  threshold = 2
"""
OURS, THEIRS = private(), private(number=1)


@pytest.fixture
def keys(tmp_path):
    """Return the setting that names a JWKS file with our key."""
    file = tmp_path / "jwks.json"
    file.write_bytes(jwks(jwk(OURS, kid="ours")))
    return f'[gateway]\njwt_keys = "{file}"\n'


def of(name, key=OURS, **more):
    soon = int(time.time()) + 600
    return token({"org_id": name, "exp": soon, **more}, key, kid="ours")


async def ask(here, text, **more):
    return await here.ask(headers=JSON | bearer(text), body=chat(), **more)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param(of("acme"), 403, id="the organisation"),
        pytest.param(of("umbrella"), 200, id="another one"),
        pytest.param(of("acme", THEIRS), 200, id="signed by somebody else"),
        pytest.param(forged({"org_id": "acme"}, {"alg": "none"}), 200, id="signed by nobody"),
        pytest.param(token({"org_id": "acme", "exp": 1}, OURS, kid="ours"), 200, id="long ago"),
        pytest.param("sk-acme", 200, id="no token at all"),
    ],
)
async def test_a_kill_switch_by_claim(serve, keys, text, status):
    here = await serve(keys + KILLED)
    answer = await ask(here, text)
    assert answer.status == status
    if status == 403:
        assert answer.headers[b"x-looptrap-reason"] == b"killed"
        assert answer.headers[b"x-should-retry"] == b"false"
        assert here.provider.requests == []
    else:
        (passed,) = here.provider.requests
        assert passed.headers["authorization"] == f"Bearer {text}"


async def test_claims_that_are_off_hit_nothing(serve):
    here = await serve(KILLED)
    assert (await ask(here, of("acme"))).status == 200


async def test_by_the_operators_word_everybody_is_believed(serve):
    here = await serve(f'[gateway]\njwt = "unverified"\n{KILLED}')
    assert (await ask(here, of("acme", THEIRS))).status == 403


async def test_a_proxy_that_asks_gets_the_same_answer(serve, keys):
    here = await serve(keys + KILLED)
    asked = {"method": "GET", "target": "/looptrap/decision"}
    original = {"X-Original-Method": "POST", "X-Original-URI": CHAT}
    for text, status in ((of("acme"), 403), (of("umbrella"), 200), (of("acme", THEIRS), 200)):
        answer = await here.ask(**asked, headers=original | bearer(text))
        assert answer.status == status
    envoy = await ask(here, of("acme"), target=f"/looptrap/decision{CHAT}")
    assert envoy.headers[b"x-looptrap-reason"] == b"killed"


async def test_a_rule_counts_by_claim_whatever_the_token(serve, keys):
    here = await serve(keys + BY_ORG)
    headers = JSON | {"X-Looptrap-Key": here.add_key()}
    answers = [
        await here.ask(headers=headers | bearer(of("-", org={"id": org}, jti=jti)), body=chat())
        for org, jti in ((1, "a"), (2, "a"), (1, "b"), (2, "b"))
    ]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]


async def test_a_token_is_a_credential_like_any_other(serve, keys):
    here = await serve(keys + BY_ORG)
    statuses = [(await ask(here, of("acme", jti=jti))).status for jti in ("a", "b", "a", "b")]
    assert statuses == [200, 200, 429, 429]


async def test_a_switch_set_at_run_time_hits_on_all_instances(instances, keys):
    one, other = await instances(2, keys)
    assert [(await ask(here, of("acme"))).status for here in (one, other)] == [200, 200]
    await one.app.shared_settings.kill_switches.add({"match": {"jwt:org_id": "acme"}})

    async def is_killed():
        return (await ask(other, of("acme"))).status == 403

    await until(is_killed)
    for here in (one, other):
        assert (await ask(here, of("acme"))).status == 403
        assert (await ask(here, of("acme", THEIRS))).status == 200


async def test_a_reload_reads_the_keys_anew_and_bad_ones_change_nothing(serve, keys, tmp_path):
    here = await serve(keys + KILLED)
    file, jwks_file = tmp_path / "looptrap.toml", tmp_path / "jwks.json"
    given = {"listen": "127.0.0.1:0", "state": str(here.state.path), "upstream": here.provider.url}
    jwks_file.write_bytes(pem(private("weak")))
    with pytest.raises(ConfigError, match=r"gateway\.jwt_keys: .*1024 bits"):
        here.app.reload(load(file, env={}, flags=given))
    assert (await ask(here, of("acme"))).status == 403
    jwks_file.write_bytes(pem(THEIRS))
    here.app.reload(load(file, env={}, flags=given))
    assert (await ask(here, of("acme"))).status == 200
    assert (await ask(here, of("acme", THEIRS))).status == 403


async def test_a_gateway_without_its_keys_does_not_start(serve, tmp_path):
    with pytest.raises(ConfigError, match=r"gateway\.jwt_keys: .*nowhere: no such file"):
        await serve(f'[gateway]\njwt_keys = "{tmp_path}/nowhere"')


async def test_a_switch_of_the_operator_is_warned_of_as_the_claims_are_worth(serve):
    here = await serve('[gateway]\njwt = "unverified"')
    admin = AdminServer(here.app, Address("127.0.0.1", 0))
    host, port = await admin.start()
    try:
        async with (
            ClientSession() as session,
            session.post(
                f"http://{host}:{port}/api/v1/kill-switches", json={"match": {"jwt:org": "x"}}
            ) as answer,
        ):
            told = await answer.json()
    finally:
        await admin.stop()
    assert told["warnings"] == ["match: jwt:org: not verified: clients can claim anything"]


async def test_nothing_of_a_token_is_left_anywhere(serve, keys, tmp_path, caplog, capfd):
    settings = 'access_log = "json"\ndecision_log = "json"\n'
    flags = {"capture_dir": str(tmp_path / "capture"), "capture": "content"}
    here = await serve(keys + settings + KILLED, **flags)
    good, bad = of("acme"), of("acme", THEIRS)
    planted = [part for text in (good, bad) for part in text.split(".")[1:]]
    answers = [await ask(here, text) for text in (good, bad) for _ in range(7)]
    assert {answer.status for answer in answers} == {403, 200, 429}
    admin = AdminServer(here.app, Address("127.0.0.1", 0))
    host, port = await admin.start()
    seen = [answer.body + repr(answer.headers).encode() for answer in answers]
    try:
        async with ClientSession() as session:
            for path in ("/metrics", "/api/v1/incidents", "/readyz"):
                async with session.get(f"http://{host}:{port}{path}") as answer:
                    seen.append(await answer.read())
    finally:
        await admin.stop()
    await here.app.stop()
    assert "a JWT is not believed (signature)" in caplog.text
    out, err = capfd.readouterr()
    assert '"decision":"block"' in err
    assert '"caller":"cred:' in out
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 4, "state, history and captures are there"
    everything = b"".join([*seen, *files, caplog.text.encode(), out.encode(), err.encode()])
    assert [part for part in planted if part.encode() in everything] == []
