"""Settings about claims: what they mean together, and what is said about rules that read claims."""

import pytest

from looptrap.config import load
from looptrap.errors import ConfigError

READS = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "request"
  by = ["caller", "jwt:org_id"]
  threshold = 3

  [[policies.rates]]
  name = "fast"
  by = ["jwt:org_id"]
  match = { "jwt:plan" = "free" }
  unless = [{ model = "m" }, { "jwt:role" = "admin" }]
  rps = 1
  burst = 2

[[budgets]]
by = ["jwt:team"]
limit_usd = 5

[[kill_switches]]
match = { "jwt:sub" = "x", model = "m" }
"""
PLACES = (
    "policies[0].rules[0].by: jwt:org_id",
    "policies[0].rates[0].by: jwt:org_id",
    "policies[0].rates[0].match: jwt:plan",
    "policies[0].rates[0].unless[1]: jwt:role",
    "budgets[0].by: jwt:team",
    "kill_switches[0].match: jwt:sub",
)


@pytest.fixture
def config(tmp_path):
    def config(toml="", rest="", **env):
        file = tmp_path / "looptrap.toml"
        file.write_text(f"[gateway]\n{toml}\n{rest}")
        return load(file, env=env)

    return config


@pytest.mark.parametrize(
    ("toml", "env", "trust", "origin"),
    [
        pytest.param("", {}, "off", "default", id="nothing said"),
        pytest.param("jwt_keys = 'k'", {}, "verified", "looptrap.toml", id="keys alone"),
        pytest.param(
            "", {"LOOPTRAP_JWT_KEYS": "k"}, "verified", "LOOPTRAP_JWT_KEYS", id="keys by variable"
        ),
        pytest.param(
            "jwt = 'verified'\njwt_keys = 'k'", {}, "verified", "looptrap.toml", id="both"
        ),
        pytest.param("jwt = 'off'\njwt_keys = 'k'", {}, "off", "looptrap.toml", id="off in words"),
        pytest.param(
            "jwt_keys = 'k'", {"LOOPTRAP_JWT": "off"}, "off", "LOOPTRAP_JWT", id="off by variable"
        ),
        pytest.param("jwt = 'unverified'", {}, "unverified", "looptrap.toml", id="unverified"),
    ],
)
def test_whose_claims_count(config, toml, env, trust, origin):
    found = config(toml, **env)
    assert found.gateway.jwt == trust
    assert {place: where for place, _, where in found.effective()}["gateway.jwt"] == origin


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        pytest.param(
            "jwt = 'verified'",
            'gateway.jwt: is "verified" and has nothing to verify with: set gateway.jwt_keys',
            id="no keys",
        ),
        pytest.param(
            "jwt = 'unverified'\njwt_keys = 'k'",
            'gateway.jwt_keys: is set while gateway.jwt is "unverified": say one or the other',
            id="both",
        ),
        pytest.param(
            "jwt_keys = 'https://id.example/jwks.json'",
            'gateway.jwt_keys: is "https://id.example/jwks.json", must be the path of a file: no'
            " keys are fetched",
            id="a URL",
        ),
        pytest.param(
            "jwt = 'yes'",
            'gateway.jwt: is the text "yes", must be "off", "verified" or "unverified"',
            id="another word",
        ),
        pytest.param(
            "jwt_header = 'X Token'",
            'gateway.jwt_header: is the text "X Token", must be the name of a header',
            id="no header",
        ),
    ],
)
def test_mistakes_say_where_and_what(config, toml, problem):
    with pytest.raises(ConfigError) as caught:
        config(toml)
    assert [str(one) for one in caught.value.problems] == [problem]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        pytest.param("", "unverified claims read as empty", id="off"),
        pytest.param("jwt_keys = 'k'", None, id="verified"),
        pytest.param(
            "jwt = 'unverified'", "not verified: clients can claim anything", id="unverified"
        ),
    ],
)
def test_who_reads_claims_is_told_what_they_are_worth(config, toml, said):
    expected = tuple(f"{place}: {said}" for place in PLACES) if said else ()
    warnings = config(toml, READS).warnings
    assert tuple(one for one in warnings if "jwt:" in one) == expected


def test_what_has_no_effect_is_named(config):
    settings = "jwt = 'off'\njwt_keys = 'k'\njwt_issuer = 'i'\njwt_audience = 'a'"
    assert config(settings).warnings == tuple(
        f'gateway.{name}: has no effect, gateway.jwt is "off"'
        for name in ("jwt_keys", "jwt_issuer", "jwt_audience")
    )
