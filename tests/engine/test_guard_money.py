"""Budgets and rates inside a process: refused with an exception, settled by who made the call."""

import pytest

from looptrap import BudgetExceededError, Guard, RateLimitedError
from looptrap.dialect.body import read_body
from looptrap.dialect.model import Outcome, Usage
from looptrap.money.price import Prices, PriceSettings
from looptrap.policy.budget import Budget
from looptrap.policy.policy import Policy
from looptrap.policy.rate import Rate
from looptrap.retry.classify import classify

DOLLAR = Prices({"m": PriceSettings(input=1_000, output=1_000)})
"""A tenth of a cent a token."""


def asked(text="Hello", most=100):
    return {"model": "m", "max_tokens": most, "messages": [{"role": "user", "content": text}]}


@pytest.fixture
def purse():
    """A guard with a dollar for each caller, and nothing against loops."""
    return Guard([], budgets=[Budget(name="purse", limit_usd=1)], prices=DOLLAR, secret=b"s")


def test_what_might_cost_more_than_is_left_raises(purse):
    says = r"^Blocked \(budget_exceeded\): budget purse: \$0\.00 of \$1\.00"
    with pytest.raises(BudgetExceededError, match=says) as raised:
        purse.check(asked(most=2_000), now=0.0)
    assert (raised.value.budget, raised.value.percent) == ("purse", 100)
    assert not classify(raised.value).is_retryable


def test_what_a_call_used_takes_the_place_of_what_was_reserved(purse):
    ticket = purse.check(asked(most=900), now=0.0)
    with pytest.raises(BudgetExceededError):
        purse.check(asked("Another", most=900), now=1.0)
    assert purse.used(ticket, Usage(10, 20), now=2.0) == 30_000_000
    purse.check(asked("Another", most=900), now=3.0)


def test_a_call_that_nobody_speaks_of_again_is_forgotten_in_the_end(purse):
    purse.check(asked(most=900), now=0.0)
    with pytest.raises(BudgetExceededError):
        purse.check(asked("Another", most=900), now=899.0)
    purse.check(asked("Another", most=900), now=961.0)


def test_a_budget_begins_anew_when_its_account_is_released(purse):
    purse.used(purse.check(asked(most=900), now=0.0), Usage(990), now=1.0)
    with pytest.raises(BudgetExceededError) as raised:
        purse.check(asked("Another"), now=2.0)
    assert purse.release(raised.value.fingerprint, now=3.0)
    purse.check(asked("Another"), now=4.0)


def test_too_many_at_once_raise_and_are_told_when_to_come_again():
    guard = Guard([Policy(name="p", rates=(Rate(name="slow", rps=0.5, burst=2),))], secret=b"s")
    for text in ("one", "two"):
        guard.check(asked(text), now=0.0)
    with pytest.raises(RateLimitedError) as raised:
        guard.check(asked("three"), now=0.0)
    assert (raised.value.rate, raised.value.retry_after) == ("slow", 2.0)
    assert str(raised.value).startswith("Blocked (rate_limited): ")
    assert classify(raised.value).is_retryable
    guard.check(asked("three"), now=2.0)


def test_a_guard_without_budgets_or_rates_needs_no_prices():
    guard = Guard.from_preset()
    assert guard.used(guard.check(asked(), now=0.0), Usage(10, 20), now=1.0) is None


def test_a_thousand_made_up_models_switch_no_budget_off():
    guard = Guard([], budgets=[Budget(name="purse", limit_usd=1)], secret=b"s")
    for number in range(1_001):
        guard.check({**asked(), "model": f"made-up-{number}"}, caller="other", now=0.0)
    with pytest.raises(BudgetExceededError):
        guard.check({**asked(most=1_000_000), "model": "gpt-4o"}, now=1.0)


@pytest.mark.parametrize("unit", ["limit_usd", "limit_tokens"])
def test_an_outcome_that_says_nothing_leaves_what_was_reserved(unit):
    guard = Guard([], budgets=[Budget(name="b", **{unit: 1_000})], prices=DOLLAR, secret=b"s")
    most = 900 if unit == "limit_tokens" else 900_000
    ticket = guard.admit(read_body(asked(most=most)), 0.0)
    guard.conclude(ticket, Outcome(200), 1.0)
    with pytest.raises(BudgetExceededError):
        guard.check(asked(most=most), now=2.0)
