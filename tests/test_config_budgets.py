"""Settings of budgets and rates: what is allowed, and what is said of mistakes."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.config import load
from looptrap.config.setting import CONFIG
from looptrap.errors import ConfigError
from looptrap.policy.action import Action, Ladder
from looptrap.policy.budget import BUDGET, STAGES, Budget
from looptrap.policy.policy import Policy, Selector
from looptrap.policy.rate import RATE, Rate
from looptrap.schema import read

BUDGETED = {"limit_usd": 5}
RATED = {"name": "r", "rps": 5}


@pytest.fixture
def loaded(tmp_path):
    def loaded(text: str, **options):
        path = tmp_path / "looptrap.toml"
        path.write_text(text)
        return load(path, **options)

    return loaded


def mistakes(table, settings: dict) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(table, {key: value for key, value in settings.items() if value is not ...})
    return [str(problem) for problem in caught.value.problems]


def test_reads_everything_that_can_be_written_of_a_budget():
    (budget,) = read(
        CONFIG,
        tomllib.loads(
            """
            [[budgets]]
            name = "research"
            by = ["project", "model"]
            limit_usd = 12.5
            limit_tokens = 1_000_000
            period = "7d"
            thresholds = { warn = 50, throttle = 90, stop = 120 }
            delay = 0.5
            output_tokens = 800
            reserve = "typical"
            mode = "shadow"
            select = { path_prefix = "/v1/", models = ["gpt-*"] }
            """
        ),
    ).budgets
    assert budget == Budget(
        name="research",
        by=("project", "model"),
        limit_usd=12.5,
        limit_tokens=1_000_000,
        period="7d",
        stages=Ladder({Action.WARN: 50, Action.THROTTLE: 90, Action.STOP: 120}),
        delay=0.5,
        output_tokens=800,
        reserve="typical",
        mode="shadow",
        select=Selector(path_prefix="/v1/", models=("gpt-*",)),
    )


def test_reads_everything_that_can_be_written_of_rates():
    (policy,) = read(
        CONFIG,
        tomllib.loads(
            """
            [[policies]]
            name = "limits"

              [[policies.rates]]
              name = "calls"
              kind = "token_bucket"
              by = ["caller", "header:x-tenant"]
              match = { "header:x-plan" = "free" }
              unless = [{ "header:x-team" = "ops" }, { "query:test" = "1" }]
              rps = 0.5
              burst = 10
              cost = "header:x-cost"
              default_cost = 2

              [[policies.rates]]
              name = "tokens"
              kind = "token_bucket_llm"
              tokens_per_minute = 60_000
              tokens_per_day = 1_000_000
              burst_tokens = 90_000
              output_tokens = 500
              enabled = false
            """
        ),
    ).policies
    assert policy == Policy(
        name="limits",
        rates=(
            Rate(
                name="calls",
                by=("caller", "header:x-tenant"),
                match=(("header:x-plan", "free"),),
                unless=((("header:x-team", "ops"),), (("query:test", "1"),)),
                rps=0.5,
                burst=10,
                cost="header:x-cost",
                default_cost=2,
            ),
            Rate(
                name="tokens",
                kind="token_bucket_llm",
                tokens_per_minute=60_000,
                tokens_per_day=1_000_000,
                burst_tokens=90_000,
                output_tokens=500,
                enabled=False,
            ),
        ),
    )


def test_what_is_not_written_is_as_the_budget_and_the_rate_themselves_have_it():
    assert read(BUDGET, BUDGETED) == Budget(name="caller", limit_usd=5.0, stages=STAGES)
    assert read(RATE, RATED) == Rate(name="r", rps=5.0)


def test_fairvisors_name_for_calls_a_second_means_the_same():
    assert read(RATE, {"name": "r", "tokens_per_second": 5}) == read(RATE, RATED)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"by": ["session"], "period": "1d"}, "session-1d"),
        ({"by": ["caller", "model"], "period": "none"}, "caller-model"),
        ({"by": ["header:x-team"], "period": "5m"}, "header-x-team-5m"),
        ({"by": [], "period": "none"}, "caller"),
        ({"by": ["session"], "name": "mine"}, "mine"),
    ],
)
def test_a_budget_without_a_name_gets_one(settings, name):
    assert read(BUDGET, BUDGETED | settings).name == name


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"limit_usd": ...},
            "has neither limit_usd nor limit_tokens, needs one of them, or both",
            id="no limit",
        ),
        pytest.param(
            {"limit_usd": 0}, "limit_usd: is 0, must be 0.0001 or more", id="nothing allowed"
        ),
        pytest.param(
            {"limit_tokens": 0}, "limit_tokens: is 0, must be 1 or more", id="not a token"
        ),
        pytest.param(
            {"period": "2d"},
            'period: is the text "2d", must be "5m", "1h", "1d", "7d", "30d" or "none"',
            id="another period",
        ),
        pytest.param(
            {"thresholds": {"warn": 100, "block": 80}},
            "thresholds: warn = 100 and block = 80: a severer action needs a higher threshold",
            id="stages upside down",
        ),
        pytest.param(
            {"thresholds": {"nudge": 80}},
            'thresholds.nudge: is the text "nudge", must be "warn", "throttle", "stop" or "block"',
            id="a nudge about money",
        ),
        pytest.param(
            {"thresholds": {"block": 1_001}},
            "thresholds.block: is 1001, must be 1000 or less",
            id="beyond all limits",
        ),
        pytest.param(
            {"thresholds": {"stop": 100, "block": 120}},
            "thresholds: has stop and block, needs one: nothing is used beyond the first",
            id="refused twice",
        ),
        pytest.param(
            {"thresholds": {}},
            "thresholds: is empty, must be a table of actions and per cents",
            id="no stage",
        ),
        pytest.param(
            {"thresholds": {"block": 100}, "delay": 1},
            "delay: means nothing without throttle in thresholds",
            id="a delay of nothing",
        ),
        pytest.param({"delay": 31}, "delay: is 31, must be 30 or less", id="too long a delay"),
        pytest.param(
            {"by": ["key"]},
            'by[0]: is "key", must be a descriptor; who holds a gateway key is a "caller"',
            id="a key is a caller",
        ),
        pytest.param(
            {"limit": 3}, "limit: is not a setting, did you mean limit_usd?", id="which limit?"
        ),
    ],
)
def test_says_what_is_wrong_with_a_budget(settings, expected):
    assert mistakes(BUDGET, BUDGETED | settings) == [expected]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"rps": ...}, "has neither rps nor tokens_per_second, needs one of them", id="no rate"
        ),
        pytest.param(
            {"tokens_per_second": 5},
            "has rps and tokens_per_second, which mean the same: needs one of them",
            id="the same twice",
        ),
        pytest.param({"rps": 0}, "rps: is 0, must be 0.0001 or more", id="no calls"),
        pytest.param({"burst": 0}, "burst: is 0, must be 1 or more", id="none at once"),
        pytest.param(
            {"tokens_per_minute": 5},
            'tokens_per_minute: means nothing to kind = "token_bucket", only to token_bucket_llm',
            id="tokens in a bucket of calls",
        ),
        pytest.param(
            {"kind": "token_bucket_llm", "tokens_per_day": 5},
            'rps: means nothing to kind = "token_bucket_llm", only to token_bucket',
            id="calls in a bucket of tokens",
        ),
        pytest.param(
            {"kind": "token_bucket_llm", "rps": ...},
            "has neither tokens_per_minute nor tokens_per_day, needs one of them",
            id="no tokens",
        ),
        pytest.param(
            {"kind": "token_bucket_llm", "rps": ..., "tokens_per_day": 9, "burst_tokens": 5},
            "burst_tokens: means nothing without tokens_per_minute",
            id="a burst of nothing",
        ),
        pytest.param(
            {"kind": "leaky"},
            'kind: is the text "leaky", must be "token_bucket" or "token_bucket_llm"',
            id="another algorithm",
        ),
        pytest.param(
            {"cost": "caller"},
            'cost: is the text "caller", must be "header:<name>" or "query:<name>"',
            id="a cost that no call tells",
        ),
        pytest.param(
            {"default_cost": 6},
            "default_cost: is 6, must be 5 or less: no more fits into the burst",
            id="nothing would pass",
        ),
        pytest.param(
            {"unless": [{}]},
            "unless[0]: is empty, must be a table of descriptors and values",
            id="nobody would be counted",
        ),
    ],
)
def test_says_what_is_wrong_with_a_rate(settings, expected):
    assert mistakes(RATE, RATED | settings) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '[[budgets]]\nby = ["session"]\nlimit_usd = 1\n' * 2,
            'budgets[1]: is called "session", as budgets[0] is: give it a name of its own',
            id="two budgets without a name",
        ),
        pytest.param(
            '[[budgets]]\nname = "a"\nlimit_usd = 1\n' * 2,
            'budgets[1].name: is the text "a", as in budgets[0], must differ from all others',
            id="two budgets of one name",
        ),
        pytest.param(
            '[[policies]]\nname = "p"\n' + '[[policies.rates]]\nname = "a"\nrps = 1\n' * 2,
            'policies[0].rates[1].name: is the text "a", as in policies[0].rates[0],'
            " must differ from all others",
            id="two rates of one name",
        ),
    ],
)
def test_names_tell_them_apart(loaded, text, expected):
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    assert [str(problem) for problem in caught.value.problems] == [expected]


def test_budgets_come_on_top_of_the_preset(loaded):
    config = loaded("[[budgets]]\nlimit_usd = 1\n")
    assert config.preset == "default"
    assert config.warnings == ()


OWN_RATES = '[[policies]]\nname = "{name}"\n[[policies.rates]]\nname = "r"\nrps = 1\n'


def test_rates_come_on_top_of_the_preset(loaded):
    config = loaded(OWN_RATES.format(name="p"))
    assert [policy.name for policy in config.policies] == ["p", "default"]
    assert config.preset == "default"
    assert config.warnings == ()
    assert config.origins["policies[0].rates[0].rps"] == "looptrap.toml"
    assert config.origins["policies[1].rules[0].window"] == "preset default"


def test_a_policy_of_rates_needs_a_name_that_the_preset_does_not_have(loaded):
    with pytest.raises(ConfigError, match='is "default", the name of a policy of preset default'):
        loaded(OWN_RATES.format(name="default"))


def test_says_where_the_values_came_from(loaded):
    config = loaded(
        "[[budgets]]\nlimit_usd = 1\n"
        '[[policies]]\nname = "p"\n[[policies.rates]]\nname = "r"\ntokens_per_second = 3\n'
    )
    told = {place: (value, origin) for place, value, origin in config.effective()}
    assert told["budgets[0].limit_usd"] == (1.0, "looptrap.toml")
    assert told["budgets[0].name"] == ("caller", "default")
    assert told["budgets[0].thresholds"] == ({"warn": 80, "throttle": 95, "block": 100}, "default")
    assert told["policies[0].rates[0].rps"] == (3.0, "looptrap.toml")
    assert set(config.origins) <= set(told)


DESCRIPTORS = st.lists(st.sampled_from(["caller", "session", "jwt:org", "header:x-a"]), max_size=3)
BUDGETS = st.fixed_dictionaries(
    {"limit_usd": st.floats(0.0001, 1_000_000)},
    optional={
        "name": st.just("b"),
        "by": DESCRIPTORS,
        "limit_tokens": st.integers(1, 10**12),
        "period": st.sampled_from(["5m", "1h", "1d", "7d", "30d", "none"]),
        "thresholds": st.sampled_from([{"block": 90}, {"warn": 1, "stop": 1_000}, {"throttle": 5}]),
        "output_tokens": st.integers(1, 10_000),
        "mode": st.sampled_from(["enforce", "shadow"]),
    },
)
VALUES = st.dictionaries(
    st.sampled_from(["caller", "jwt:a"]), st.text("ab", min_size=1), max_size=2
)
RATES = st.fixed_dictionaries(
    {"name": st.just("r"), "rps": st.floats(0.0001, 1_000_000)},
    optional={"by": DESCRIPTORS, "match": VALUES, "burst": st.integers(1, 10**6)},
) | st.fixed_dictionaries(
    {
        "name": st.just("r"),
        "kind": st.just("token_bucket_llm"),
        "tokens_per_minute": st.integers(1, 10**9),
    },
    optional={
        "tokens_per_day": st.integers(1, 10**9),
        "unless": st.lists(st.just({"caller": "a"}), max_size=2),
        "enabled": st.booleans(),
    },
)


@given(budget=BUDGETS)
def test_a_budget_that_is_written_back_reads_the_same(budget):
    built = read(BUDGET, budget)
    assert read(BUDGET, BUDGET.plain(built)) == built


@given(rate=RATES)
def test_a_rate_that_is_written_back_reads_the_same(rate):
    built = read(RATE, rate)
    assert read(RATE, RATE.plain(built)) == built
