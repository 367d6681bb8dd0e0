"""What models cost: by the operator's word, by what providers list, by a fallback, or unknown."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import Usage as ListedUsage
from genai_prices.data_snapshot import get_snapshot
from hypothesis import example, given
from hypothesis import strategies as st

from looptrap.dialect.model import NO_USAGE, Usage
from looptrap.money.listed import FREE, Listed, price_of
from looptrap.money.price import (
    MAX_CACHED_NAMES,
    MAX_NAME_CHARS,
    NANO,
    REFRESH_S,
    Price,
    Prices,
    PriceSettings,
)
from looptrap.store.model import UNLIMITED

NOW = datetime(2026, 10, 14, 12, tzinfo=UTC).timestamp()
MILLION = 1_000_000
INPUT, OUTPUT = Usage(MILLION), Usage(0, MILLION)
CHEAP, DEAR = PriceSettings(input=1, output=2), PriceSettings(input=30, output=60)


@pytest.fixture(scope="module")
def prices():
    return Prices()


def dollars(price, usage):
    """Return what that costs, or None without a price."""
    return None if price is None else price.cost(usage) / NANO


# What one usage costs

FULL = PriceSettings(
    input=10, output=100, cached_input=1, cache_write=20, audio_input=40, audio_output=400
)


@pytest.mark.parametrize(
    ("settings", "usage", "nano"),
    [
        pytest.param(FULL, NO_USAGE, 0, id="nothing"),
        pytest.param(FULL, Usage(3, 2), 3 * 10_000 + 2 * 100_000, id="input and output"),
        pytest.param(FULL, Usage(10, 0, cached_tokens=4), 64_000, id="partly cached"),
        pytest.param(FULL, Usage(10, 0, 4, cache_write_tokens=6), 124_000, id="read and written"),
        pytest.param(FULL, Usage(10, 0, audio_input_tokens=4), 220_000, id="partly heard"),
        pytest.param(FULL, Usage(0, 5, audio_output_tokens=4), 1_700_000, id="partly spoken"),
        pytest.param(FULL, Usage(0, 5, reasoning_tokens=4), 500_000, id="thoughts are output"),
        pytest.param(
            FULL, Usage(10, 0, 10, audio_input_tokens=10), 10_000, id="all of the audio cached"
        ),
        pytest.param(FULL, Usage(10, 0, 99), 10_000, id="more cached than there was"),
        pytest.param(
            CHEAP, Usage(10, 10, 5, 5, 5, 3, 3), 30_000, id="what has no price of its own"
        ),
        pytest.param(
            PriceSettings(input=0.0001, output=0.0), Usage(1), 1, id="rounded up to a nano-dollar"
        ),
        pytest.param(
            PriceSettings(input=2.007, output=0), Usage(1), 2007, id="not rounded up for noise"
        ),
        pytest.param(PriceSettings(input=0, output=0), Usage(MILLION, MILLION), 0, id="free"),
    ],
)
def test_a_usage_costs_what_its_tokens_cost(settings, usage, nano):
    assert Price.from_settings(settings).cost(usage) == nano


@pytest.mark.parametrize(
    "usage",
    [Usage(10**400), Usage(0, 10**400, reasoning_tokens=7), Usage(10**18, 10**18)],
    ids=["input", "output", "more than can be counted"],
)
def test_no_usage_costs_more_than_the_largest_limit(usage):
    assert Price.from_settings(DEAR).cost(usage) == UNLIMITED


# As providers list it: the same as the data's own reckoning, which is much slower

MODELS = [
    pytest.param(provider, info, id=f"{provider.id}/{info.id}")
    for provider in get_snapshot().providers
    for info in provider.models
]
TIMES = [
    datetime(2024, 1, 31, 23, 59, tzinfo=UTC),
    datetime(2025, 8, 20, 0, 40, tzinfo=UTC),
    datetime(2026, 10, 14, 2, 0, tzinfo=UTC),
    datetime(2027, 1, 1, 16, 45, tzinfo=UTC),
]

counts = st.integers(0, 50_000) | st.sampled_from(
    [1, 32_000, 32_001, 128_001, 199_999, 200_000, 200_001, 272_001, 600_000]
)


@st.composite
def usages(draw):
    """Return a usage whose parts do not overlap."""
    text, cached_input, cache_write, audio_input = (
        draw(counts),
        draw(counts),
        draw(counts),
        draw(counts),
    )
    said, reasoning, audio_output = draw(counts), draw(counts), draw(counts)
    return Usage(
        text + cached_input + cache_write + audio_input,
        said + reasoning + audio_output,
        cached_input,
        reasoning,
        cache_write,
        audio_input,
        audio_output,
    )


def listed_cost(info, usage, when):
    """Return what the data itself makes of a usage, in nano-dollars."""
    given = ListedUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        input_audio_tokens=usage.audio_input_tokens,
        output_audio_tokens=usage.audio_output_tokens,
        output_reasoning_tokens=usage.reasoning_tokens,
        cache_audio_read_tokens=0,
    )
    return info.get_prices(when).calc_price(given)["total_price"] * NANO


@given(st.sampled_from([one.values for one in MODELS]), st.sampled_from(TIMES), usages())
def test_any_model_costs_what_is_listed(model, when, usage):
    price = price_of(model[1], when)
    if price is not None:
        assert 0 <= price.cost(usage) - listed_cost(model[1], usage, when) <= Decimal("1.01")


USAGES = [
    Usage(1000, 100),
    Usage(30_000, 2_000, 20_000, 1_500, 5_000, 1_000, 300),
    Usage(300_000, 2_000, 100_000, 500, 50_000),
    Usage(700_000, 0, 600_000),
]


def test_every_model_costs_what_is_listed():
    wrong = [
        one.id
        for one in MODELS
        for usage in USAGES
        if (price := price_of(one.values[1], TIMES[2])) is not None
        and not -0.1 < price.cost(usage) - float(listed_cost(one.values[1], usage, TIMES[2])) < 1.1
    ]
    assert wrong == []


def test_only_what_is_not_paid_by_the_token_is_unpriced():
    for one in MODELS:
        info = one.values[1]
        listed = info.get_prices(TIMES[2])
        assert (price_of(info, TIMES[2]) is None) == (
            listed.input_mtok is None and not info.id.endswith(FREE)
        )


def test_tiers_change_the_price_of_all_tokens(prices):
    price = prices.of("gemini-2.5-pro", "google", NOW)
    below, above = price.cost(Usage(200_000)), price.cost(Usage(200_001))
    assert (below / 200_000, above / 200_001) == (1250, 2500)


# Whose price it is


@pytest.mark.parametrize(
    ("model", "provider", "expected"),
    [
        pytest.param("gpt-4o", "openai", 2.5, id="plain"),
        pytest.param("gpt-4o-2024-08-06", "openai", 2.5, id="with a date"),
        pytest.param("GPT-4o", "openai", 2.5, id="in capitals"),
        pytest.param("gpt-4o", "", 2.5, id="no provider"),
        pytest.param("gpt-4o", "my own proxy", 2.5, id="a provider nobody knows"),
        pytest.param("claude-opus-4-7", "openai", 5.0, id="what that provider does not list"),
        pytest.param("claude-sonnet-4-5@20250929", "google", 3.0, id="as Vertex writes it"),
        pytest.param("claude-sonnet-4-5@20250929", "anthropic", 3.0, id="so elsewhere"),
        pytest.param(
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", 3.3, id="as Bedrock does"
        ),
        pytest.param("models/gemini-2.5-flash", "gemini", 0.3, id="models/"),
        pytest.param(
            "projects/p/locations/l/publishers/google/models/gemini-2.5-flash",
            "google",
            0.3,
            id="all of a path",
        ),
        pytest.param("openai/gpt-4o", "", 2.5, id="with its provider"),
        pytest.param("openai/gpt-4o", "litellm", 2.5, id="with its provider, through another"),
        pytest.param("openai/gpt-4o", "openrouter", 2.5, id="a name of OpenRouter"),
        pytest.param("gemini/gemini-2.5-flash", "", 0.3, id="with another name of its provider"),
        pytest.param(
            "accounts/fireworks/models/llama-v3p1-8b-instruct", "fireworks", 0.2, id="accounts/…"
        ),
        pytest.param("my-finetune", "openai", None, id="nobody's"),
        pytest.param("gpt-4o-of-mine", "openai", None, id="almost one"),
        pytest.param("mine/gpt-4o", "", None, id="a prefix that is no provider"),
        pytest.param("whisper-1", "openai", None, id="paid by the hour"),
        pytest.param("gpt-4o" + "x" * MAX_NAME_CHARS, "openai", None, id="too long a name"),
        pytest.param("", "openai", None, id="no model"),
        pytest.param("", "", None, id="nothing at all"),
    ],
)
def test_a_name_leads_to_a_price_or_to_none(prices, model, provider, expected):
    short = Usage(100_000)
    price = prices.of(model, provider, NOW)
    assert dollars(price, short) == (None if expected is None else pytest.approx(expected / 10))


def test_a_free_model_costs_nothing_and_an_unknown_one_has_no_price(prices):
    free = prices.of("deepseek/deepseek-r1:free", "openrouter", NOW)
    assert dollars(free, Usage(MILLION, MILLION)) == 0
    assert prices.of("deepseek/no-such:free", "openrouter", NOW) is None


def test_the_context_window_is_known_where_it_is_listed(prices):
    assert prices.of("gpt-4o", "openai", NOW).context_window == 128_000


names = st.text() | st.sampled_from(["/", "models/", "openai/", "\ud800", "*", "[", "a" * 999])


@given(names, names)
@example("openai//", "")
@example("models/models/", "\x00")
def test_whatever_is_asked_for_is_answered(prices, model, provider):
    price = prices.of(model, provider, NOW)
    assert price is None or price.cost(INPUT) >= 0


# What the operator says


@pytest.mark.parametrize(
    ("overrides", "model", "provider", "expected"),
    [
        pytest.param({"mine": DEAR}, "mine", "openai", 30, id="a model of one's own"),
        pytest.param({"gpt-4o": DEAR}, "gpt-4o", "openai", 30, id="goes before the list"),
        pytest.param({"gpt-4o": DEAR}, "gpt-4o-mini", "openai", 0.15, id="only that one"),
        pytest.param({"ft:*": DEAR}, "ft:gpt-4o:org::id", "openai", 30, id="any ending"),
        pytest.param({"v?": DEAR}, "v2", "", 30, id="any character"),
        pytest.param({"v?": DEAR}, "v22", "", None, id="one character"),
        pytest.param({"*": CHEAP, "gpt-4o": DEAR}, "gpt-4o", "", 30, id="exact first"),
        pytest.param({"g*": DEAR, "*": CHEAP}, "gpt-4o", "", 30, id="then in order"),
        pytest.param({"[m]": DEAR}, "[m]", "", 30, id="brackets are plain"),
        pytest.param({"[m]*": DEAR}, "m1", "", None, id="brackets are plain beside a star"),
        pytest.param({"azure/gpt-4o": DEAR}, "gpt-4o", "azure", 30, id="at one provider"),
        pytest.param({"azure/*": DEAR}, "gpt-4o", "openai", 2.5, id="not at the others"),
        pytest.param({"azure/*": DEAR}, "azure/gpt-4o", "", 30, id="as the client writes it"),
    ],
)
def test_overrides_go_before_what_is_listed(overrides, model, provider, expected):
    assert dollars(Prices(overrides).of(model, provider, NOW), INPUT) == expected


def test_the_fallback_is_for_what_has_no_other_price():
    prices = Prices({"mine": DEAR}, CHEAP)
    asked = ["mine", "gpt-4o", "nobody's", "x" * 999, ""]
    found = [dollars(prices.of(model, "", NOW), OUTPUT) for model in asked]
    assert found == [60, 10, 2, 2, 2]


# What is remembered


def test_the_same_question_gets_the_same_price_object(prices):
    assert prices.of("gpt-4o", "openai", NOW) is prices.of("gpt-4o", "openai", NOW + 1)


def test_a_price_changes_with_the_time_of_day():
    prices = Prices()
    noon, evening = (datetime(2025, 3, 1, hour, 30, tzinfo=UTC).timestamp() for hour in (12, 16))
    day = dollars(prices.of("deepseek-chat", "deepseek", noon), INPUT)
    last = dollars(prices.of("deepseek-chat", "deepseek", evening - 1), INPUT)
    night = dollars(prices.of("deepseek-chat", "deepseek", evening), INPUT)
    assert (day, last, night) == (0.27, 0.27, 0.135)
    assert evening % REFRESH_S == 0


def test_made_up_names_take_no_room_from_those_that_have_a_price():
    prices = Prices({"my-own": CHEAP})
    for number in range(3 * MAX_CACHED_NAMES):
        assert prices.of(f"made-up-{number}", "p", NOW) is None
        prices.of(f"gpt-4o-audio-preview-{number}", "openai", NOW)  # may be priced by a pattern
    assert len(prices._known) <= MAX_CACHED_NAMES
    assert len(prices._unknown) <= MAX_CACHED_NAMES
    for model, usd in [("gpt-4o", 2.5), ("gpt-4o-mini", 0.15), ("my-own", 1)]:
        assert dollars(prices.of(model, "openai", NOW), INPUT) == usd


@given(st.lists(st.text(max_size=8) | st.integers(0, 9_999).map(lambda n: f"m{n}"), max_size=50))
def test_a_listed_model_keeps_its_price_whatever_else_is_asked_for(full, asked):
    for model in asked:
        full.of(model, "", NOW)
    assert dollars(full.of("gpt-4o-mini", "", NOW), INPUT) == 0.15


@pytest.fixture(scope="module")
def full():
    """Return prices that were asked for as many made-up names as are kept at hand."""
    prices = Prices()
    for number in range(MAX_CACHED_NAMES):
        prices.of(f"made-up-{number}", "", NOW)
    return prices


def test_what_is_set_for_every_name_holds_for_names_that_are_too_long():
    price = Prices({"*": DEAR}).of("x" * (MAX_NAME_CHARS + 1), "", NOW)
    assert dollars(price, INPUT) == 30


# The index finds what the data itself finds, which takes much longer


def every_name():
    """Yield all plain names of the data, and names that are nearly such."""
    for provider in get_snapshot().providers:
        for info in provider.models:
            for name in (info.id, f"{info.id}-20251211", f"{info.id}-2025-12-11", f"{info.id}x"):
                yield provider, name.lower()


def test_the_index_finds_what_a_search_finds():
    listed, everyone = Listed(), get_snapshot().providers
    wrong = [
        (provider.id, name)
        for provider, name in every_name()
        if listed._listing(provider, name) is not provider.find_model(name, all_providers=everyone)
    ]
    assert wrong == []


def test_close_names_are_those_that_have_a_price(prices):
    close = prices.close_to("gpt-4.0o", NOW)
    assert close[0] == "gpt-4o"
    assert len(close) == 3
    assert all(prices.of(name, "", NOW) for name in close)
    assert prices.close_to("\ud800", NOW) == []


def test_nothing_is_loaded_before_prices_are_made():
    loads = "import looptrap.money.price, looptrap.cli, sys; print('genai_prices' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", loads], capture_output=True, check=True)
    assert result.stdout == b"False\n"
