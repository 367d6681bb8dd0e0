"""Chains of providers and models."""

import pytest

from looptrap.errors import ConfigError
from looptrap.retry.policy import Chain, Link


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("anthropic/claude-opus-4-7", "anthropic", "claude-opus-4-7"),
        ("anthropic", "anthropic", None),
        ("openrouter/meta/llama-4", "openrouter", "meta/llama-4"),
    ],
)
def test_a_link_by_its_name(name, provider, model):
    link = Link.parse(name)
    assert (link.provider, link.model, link.name) == (provider, model, name)


@pytest.mark.parametrize("name", ["", "/gpt", "openai/"])
def test_half_a_name_is_refused(name):
    with pytest.raises(ConfigError, match="neither 'provider/model' nor 'provider'"):
        Link.parse(name)


def test_a_chain_has_an_order_and_at_least_one_link():
    assert [link.name for link in Chain.of("a/x", "b").links] == ["a/x", "b"]
    with pytest.raises(ConfigError, match="at least one"):
        Chain.of()
