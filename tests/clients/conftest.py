"""A running gateway in front of a fake provider."""

import pytest
from tests.clients.serving import RunningGateway, running_gateway

from looptrap.config import load
from looptrap.testing import FakeProvider


@pytest.fixture
def provider():
    with FakeProvider.running() as provider:
        yield provider


@pytest.fixture
def serve(tmp_path, provider):
    """Start a gateway in front of the provider, with the TOML given."""
    stack = []

    def start(toml: str = "", env=None, **flags) -> RunningGateway:
        file = tmp_path / "looptrap.toml"
        file.write_text(toml)
        flags = {"listen": "127.0.0.1:0", "upstream": provider.url, **flags}
        config = load(file, env={}, flags={**flags, "state": str(tmp_path / "state")})
        context = running_gateway(config, env)
        stack.append(context)
        return context.__enter__()

    yield start
    for context in reversed(stack):
        context.__exit__(None, None, None)


@pytest.fixture
def gateway(serve):
    return serve()
