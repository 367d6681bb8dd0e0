"""Rates through the running gateway: what passes, what is told, and who is counted with whom."""

import json

import msgspec
import pytest
from tests.gateway.serving import JSON, Serving, chat, is_degraded, until
from tests.gateway.signing import bearer, jwk, jwks, private, token

from looptrap.config import load
from looptrap.gateway.app import App
from looptrap.gateway.state_file import StateFile
from looptrap.testing import FakeProvider, Reply, Tokens

EXAMPLE = {
    "bundle_version": 1,
    "policies": [
        {
            "id": "agents",
            "spec": {
                "selector": {"pathPrefix": "/v1/", "methods": ["POST"]},
                "mode": "enforce",
                "rules": [
                    {
                        "name": "per-org-tool",
                        "limit_keys": ["jwt:org_id", "header:x-tool-name"],
                        "algorithm": "token_bucket",
                        "algorithm_config": {"rps": 20, "burst": 40},
                    }
                ],
                "loop_detection": {
                    "enabled": True,
                    "window_seconds": 60,
                    "threshold_identical_requests": 3,
                    "action": "throttle",
                },
            },
        }
    ],
}
SLOW = """
[[policies]]
name = "slow"
  [[policies.rates]]
  name = "one-a-minute"
  rps = 0.02
  burst = 1
"""
TOKENS = """
[[policies]]
name = "tokens"
  [[policies.rates]]
  name = "per-minute"
  kind = "token_bucket_llm"
  tokens_per_minute = 1_000
"""
NOW = 1_800_000_000.0


class Clock:
    """Says the time that a test says it is."""

    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def bundled(tmp_path, clock):
    """Serve Fairvisor's example as it is, with keys that verify the claims in it."""
    bundle, keys = tmp_path / "bundle.json", tmp_path / "jwks.json"
    bundle.write_text(json.dumps(EXAMPLE))
    keys.write_bytes(jwks(jwk(private())))
    async with FakeProvider() as provider:
        flags = {
            "listen": "127.0.0.1:0",
            "upstream": provider.url,
            "state": str(tmp_path / "state"),
            "history": "",
        }
        config = load(bundle, env={"LOOPTRAP_JWT_KEYS": str(keys)}, flags=flags)
        assert config.warnings == ()
        app = App(config, {})
        [(host, port)] = await app.start()
        app.gateway.clock = app.gateway._settler.clock = clock
        here = Serving(app, provider, host, port, StateFile(tmp_path / "state"))
        yield here
        for client in here.clients:
            client.close()
        await app.stop()


@pytest.fixture
def paced(serve, clock):
    """Serve a configuration by the test's clock."""

    async def start(toml, **options):
        here = await serve(toml, **options)
        here.app.gateway.clock = here.app.gateway._settler.clock = clock
        return here

    return start


def caller(org="acme", tool="search", **more):
    return {**JSON, **bearer(token({"org_id": org, **more})), "X-Tool-Name": tool}


async def asked(here, number, headers):
    """Send a call that is like no other: this is about rates, not about loops."""
    return await here.ask(headers=headers, body=chat(f"Question {number}"))


async def test_the_example_of_fairvisor_runs_as_it_is(bundled, clock):
    headers = caller()
    for number in range(40):
        answer = await asked(bundled, number, headers)
        assert answer.status == 200
        assert answer.headers[b"ratelimit-limit"] == b"40"
        assert answer.headers[b"ratelimit-remaining"] == b"%d" % (39 - number)
    refused = await asked(bundled, 40, headers)
    assert refused.status == 429
    assert msgspec.json.decode(refused.body)["error"]["code"] == "rate_limited"
    told = {name: refused.headers.get(name) for name in (
        b"retry-after", b"ratelimit-limit", b"ratelimit-remaining", b"ratelimit-reset",
        b"x-looptrap-reason", b"x-looptrap-rule", b"x-fairvisor-reason", b"x-should-retry",
    )}  # fmt: skip
    assert told == {
        b"retry-after": b"1",
        b"ratelimit-limit": b"40",
        b"ratelimit-remaining": b"0",
        b"ratelimit-reset": b"2",
        b"x-looptrap-reason": b"rate_limited",
        b"x-looptrap-rule": b"per-org-tool",
        b"x-fairvisor-reason": b"rate_limited",
        b"x-should-retry": None,
    }
    assert bundled.provider.calls == 40
    assert (await asked(bundled, 41, caller(tool="fetch"))).status == 200, "another tool"
    assert (await asked(bundled, 42, caller(org="umbrella"))).status == 200, "another organisation"
    assert (await asked(bundled, 43, caller(sub="x"))).status == 429, "the same, another token"
    clock.now += 0.06
    assert (await asked(bundled, 44, headers)).status == 200, "a twentieth of a second later"
    assert (await asked(bundled, 45, headers)).status == 429


async def test_and_slows_loops_down(bundled):
    for _ in range(2):
        answer = await bundled.ask(headers=caller(), body=chat())
        assert b"x-looptrap-delay-ms" not in answer.headers
    looping = await bundled.ask(headers=caller(), body=chat())
    assert looping.status == 200
    assert looping.headers[b"x-looptrap-verdict"] == b"throttle"
    assert looping.headers[b"x-looptrap-delay-ms"] == b"300"


async def test_claims_that_nobody_verifies_do_not_share_a_bucket(bundled):
    forger = {**caller(), **bearer(token({"org_id": "acme"}, private(number=1)))}
    for number in range(41):
        last = await asked(bundled, number, forger)
    assert last.status == 429, "counted by the credential alone"
    assert (await asked(bundled, 41, caller())).status == 200, "the organisation does not notice"


async def test_a_call_that_came_too_soon_passes_when_its_time_has_come(paced, clock):
    here = await paced(SLOW)
    assert (await asked(here, 1, JSON)).status == 200
    refused = await asked(here, 2, JSON)
    assert (refused.status, refused.headers[b"retry-after"]) == (429, b"50")
    clock.now += 50
    assert (await asked(here, 3, JSON)).status == 200


async def test_tokens_are_counted_as_they_were_used(paced):
    here = await paced(TOKENS, script=[Reply.text("Yes.", tokens=Tokens(5, 5))] * 9)
    large = chat("How?", max_tokens=900)
    for _ in range(5):
        assert (await here.ask(headers=JSON, body=large)).status == 200, "what is not used is there"
    most = 1_000 - 5 * 10
    assert (await here.ask(headers=JSON, body=chat("How?", max_tokens=most))).status == 429


@pytest.mark.parametrize("status", [500, 429], ids=["a failure", "the provider's own limit"])
async def test_tokens_of_a_call_that_failed_are_given_back(paced, status):
    here = await paced(TOKENS, script=[Reply.status(status)] * 9)
    for _ in range(3):
        answer = await here.ask(headers=JSON, body=chat("How?", max_tokens=900))
        assert answer.status == status
        assert b"x-looptrap-rule" not in answer.headers


async def test_instances_that_share_a_store_share_a_rate(instances):
    one, other = await instances(toml=SLOW)
    await until(lambda: not is_degraded(one) and not is_degraded(other))
    assert (await asked(one, 1, JSON)).status == 200
    refused = await asked(other, 2, JSON)
    assert refused.status == 429
    assert refused.headers[b"x-looptrap-rule"] == b"one-a-minute"
