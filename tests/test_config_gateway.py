"""The gateway's settings: where it listens, where it forwards to, what it accepts."""

import pytest

from looptrap.config import load
from looptrap.config.kind import Address
from looptrap.errors import ConfigError


def config(tmp_path, toml="", env=None, flags=None):
    file = tmp_path / "looptrap.toml"
    file.write_text(toml)
    return load(file, env=env or {}, flags=flags or {})


def problems(tmp_path, toml="", **layers):
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, toml, **layers)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:4100", Address("127.0.0.1", 4100)),
        ("[::1]:80", Address("::1", 80)),
        ("localhost:0", Address("localhost", 0)),
    ],
)
def test_addresses(tmp_path, text, address):
    listen = config(tmp_path, f'gateway.listen = "{text}"').gateway.listen
    assert listen == address
    assert str(listen) == text


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ('gateway.listen = "4100"', 'gateway.listen: is the text "4100", must be an address'),
        ('gateway.listen = "::1:80"', 'gateway.listen: is the text "::1:80", must be an address'),
        ('gateway.listen = "h:70000"', "gateway.listen: is the text"),
        ("gateway.listen = 4100", "gateway.listen: is 4100, must be an address"),
        ('gateway.upstream = "ftp://x"', "gateway.upstream: "),
        ('gateway.upstream = "http://"', "gateway.upstream: "),
        ('gateway.upstream = "https://user:pw@host"', "gateway.upstream: "),
        ('gateway.max_body = "32 pounds"', "gateway.max_body: is the text"),
        ('gateway.max_body = "1TB"', "gateway.max_body: is the text"),
        ("gateway.max_body = 10", "gateway.max_body: is 10, must be a size"),
        ("gateway.workers = 0", "gateway.workers: is 0, must be 1 or more"),
        ('gateway.tls_cert = "c.pem"', "gateway: has tls_cert without tls_key, needs both"),
        ("gateway.idle_timeout = 0", "gateway.idle_timeout: is 0, must be more than 0"),
        (
            'gateway.allowed_origins = ["https://a.example/path"]',
            'gateway.allowed_origins[0]: is the text "https://a.example/path", must be an origin',
        ),
        ('gateway.allowed_origins = ["*"]', 'gateway.allowed_origins[0]: is the text "*"'),
        ('gateway.allowed_origins = ["null"]', 'gateway.allowed_origins[0]: is the text "null"'),
        ("gateway.lisen = 1", "gateway.lisen: is not a setting, did you mean listen?"),
        ('[[routes]]\nprovider = "opnai"', 'routes[0].provider: is the text "opnai", must be'),
        ('[[providers]]\nname = "x"', "providers[0]: has no base_url"),
    ],
)
def test_mistakes_say_where_and_what(tmp_path, toml, problem):
    (found,) = problems(tmp_path, toml)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("text", "size"), [('"32MB"', 32 << 20), ('"16 kb"', 16 << 10), ("4096", 4096)]
)
def test_sizes_take_units(tmp_path, text, size):
    assert config(tmp_path, f"gateway.max_body = {text}").gateway.server_limits.max_body == size


def test_environment_beats_the_file_and_flags_beat_both(tmp_path):
    toml = 'gateway.listen = "127.0.0.1:1"\ngateway.admin = "127.0.0.1:2"\ngateway.max_body = "1MB"'
    env = {"LOOPTRAP_ADMIN": "127.0.0.1:3", "LOOPTRAP_LISTEN": "127.0.0.1:4"}
    found = config(tmp_path, toml, env=env, flags={"listen": "127.0.0.1:5"})
    assert [found.gateway.listen.port, found.gateway.admin.port] == [5, 3]
    origins = {place: origin for place, _, origin in found.effective()}
    assert origins["gateway.listen"] == "--listen"
    assert origins["gateway.admin"] == "LOOPTRAP_ADMIN"
    assert origins["gateway.max_body"] == "looptrap.toml"
    assert origins["gateway.grace"] == "default"


def test_clients_and_operators_have_an_address_each(tmp_path):
    (problem,) = problems(tmp_path, flags={"listen": "127.0.0.1:5", "admin": "127.0.0.1:5"})
    assert problem == "gateway.admin: is the address of gateway.listen, must be one of its own"


def test_a_flag_in_the_environment_is_true_or_false(tmp_path):
    assert config(tmp_path, env={"LOOPTRAP_ALLOW_ANONYMOUS": "true"}).gateway.allow_anonymous
    (problem,) = problems(tmp_path, env={"LOOPTRAP_ALLOW_ANONYMOUS": "perhaps"})
    assert problem.startswith('LOOPTRAP_ALLOW_ANONYMOUS: is the text "perhaps", must be true')


def test_a_mistake_in_a_flag_names_the_flag(tmp_path):
    (problem,) = problems(tmp_path, flags={"upstream": "nowhere"})
    assert problem.startswith("--upstream: ")
