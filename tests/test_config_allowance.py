"""What `looptrap check` and the banner say of budgets and rates."""

import pytest

from looptrap.cli.lifecycle import banner
from looptrap.config import load
from looptrap.config.description import PERIODS as WORDS
from looptrap.config.description import of_budget, of_rate
from looptrap.policy.action import Action, Ladder
from looptrap.policy.budget import PERIODS, Budget
from looptrap.policy.policy import Selector
from looptrap.policy.rate import Rate


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        pytest.param(
            Budget(name="session-1d", by=("session",), limit_usd=5, period="1d"),
            "session-1d: a session may cost $5.00 a day: warned from 80 %, slowed by 2 s from 95 %"
            " and refused above",
            id="dollars a day",
        ),
        pytest.param(
            Budget(name="b", by=("gateway",), limit_usd=5, stages=Ladder({Action.BLOCK: 100})),
            "b: all callers together may cost $5.00 in all: refused above",
            id="all callers together",
        ),
        pytest.param(
            Budget(
                name="b",
                by=("gateway",),
                limit_usd=5,
                stages=Ladder({Action.BLOCK: 100}),
                reserve="typical",
            ),
            "b: all callers together may cost $5.00 in all: refused once 100 % are used",
            id="typical reservations",
        ),
        pytest.param(
            Budget(
                name="b",
                by=("header:x-team",),
                limit_usd=0.02,
                limit_tokens=100_000,
                stages=Ladder({Action.STOP: 120}),
                select=Selector(models=("gpt-*",)),
            ),
            "b: each caller and header:x-team may cost $0.02 and use 100,000 tokens in all, with"
            " every call for model gpt-*: answered with a final message above 120 %",
            id="dollars and tokens of some calls",
        ),
        pytest.param(
            Budget(
                name="b",
                by=("jwt:org",),
                limit_tokens=5,
                period="5m",
                stages=Ladder({Action.WARN: 50}),
                mode="shadow",
            ),
            "b (shadow: reported, never acted on): each jwt:org may use 5 tokens in 5 minutes:"
            " warned from 50 %",
            id="only watched",
        ),
    ],
)
def test_says_what_a_budget_allows(budget, sentence):
    assert of_budget(budget) == sentence


def test_every_period_has_words():
    assert WORDS.keys() == PERIODS.keys()


@pytest.mark.parametrize(
    ("rate", "sentence"),
    [
        pytest.param(
            Rate(name="per-tenant", by=("caller", "header:x-tenant"), rps=5.0, burst=10),
            "per-tenant: 5 calls a second, up to 10 at once, for each caller and header:x-tenant",
            id="calls",
        ),
        pytest.param(
            Rate(name="r", by=("header:x",), rps=1.0),
            "r: 1 call a second, for each caller and header:x",
            id="one call, and whose it is in any case",
        ),
        pytest.param(
            Rate(
                name="r",
                kind="token_bucket_llm",
                by=("jwt:org",),
                tokens_per_minute=60_000,
                tokens_per_day=1_000_000,
                burst_tokens=90_000,
            ),
            "r: 60,000 tokens a minute, up to 90,000 at once and 1,000,000 tokens a day,"
            " for each jwt:org",
            id="tokens",
        ),
        pytest.param(
            Rate(
                name="r",
                rps=0.5,
                match=(("jwt:plan", "free"),),
                unless=((("header:x", "1"), ("query:y", "2")), (("model", "m"),)),
                cost="header:x-cost",
                default_cost=2,
            ),
            'r: 0.5 calls a second, for each caller, where jwt:plan is "free", unless header:x is'
            ' "1" and query:y is "2" or model is "m"; a call counts for what header:x-cost says,'
            " else for 2",
            id="of some, and for more than one",
        ),
        pytest.param(
            Rate(name="r", rps=0.5, default_cost=3),
            "r: 0.5 calls a second, for each caller; a call counts for 3",
            id="always for more than one",
        ),
        pytest.param(Rate(name="r", rps=1.0, enabled=False), "r: is off", id="off"),
        pytest.param(
            Rate(name="r\x1b[31m", rps=1.0, match=(("jwt:a", "\x07"),)),
            'r\\x1b[31m: 1 call a second, for each caller, where jwt:a is "\\x07"',
            id="nothing that could disturb a terminal",
        ),
    ],
)
def test_says_what_a_rate_allows(rate, sentence):
    assert of_rate(rate) == sentence


def test_the_banner_says_both(tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text(
        '[[policies]]\nname = "p"\n[[policies.rates]]\nname = "r"\nrps = 2\n'
        '[[budgets]]\nby = ["turn"]\nlimit_usd = 1\nthresholds = { block = 100 }\n'
    )
    said = banner(load(file), ("127.0.0.1", 4100), ("127.0.0.1", 4101), False).splitlines()
    assert said[-1] == (
        "Policies of preset default: 17 rules, 1 rate and 1 budget; `looptrap check` lists them."
    )
