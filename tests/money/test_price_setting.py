"""Prices in a configuration: what is read, and how mistakes are told."""

import tomllib

import pytest

from looptrap.config.setting import CONFIG
from looptrap.errors import ConfigError
from looptrap.money.price import PriceSettings
from looptrap.schema import read

FILE = """
[prices."gpt-4.1"]
input = 2
output = 8.5
cached_input = 0.5
cache_write = 0
audio_input = 40
audio_output = 80
context_window = 1000000

[prices."my-*"]
input = 0
output = 0

[price_fallback]
input = 5
output = 25
"""


def config(text):
    return read(CONFIG, tomllib.loads(text))


def test_prices_are_read_and_written_back():
    read_once = config(FILE)
    assert read_once.prices == {
        "gpt-4.1": PriceSettings(
            input=2,
            output=8.5,
            cached_input=0.5,
            cache_write=0,
            audio_input=40,
            audio_output=80,
            context_window=1_000_000,
        ),
        "my-*": PriceSettings(input=0, output=0),
    }
    assert read_once.price_fallback == PriceSettings(input=5, output=25)
    assert read(CONFIG, CONFIG.plain(read_once)) == read_once


def test_there_are_no_prices_of_ones_own_unless_they_are_set():
    assert (config("").prices, config("").price_fallback) == ({}, None)


def test_every_price_in_effect_is_told():
    places = {place for place, _, _ in config(FILE).effective()}
    assert {'prices."gpt-4.1".cached_input', "price_fallback.output"} <= places


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        pytest.param(
            "[prices.gpt-4.1]\ninput = 2\noutput = 8",
            [
                "prices.gpt-4: holds a table, must be a price; the name of a model with a dot in it"
                ' stands in quotes: [prices."gpt-4.1"]'
            ],
            id="a dot without quotes",
        ),
        pytest.param(
            "[prices.m]\ninput = 2",
            ["prices.m: has no output, needs dollars a million tokens, 0 to 1000000"],
            id="half a price",
        ),
        pytest.param(
            "[price_fallback]\noutput = 2",
            ["price_fallback: has no input, needs dollars a million tokens, 0 to 1000000"],
            id="half a fallback",
        ),
        pytest.param(
            "[prices.m]\ninput = -1\noutput = nan",
            [
                "prices.m.input: is -1, must be 0 or more",
                "prices.m.output: is nan, must be 0 or more",
            ],
            id="below zero, and no number",
        ),
        pytest.param(
            '[prices.m]\ninput = "$2"\noutput = inf',
            [
                'prices.m.input: is the text "$2", must be a number',
                "prices.m.output: is inf, must be 1000000 or less",
            ],
            id="a text, and without end",
        ),
        pytest.param(
            "[prices.m]\ninput = 2\noutput = 8\ncached = 1",
            ["prices.m.cached: is not a setting, did you mean cached_input?"],
            id="another name",
        ),
        pytest.param(
            "[prices.m]\ninput = 2\noutput = 8\ncontext_window = 0",
            ["prices.m.context_window: is 0, must be 1 or more"],
            id="no window",
        ),
        pytest.param(
            "[prices]\ninput = 2",
            ["prices.input: is 2, must be a table"],
            id="no model",
        ),
        pytest.param(
            '[prices.""]\ninput = 2\noutput = 8',
            ['prices."": is the text "", must be the name of a model'],
            id="an empty name",
        ),
        pytest.param(
            "prices = 3",
            ["prices: is 3, must be a table of models and their prices"],
            id="no table",
        ),
    ],
)
def test_a_mistake_says_where_it_is_and_what_is_allowed(text, mistakes):
    with pytest.raises(ConfigError) as raised:
        config(text)
    assert [str(problem) for problem in raised.value.problems] == mistakes
