"""Chains in a configuration: what they may name, and what becomes of it."""

import pytest
from click.testing import CliRunner

from looptrap.cli import main
from looptrap.config import load
from looptrap.config.setting import CONFIG
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.errors import ConfigError
from looptrap.gateway.auth import Identity
from looptrap.gateway.provider import Provider
from looptrap.gateway.router import build_router
from looptrap.schema import read as read_table

THREE = """
[[routes]]
select = { path_prefix = "/v1/chat/", models = ["smart"] }
chain = ["anthropic/claude-opus-4-7", "openai/gpt-5.3-codex", "google/gemini-3.1-pro"]
attempts = 3
deadline = 90
"""
KEYS = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g"}


@pytest.fixture
def config(tmp_path):
    def start(toml):
        file = tmp_path / "looptrap.toml"
        file.write_text(toml)
        return load(file, env={})

    return start


def problem(config, toml):
    with pytest.raises(ConfigError) as caught:
        config(toml)
    (found,) = caught.value.problems
    return str(found)


def chain(*names, select=""):
    return f"[[routes]]\n{select}\nchain = {list(names)}\n".replace("'", '"')


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("[[routes]]\n", "routes[0]: needs either a provider or a chain"),
        (
            '[[routes]]\nprovider = "openai"\nchain = ["openai"]',
            "routes[0]: needs either a provider or a chain",
        ),
        ("[[routes]]\nchain = []", "routes[0].chain: is empty, must name at least one provider"),
        (
            chain("openai", "anthropc/claude"),
            'routes[0].chain[1]: is the text "anthropc/claude", must be the name of a provider,'
            " did you mean anthropic?",
        ),
        (chain("openai/"), "routes[0].chain[0]: is the text"),
        (chain("openai") + "attempts = 0", "routes[0].attempts: is 0, must be 1 or more"),
        (chain("openai") + "deadline = 0", "routes[0].deadline: is 0, must be more than 0"),
        ('[[providers]]\nname = "x"\nbase_url = []', "providers[0].base_url: is empty, must be"),
        (
            '[[providers]]\nname = "x"\nbase_url = ["http://a", "http://a"]',
            "providers[0].base_url: names one twice",
        ),
        (
            '[[providers]]\nname = "x"\nbase_url = ["http://a", "ftp://b"]',
            "providers[0].base_url[1]: ",
        ),
        (
            '[[providers]]\nname = "x"\nbase_url = "http://a"\nspeaks = ["chat"]',
            "providers[0].speaks[0]: is the text",
        ),
        (
            chain("openai", "gemini"),
            "routes[0].chain: crosses dialects: openai speaks openai_chat, openai_responses,"
            " openai_completions and openai_embeddings; gemini speaks gemini and"
            " gemini_interactions; a call is never translated",
        ),
        (
            chain("anthropic", "openai", select='select = { path_exact = "/v1/messages" }'),
            "routes[0].chain: crosses dialects (its path is of anthropic): anthropic speaks"
            " openai_chat and anthropic; openai speaks",
        ),
        (
            chain("openai", "anthropic", select='select = { path_prefix = "/v1/responses" }'),
            "routes[0].chain: crosses dialects (its path is of openai_responses)",
        ),
    ],
)
def test_mistakes_say_where_and_what(config, toml, expected):
    assert problem(config, toml).startswith(expected)


@pytest.mark.parametrize(
    "toml",
    [
        THREE,
        chain("openai", "anthropic"),
        chain("openai", "google"),
        chain("gemini", "gemini/gemini-3.1-flash"),
        chain("anthropic/claude-opus-4-7", "anthropic/claude-sonnet-4-7"),
        chain("openai/ft:gpt-5:acme::1", "openai/org/model"),
        '[[providers]]\nname = "own"\nbase_url = "http://h"\n' + chain("anthropic", "own", "own/x"),
        chain("openai", "anthropic", select='select = { path_prefix = "/v1/chat" }'),
    ],
)
def test_what_goes_together_can_be_read_and_written(config, toml):
    found = config(toml)
    assert read_table(CONFIG, CONFIG.plain(found)).routes == found.routes


