"""Routes: the path, the model and the headers of a call say which provider gets it, and where."""

import msgspec
import pytest
from tests.gateway.serving import CHAT, JSON, chat

from looptrap.config import load
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.gateway.auth import Authenticator
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.provider import Provider
from looptrap.gateway.router import build_router

OPENAI = ("openai", "https", "api.openai.com")
ANTHROPIC = ("anthropic", "https", "api.anthropic.com")
GEMINI = ("gemini", "https", "generativelanguage.googleapis.com")


def call_of(path, method="POST", headers=(), body=b"{}"):
    return read(Request(method=method, path=path, query="", headers=list(headers), body=body))


@pytest.mark.parametrize(
    ("method", "path", "headers", "expected"),
    [
        ("POST", "/v1/chat/completions", [], OPENAI),
        ("POST", "/v1/completions", [], OPENAI),
        ("POST", "/v1/responses", [], OPENAI),
        ("GET", "/v1/responses/resp_1", [], OPENAI),
        ("POST", "/v1/embeddings", [], OPENAI),
        ("GET", "/v1/models", [], OPENAI),
        ("GET", "/v1/models/ft:gpt-4.1:acme::7p4lURel", [], OPENAI),
        ("DELETE", "/v1/models/ft:gpt-4.1:acme::7p4lURel", [], OPENAI),
        ("POST", "/v1/audio/speech", [], OPENAI),
        ("POST", "/v1/anything/new", [], OPENAI),
        ("POST", "/v1/messages", [], ANTHROPIC),
        ("POST", "/v1/messages/count_tokens", [], ANTHROPIC),
        ("POST", "/v1/messages/batches", [], ANTHROPIC),
        ("GET", "/v1/models", [(b"anthropic-version", b"2023-06-01")], ANTHROPIC),
        ("POST", "/v1beta/models/gemini-3.1-pro:generateContent", [], GEMINI),
        ("POST", "/v1beta/models/gemini-3.1-pro:streamGenerateContent", [], GEMINI),
        ("GET", "/v1beta/models", [], GEMINI),
        ("POST", "/v1/models/gemini-3.1-pro:generateContent", [], GEMINI),
        ("POST", "/v1/models/gemini-3.1-pro:countTokens", [], GEMINI),
        ("POST", "/upload/v1beta/files", [], GEMINI),
    ],
)
def test_without_configuration_the_path_names_the_provider(method, path, headers, expected):
    provider = build_router(load(env={}), {}).choose(call_of(path, method, headers)).provider
    assert (provider.name, provider.origin.scheme, provider.origin.host) == expected


@pytest.mark.parametrize("path", ["/", "/v2/chat", "/chat/completions", "/v1", "/favicon.ico"])
def test_no_provider_is_made_up_for_an_unknown_path(path):
    assert build_router(load(env={}), {}).choose(call_of(path)) is None


@pytest.mark.parametrize(
    ("base", "asked", "expected"),
    [
        pytest.param("http://h", "/v1/x", "/v1/x", id="a bare host"),
        pytest.param("http://h/", "/v1/x", "/v1/x", id="a closing slash"),
        pytest.param("http://h/v1", "/v1/x", "/v1/x", id="v1 is not doubled"),
        pytest.param("http://h/v1/", "/v1/x", "/v1/x", id="v1 with a slash is not doubled"),
        pytest.param("http://h/v1", "/v1", "/v1", id="v1 alone"),
        pytest.param("http://h/v1", "/v1beta/x", "/v1/v1beta/x", id="v1beta is not v1"),
        pytest.param("http://h/v1", "/v10/x", "/v1/v10/x", id="v10 is not v1"),
        pytest.param("http://h/api/v1", "/v1/x", "/api/v1/x", id="a prefix before v1"),
        pytest.param("http://h/api/v1", "/api/v1/x", "/api/v1/x", id="the whole prefix sent"),
        pytest.param("http://h/a/b", "/v1/x", "/a/b/v1/x", id="nothing shared"),
        pytest.param("http://h/v1", "/", "/v1/", id="the root"),
        pytest.param("http://h", "/v1/x?a=1&b=%20", "/v1/x?a=1&b=%20", id="the query as sent"),
    ],
)
def test_what_base_and_path_share_is_not_doubled(base, asked, expected):
    assert Provider("p", base).target(asked.encode()).decode() == expected


@pytest.mark.parametrize("base", ["", "/v1", "/api/v1", "/api/v1/"])
async def test_one_upstream_gets_everything_under_its_base(serve, base):
    here = await serve(upstream="{url}" + base)
    for method, target in [("POST", CHAT), ("GET", "/v1/models?limit=5"), ("POST", "/v1/messages")]:
        assert (await here.ask(method, target, JSON, chat())).status == 200
    prefix = base.rstrip("/").removesuffix("/v1")
    assert [one.target for one in here.provider.requests] == [
        f"{prefix}{CHAT}",
        f"{prefix}/v1/models?limit=5",
        f"{prefix}/v1/messages",
    ]


ROUTED = """
[[providers]]
name = "local"
base_url = "{url}/local/v1"

[[providers]]
name = "canary"
base_url = "{url}/canary"

[[providers]]
name = "openai"
base_url = "{url}/openai/v1"

[[routes]]
select = { headers = { x-canary = "*" } }
provider = "canary"

[[routes]]
select = { models = ["llama-*", "qwen?"] }
provider = "local"
"""


