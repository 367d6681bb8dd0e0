"""Accounts that were charged lately: bounded, the latest kept."""

import pytest

from looptrap.money.budget_meter import Account, RecentAccounts
from looptrap.store.model import Charge


def account(name, limit=100):
    question = Charge(name.encode(), 0, limit, 0)
    return Account("b", "usd", (("caller", name),), limit, limit, question)


def test_the_one_that_was_not_charged_for_longest_goes_first():
    recent_accounts = RecentAccounts(limit=2)
    for name in ("a", "b", "a", "c"):
        recent_accounts.remember(account(name))
    assert [*recent_accounts] == [b"a", b"c"]


@pytest.mark.parametrize(
    ("used", "wanted", "is_exceeded"),
    [
        pytest.param(99, 1, False, id="there is something left"),
        pytest.param(100, 1, True, id="nothing is left"),
        pytest.param(90, 20, True, id="less than was asked for"),
        pytest.param(90, 10, False, id="just as much"),
    ],
)
def test_it_is_exceeded_when_the_like_of_the_latest_call_is_refused(used, wanted, is_exceeded):
    one = account("a")
    one.requested = wanted
    assert one.is_exceeded(used) is is_exceeded