def test_check_refuses_a_chain_that_crosses_dialects(tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text(chain("openai", "gemini"))
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code == 2
    assert "routes[0].chain: crosses dialects" in result.output


def legs(config, toml, body, path="/v1/chat/completions", identity=None):
    call = read(Request(path=path, body=body))
    route = build_router(config(toml), KEYS).choose(call)
    found, skipped = route.plan.candidates(
        call, identity or Identity(caller="key:ci", key_name="ci")
    )
    return route, found, skipped


CHAT = b'{"model":"smart","messages":[]}'


def test_the_three_of_the_manual_are_asked_in_openais_dialect(config):
    route, found, _ = legs(config, THREE, CHAT)
    asked = [
        (
            leg.link.model,
            str(leg.provider.origin) + leg.provider.target(b"/v1/chat/completions").decode(),
            leg.provider.key_field("openai_chat"),
        )
        for leg in found
    ]
    bearer = b"authorization: Bearer %b\r\n"
    google = "generativelanguage.googleapis.com:443/v1beta/openai/chat/completions"
    assert asked == [
        ("claude-opus-4-7", "api.anthropic.com:443/v1/chat/completions", bearer % b"a"),
        ("gpt-5.3-codex", "api.openai.com:443/v1/chat/completions", bearer % b"o"),
        ("gemini-3.1-pro", google, bearer % b"g"),
    ]
    policy = route.plan.policy
    assert (policy.attempts, policy.deadline) == (3, 90.0)


def test_anthropic_gets_its_key_as_it_likes_it_in_its_own_dialect(config):
    body = b'{"model":"m","max_tokens":1,"messages":[]}'
    _, (leg,), skipped = legs(config, chain("anthropic/c", "openai"), body, "/v1/messages")
    assert leg.provider.key_field("anthropic") == b"x-api-key: a\r\n"
    assert skipped == [("openai", "other_dialect")]


@pytest.mark.parametrize(
    ("toml", "has_plan", "skips_limited"),
    [
        ('[[routes]]\nprovider = "openai"', False, False),
        (chain("openai"), False, False),
        (chain("openai/m"), True, False),
        ('[[routes]]\nprovider = "openai"\ndeadline = 3', True, False),
        ('[[routes]]\nprovider = "openai"\nattempt_timeout = 3', True, False),
        ('[[routes]]\nprovider = "openai"\nattempts = 1', True, True),
        (chain("openai", "google"), True, True),
    ],
)
def test_what_is_not_asked_for_costs_nothing(config, toml, has_plan, skips_limited):
    plan = build_router(config(toml), KEYS).choose(read(Request(body=CHAT))).plan
    assert (plan is not None) == has_plan
    assert (plan is not None and plan.skips_limited) == skips_limited


@pytest.mark.parametrize(
    ("base", "asked", "expected"),
    [
        ("https://h/v1beta/openai", "/v1/chat/completions", "/v1beta/openai/chat/completions"),
        ("https://h/api/v3", "/v1/responses", "/api/v3/responses"),
        ("https://h/v1/acct/openai", "/v1/embeddings", "/v1/acct/openai/embeddings"),
        ("https://h/v1/acct/anthropic", "/v1/messages", "/v1/acct/anthropic/v1/messages"),
        ("https://h/openai", "/v1/chat/completions", "/openai/v1/chat/completions"),
    ],
)
def test_of_two_versions_in_an_openai_path_the_providers_counts(base, asked, expected):
    assert Provider("p", base).target(asked.encode()).decode() == expected


@pytest.mark.parametrize("name", ["plain", "with space", "naïve", "two\r\nlines: x"])
def test_any_name_of_a_provider_makes_a_header(name):
    value = Provider(name, "http://h").field[1]
    assert value.decode("ascii").isprintable()