@pytest.mark.parametrize(
    ("model", "headers", "expected"),
    [
        pytest.param("llama-4", {}, f"/local{CHAT}", id="by model, wild"),
        pytest.param("qwen3", {}, f"/local{CHAT}", id="by model, one letter"),
        pytest.param("gpt-5.3", {}, f"/openai{CHAT}", id="a well-known provider moved"),
        pytest.param("llama-4", {"X-Canary": "yes"}, f"/canary{CHAT}", id="the first route wins"),
    ],
)
async def test_routes_choose_by_model_and_header(serve, model, headers, expected):
    here = await serve(ROUTED, upstream=None)
    body = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "hi"}]})
    assert (await here.ask(headers=JSON | headers, body=body)).status == 200
    (received,) = here.provider.requests
    assert received.target == expected
    assert received.body == body


async def test_own_routes_come_before_the_one_upstream(serve):
    here = await serve(ROUTED, upstream="http://127.0.0.1:9")
    await here.ask(headers=JSON | {"X-Canary": "1"}, body=chat())
    assert here.provider.requests[0].target == f"/canary{CHAT}"


async def test_an_unknown_path_is_a_404_in_words(serve):
    here = await serve(upstream=None)
    answer = await here.ask("GET", "/v2/surprise?secret=1")
    assert answer.status == 404
    error = msgspec.json.decode(answer.body)["error"]
    assert error["code"] == "unknown_route"
    assert error["message"].startswith("No provider answers /v2/surprise. Point clients at /v1")
    assert "secret" not in answer.body.decode()


GATEWAY_ROUTES = """
[[providers]]
name = "azure"
base_url = "https://corp.openai.azure.com/openai"
auth = "api-key"

[[providers]]
name = "portal"
base_url = "https://portal.example/v1"
auth = "api-key"

[[providers]]
name = "relay"
base_url = "https://relay.example"
"""
AZURE = '[[routes]]\nselect = { path_prefix = "/azure/" }\nprovider = "azure"\n'
PORTAL = '[[routes]]\nprovider = "portal"\n'
RELAY = '[[routes]]\nprovider = "relay"\n'
BY_MODEL = '[[routes]]\nselect = { models = ["m"] }\nprovider = "azure"\n'
BOTH = [(b"authorization", b"Bearer a"), (b"x-api-key", b"x"), (b"api-key", b"k")]
BOTH += [(b"x-goog-api-key", b"g")]
MESSAGES, GEMINI_PATH = "/v1/messages", "/v1beta/models/g:generateContent"


@pytest.mark.parametrize(
    ("routes", "upstream", "path", "expected", "forwarded"),
    [
        pytest.param("", None, CHAT, b"a", {"authorization"}, id="OpenAI"),
        pytest.param("", None, MESSAGES, b"x", {"x-api-key"}, id="Anthropic"),
        pytest.param("", None, GEMINI_PATH, b"g", {"x-goog-api-key"}, id="Gemini"),
        pytest.param(AZURE, None, "/azure/chat/completions", b"k", {"api-key"}, id="Azure"),
        pytest.param(PORTAL, None, CHAT, b"k", "all", id="as the provider's settings say"),
        pytest.param(RELAY, None, MESSAGES, b"a", "all", id="a provider that wants a bearer token"),
        pytest.param(BY_MODEL, None, MESSAGES, b"x", "all", id="by model: as the dialect has it"),
        pytest.param("", "https://u.example", CHAT, b"a", "all", id="an upstream, chat"),
        pytest.param("", "https://u.example", MESSAGES, b"x", "all", id="an upstream, messages"),
        pytest.param("", "https://u.example", GEMINI_PATH, b"g", "all", id="an upstream, Gemini"),
        pytest.param("", "https://u.example", "/mcp", b"a", "all", id="an upstream, another path"),
        pytest.param("", "https://api.openai.com", CHAT, b"a", {"authorization"}, id="by its host"),
    ],
)
def test_who_calls_is_the_credential_that_the_provider_reads(
    tmp_path, routes, upstream, path, expected, forwarded
):
    file = tmp_path / "looptrap.toml"
    file.write_text(GATEWAY_ROUTES + routes)
    config = load(file, env={}, flags={"upstream": upstream} if upstream else {})
    by = Authenticator(KeyRing(), secret=bytes(32), carriers=build_router(config, {}).carriers)
    alone = by.identify([(b"authorization", b"Bearer " + expected)], CHAT.encode(), "::1")
    found = by.identify(BOTH, path.encode(), "::1")
    assert found.caller == alone.caller
    names = {name.decode() for name, _ in BOTH} - {name.decode() for name in found.drop}
    assert names == ({name.decode() for name, _ in BOTH} if forwarded == "all" else forwarded)


async def test_junk_beside_the_credential_escapes_no_count(serve):
    here = await serve()
    statuses = []
    for i in range(12):
        junk = {"api-key": f"j{i}", "x-api-key": f"j{i}", "x-goog-api-key": f"j{i}"}
        headers = JSON | {"Authorization": "Bearer sk-real"} | junk
        answer = await here.ask(target=f"{CHAT}?key=j{i}", headers=headers, body=chat())
        statuses.append(answer.status)
    assert statuses[0] == 200
    assert statuses[-1] != 200
