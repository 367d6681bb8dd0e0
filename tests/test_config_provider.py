"""Settings of providers: kinds, keys, and providers without keys."""

from pathlib import Path

import pytest
from tests.gateway.serving import CHAT, JSON, chat
from tests.gateway.upstream_serving import attempting

from looptrap.config import load
from looptrap.config.provider import KINDS, WELL_KNOWN
from looptrap.errors import ConfigError
from looptrap.gateway.provider import Provider
from looptrap.testing import Reply


@pytest.fixture
def config(tmp_path):
    def read(toml):
        file = tmp_path / "looptrap.toml"
        file.write_text(toml)
        return load(file)

    return read


def provider(**settings):
    lines = [f"{name} = {value!r}" for name, value in settings.items()]
    return "\n".join(["[[providers]]", *lines]).replace("True", "true").replace("'", '"')


def test_a_kind_gives_what_the_table_does_not_say(config):
    url = "https://corp.openai.azure.com/openai/v1"
    (azure,) = config(provider(name="a", kind="azure", base_url=url)).providers
    assert azure.base_url == (url,)
    assert azure.auth == "api-key"
    assert azure.api_key_env == ("AZURE_OPENAI_API_KEY",)
    assert "openai_responses" in azure.speaks


def test_the_table_goes_before_its_kind(config):
    toml = provider(name="a", kind="vllm", auth="bearer", api_key_env="K", base_url="http://b")
    (vllm,) = config(toml).providers
    assert (vllm.auth, vllm.api_key_env, vllm.base_url) == ("bearer", ("K",), ("http://b",))


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        pytest.param(
            provider(name="a", kind="azure"),
            'providers[0]: has no base_url, needs a base URL such as "https://api.openai.com/v1"',
            id="an address that only the operator knows",
        ),
        pytest.param(
            provider(name="a", kind="azur", base_url="http://b"),
            "providers[0].kind: is the text",
            id="an unknown kind",
        ),
        pytest.param(
            provider(name="a", base_url="http://b", auth="none", api_key_env="K"),
            'providers[0].api_key_env: names a key, which auth = "none" never sends',
            id="a key that is never sent",
        ),
    ],
)
def test_mistakes_are_named(config, toml, message):
    with pytest.raises(ConfigError) as caught:
        config(toml)
    assert message in str(caught.value)


def test_a_kind_without_keys_forgets_the_key_of_the_kind(config):
    (openai,) = config(provider(name="a", kind="openai", auth="none")).providers
    assert openai.api_key_env is None


@pytest.mark.parametrize("name", sorted({*WELL_KNOWN} - {"anthropic", "gemini"}))
def test_calls_reach_the_documented_address(name):
    base = WELL_KNOWN[name].base_url[0]
    path = "/" + base.split("/", 3)[3] + "/chat/completions"
    assert Provider(name, base).target(b"/v1/chat/completions").decode() == path


@pytest.mark.parametrize(
    ("base_url", "target"),
    [
        ("https://r.openai.azure.com/openai/v1", b"/openai/v1/chat/completions"),
        (
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
            b"/openai/v1/chat/completions",
        ),
        (
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/endpoints/openapi",
            b"/v1/projects/p/locations/eu/endpoints/openapi/chat/completions",
        ),
    ],
    ids=["azure", "bedrock", "vertex"],
)
def test_a_client_of_openai_reaches_endpoints_of_clouds(base_url, target):
    assert Provider("cloud", base_url).target(b"/v1/chat/completions") == target


def test_every_kind_is_documented():
    page = Path(__file__).parents[1].joinpath("docs/fallback.md").read_text()
    for name, known in KINDS.items():
        assert f"| `{name}` |" in page
        for value in (known.get("base_url"), known.get("api_key_env")):
            assert value is None or value in page or name == "google"


CHAIN = '[[routes]]\nselect = { path_prefix = "/v1/" }\nchain = ["one", "local"]\n'
LOCAL = '[[providers]]\nname = "local"\nbase_url = "{local}"\nauth = "none"\n'


async def test_a_provider_without_keys_is_allowed_in_a_chain(tmp_path):
    scripts = {"one": lambda _: Reply.status(503), "local": [Reply.text("ok")]}
    async with attempting(tmp_path, CHAIN, scripts=scripts, providers=LOCAL) as here:
        answer = await here.ask(chat(), headers={"Authorization": "Bearer sk-mine"})
        assert answer.headers[b"x-looptrap-provider"] == b"local"
        (sent,) = here.providers["local"].requests
        assert "authorization" not in {name.lower() for name in sent.headers}


async def test_a_caller_with_a_gateway_key_needs_no_other_key_there(tmp_path):
    route = '[[routes]]\nprovider = "local"\n'
    scripts = {"local": [Reply.text("ok")]}
    async with attempting(tmp_path, route, scripts=scripts, providers=LOCAL) as here:
        key = {"Authorization": f"Bearer {here.gateway.add_key()}"}
        assert (await here.gateway.ask("POST", CHAT, JSON | key, chat())).status == 200
        (sent,) = here.providers["local"].requests
        assert "authorization" not in {name.lower() for name in sent.headers}


def test_the_name_of_auth_in_version_0_1_is_still_read(tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text(
        '[[providers]]\nname = "own"\nbase_url = "https://own.example"\ncredential = "x-api-key"\n'
    )
    [provider] = load(file).providers
    assert provider.auth == "x-api-key"
