"""Budgets: what is done at which stage, whose they are, and who may lower them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.money.calling import CENT, T, budgeted, call, spend

from looptrap.dialect.model import Request, Usage
from looptrap.dialect.registry import read
from looptrap.money.budget_meter import Account, RecentAccounts
from looptrap.money.price import nano
from looptrap.policy.action import Action, Ladder
from looptrap.policy.budget import Budget
from looptrap.policy.policy import Selector
from looptrap.store.model import Charge

DOLLAR = Budget(name="b", limit_usd=1.0)
BLOCK = {"stages": Ladder({Action.BLOCK: 100})}


def action(guard, one=None, now=T):
    return guard.admit(one or call(), now).verdict.action


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        pytest.param(0, Action.ALLOW, id="1 %"),
        pytest.param(78, Action.ALLOW, id="79 %"),
        pytest.param(79, Action.WARN, id="80 %"),
        pytest.param(93, Action.WARN, id="94 %"),
        pytest.param(94, Action.THROTTLE, id="95 %"),
        pytest.param(99, Action.THROTTLE, id="exactly 100 % still passes"),
        pytest.param(100, Action.BLOCK, id="101 %"),
    ],
)
def test_a_call_of_a_cent_after_so_many_of_a_dollar(spent, expected):
    guard = budgeted(DOLLAR)
    spend(guard, spent * CENT)
    assert action(guard) is expected


@pytest.mark.parametrize(
    ("stages", "spent", "expected"),
    [
        pytest.param({Action.WARN: 50}, 150, Action.WARN, id="only ever a warning"),
        pytest.param({Action.STOP: 100}, 100, Action.STOP, id="a final message"),
        pytest.param({Action.BLOCK: 150}, 149, Action.ALLOW, id="refused later: at 150 %"),
        pytest.param({Action.BLOCK: 150}, 150, Action.BLOCK, id="refused later: at 151 %"),
        pytest.param({Action.BLOCK: 50}, 50, Action.BLOCK, id="refused sooner"),
    ],
)
def test_other_stages(stages, spent, expected):
    guard = budgeted(Budget(name="b", limit_usd=1.0, stages=Ladder(stages)))
    spend(guard, spent * CENT)
    assert action(guard) is expected


def test_a_refusal_says_what_is_used_what_is_needed_and_until_when():
    guard = budgeted(Budget(name="daily", limit_usd=1.0, period="1d"))
    spend(guard, 90 * CENT)
    ticket = guard.admit(call(20 * CENT), T)
    verdict = ticket.verdict
    assert (verdict.reason, verdict.policy, verdict.rule) == ("budget_exceeded", "budgets", "daily")
    assert verdict.message == (
        "Blocked (budget_exceeded): budget daily: $0.90 of $1.00 used or reserved (100 %);"
        " this call may need $0.20."
        " Nothing more until 2027-01-16 00:00 UTC."
    )
    assert verdict.retry_after is None
    (standing,) = ticket.standings
    assert (standing.used, standing.limit, standing.stage) == (nano(0.9), nano(1), 100)
    assert standing.by == (("caller", "c"),)


def test_a_throttled_call_is_held_back_for_as_long_as_the_budget_says():
    guard = budgeted(Budget(name="b", limit_usd=1.0, delay=0.5))
    spend(guard, 95 * CENT)
    verdict = guard.admit(call(), T).verdict
    assert (verdict.action, verdict.delay) == (Action.THROTTLE, 0.5)
    assert verdict.reason == "budget_threshold"


def test_what_was_used_takes_the_place_of_what_was_reserved():
    guard = budgeted(DOLLAR)
    ticket = guard.admit(call(100 * CENT), T)
    assert action(guard) is Action.BLOCK
    guard.used(ticket, Usage(0, CENT), T)
    assert action(guard) is Action.ALLOW


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"n": 128}, id="128 choices without a limit"),
        pytest.param({"max_completion_tokens": 1, "max_tokens": 512_000 * 3}, id="two limits"),
        pytest.param({"max_tokens": 10_000, "best_of": 101}, id="the best of 101"),
        pytest.param({"n": 10**400}, id="choices without end"),
    ],
)
def test_what_may_cost_more_than_the_budget_is_refused_before_it_is_sent(fields):
    guard = budgeted(Budget(name="b", limit_usd=0.5))
    body = msgspec.json.encode({"model": "m", "messages": [], **fields})
    one = read(Request(path="/v1/chat/completions", body=body, caller="c"))
    assert action(guard, one) is Action.BLOCK


def test_what_was_used_beyond_the_reservation_counts_in_full():
    guard = budgeted(DOLLAR)
    ticket = guard.admit(call(), T)
    guard.used(ticket, Usage(0, 300 * CENT), T)
    refused = guard.admit(call(), T)
    assert refused.verdict.action is Action.BLOCK
    assert refused.standings[0].used == nano(3)


@pytest.mark.parametrize("unit", ["limit_usd", "limit_tokens"])
@pytest.mark.parametrize("used", [Usage(10**400, 10**400), Usage(0, -5)], ids=["+", "-"])
def test_a_usage_beyond_all_numbers_breaks_no_account(unit, used):
    guard = budgeted(Budget(name="b", **{unit: 1_000_000}))
    guard.used(guard.admit(call(), T), used, T)
    expected = Action.BLOCK if used.output_tokens > 0 else Action.ALLOW
    assert action(guard) is expected


TYPICAL = Budget(name="b", limit_usd=1.0, output_tokens=5 * CENT, reserve="typical", **BLOCK)


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        pytest.param(0, Action.ALLOW, id="more is allowed than the budget has"),
        pytest.param(99, Action.ALLOW, id="a cent is left"),
        pytest.param(100, Action.BLOCK, id="nothing is left"),
        pytest.param(130, Action.BLOCK, id="an answer went beyond it"),
    ],
)
def test_a_call_of_a_typical_reservation_passes_while_anything_is_left(spent, expected):
    guard = budgeted(TYPICAL)
    guard.used(guard.admit(call(), T), Usage(0, spent * CENT), T)
    ticket = guard.admit(call(300 * CENT), T)
    assert ticket.verdict.action is expected
    if expected is Action.BLOCK:
        assert "Nothing more." in ticket.verdict.message
        assert "may need" not in ticket.verdict.message


@pytest.mark.parametrize(
    ("fields", "reserved"),
    [
        pytest.param({"max_tokens": 300 * CENT}, 5, id="a high limit"),
        pytest.param({"max_tokens": 2 * CENT}, 2, id="a low limit"),
        pytest.param({}, 5, id="no limit"),
        pytest.param({"max_tokens": 300 * CENT, "n": 3}, 15, id="three choices"),
    ],
)
def test_a_typical_reservation_is_at_most_the_output_tokens_a_choice(fields, reserved):
    guard = budgeted(TYPICAL)
    body = msgspec.json.encode({"model": "m", "messages": [], **fields})
    one = read(Request(path="/v1/chat/completions", body=body, caller="c"))
    guard.admit(one, T)
    guard.used(guard.admit(call(), T), Usage(0, (100 - reserved) * CENT), T)
    assert action(guard) is Action.BLOCK


def test_calls_of_typical_reservations_under_way_together_leave_no_room_for_more():
    guard = budgeted(TYPICAL)
    under_way = [action(guard, call(300 * CENT)) for _ in range(21)]
    assert under_way == [Action.ALLOW] * 20 + [Action.BLOCK]


def test_a_refused_call_leaves_room_for_a_smaller_one():
    guard = budgeted(DOLLAR)
    assert action(guard, call(101 * CENT)) is Action.BLOCK
    assert action(guard) is Action.ALLOW


def test_of_two_budgets_one_gives_back_what_the_other_refuses():
    guard = budgeted(DOLLAR, Budget(name="small", by=("session",), limit_usd=0.5, **BLOCK))
    for _ in range(3):
        assert action(guard, call(60 * CENT, session="s")) is Action.BLOCK
    assert action(guard, call(50 * CENT, session="s")) is Action.ALLOW


@pytest.mark.parametrize(
    ("period", "later", "expected"),
    [
        pytest.param("1d", 3_600, Action.BLOCK, id="the same day"),
        pytest.param("1d", 86_400, Action.ALLOW, id="the next day"),
        pytest.param("none", 7 * 86_400, Action.BLOCK, id="a week later, without a period"),
    ],
)
def test_a_period_fills_it_again(period, later, expected):
    guard = budgeted(Budget(name="b", limit_usd=1.0, period=period, **BLOCK))
    spend(guard, 100 * CENT)
    assert action(guard, now=T + later) is expected


class TestWhatIsCounted:
    def test_a_call_without_a_price_is_not_charged_dollars(self):
        guard = budgeted(Budget(name="b", limit_usd=0.0001))
        ticket = guard.admit(call(100 * CENT, model="nobody-knows-this"), T)
        assert ticket.verdict.action is Action.ALLOW
        assert not ticket.holds

    def test_but_its_tokens_are(self):
        guard = budgeted(Budget(name="b", limit_tokens=1_000, **BLOCK))
        unpriced = call(1_000, model="nobody-knows-this")
        assert action(guard, unpriced) is Action.BLOCK

    def test_tokens_are_those_sent_and_those_answered(self):
        guard = budgeted(Budget(name="b", limit_tokens=1_000, **BLOCK))
        ticket = guard.admit(call(900), T)
        guard.used(ticket, Usage(500, 500), T)
        assert action(guard, call(1)) is Action.BLOCK

    def test_an_answer_without_a_limit_is_taken_to_need_what_the_budget_says(self):
        budget = Budget(name="b", limit_usd=1.0, output_tokens=101 * CENT)
        assert action(budgeted(budget), call(0)) is Action.BLOCK

    def test_only_what_it_selects(self):
        guard = budgeted(Budget(name="b", limit_usd=0.001, select=Selector(models=("gpt-*",))))
        assert action(guard) is Action.ALLOW

    def test_only_calls_of_a_turn_where_it_is_by_turn(self):
        guard = budgeted(Budget(name="b", by=("turn",), limit_usd=0.01, **BLOCK))
        spend(guard, CENT, turn="t")
        assert action(guard, call(turn="t")) is Action.BLOCK
        assert action(guard, call(turn="u")) is Action.ALLOW
        assert action(guard, call()) is Action.ALLOW
        assert action(guard, call()) is Action.ALLOW

    def test_a_session_that_nobody_named_is_told_by_how_it_begins(self):
        guard = budgeted(Budget(name="b", by=("session",), limit_usd=0.01, **BLOCK))
        spend(guard, CENT, text="Fix the test.")
        assert action(guard, call(text="Fix the test.")) is Action.BLOCK
        assert action(guard, call(text="Fix the build.")) is Action.ALLOW


class TestShadow:
    def test_never_refuses_and_says_what_it_would_do(self):
        guard = budgeted(Budget(name="b", limit_usd=1.0, mode="shadow"))
        for spent, expected in ((100, Action.THROTTLE), (200, Action.BLOCK), (300, Action.BLOCK)):
            ticket = spend(guard, 100 * CENT)
            assert ticket.verdict.action is Action.ALLOW
            assert ticket.shadow.action is expected
            (standing,) = ticket.standings
            assert (standing.used, standing.mode) == (nano(spent / 100), "shadow")
        assert ticket.shadow.message == (
            "Would have been refused (budget_exceeded): budget b: $3.00 of $1.00 used or reserved"
            " (300 %); this call may need $1.00."
        )


SESSION = Budget(name="b", by=("session",), limit_usd=1.0, **BLOCK)


class TestTheLimitOfAClient:
    """`X-Looptrap-Session-Limit-Usd` may lower a limit, and never raises one."""

    @pytest.mark.parametrize(
        ("limit_usd", "passes"),
        [
            pytest.param(None, 100, id="no word: the budget's dollar"),
            pytest.param(0.5, 50, id="lower: half a dollar"),
            pytest.param(5.0, 100, id="higher: the budget's dollar"),
            pytest.param(0.0, 0, id="nothing at all"),
        ],
    )
    def test_how_many_cents_pass(self, limit_usd, passes):
        guard = budgeted(SESSION)
        sent = [action(guard, call(session="s", limit_usd=limit_usd)) for _ in range(101)]
        assert sent.count(Action.ALLOW) == passes
        assert sent[passes:] == [Action.BLOCK] * (101 - passes)

    @pytest.mark.parametrize(
        "budgets",
        [
            pytest.param([], id="no budget"),
            pytest.param([Budget(name="b", limit_usd=1.0)], id="by caller"),
            pytest.param(
                [Budget(name="b", by=("session",), limit_usd=1.0, mode="shadow")],
                id="a budget that only watches",
            ),
            pytest.param(
                [
                    Budget(
                        name="b",
                        by=("session",),
                        limit_usd=1.0,
                        select=Selector(models=("gpt-*",)),
                    )
                ],
                id="a budget of other calls",
            ),
            pytest.param(
                [
                    Budget(
                        name="b", by=("session",), limit_usd=1.0, stages=Ladder({Action.WARN: 80})
                    )
                ],
                id="a budget that only warns",
            ),
            pytest.param(
                [Budget(name="b", by=("session",), limit_tokens=10**9)], id="a budget of tokens"
            ),
        ],
    )
    def test_holds_whatever_budgets_there_are(self, budgets):
        guard = budgeted(*budgets)
        spend(guard, 10 * CENT, session="s", limit_usd=0.1)
        assert action(guard, call(session="s", limit_usd=0.1)) is Action.BLOCK
        assert action(guard, call(session="other", limit_usd=0.1)) is Action.ALLOW


@given(
    calls=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 100)), max_size=30),
    settled=st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_no_order_of_calls_spends_more_than_the_limit(calls, settled):
    """Whatever is under way, and whatever comes back: as long as forecasts hold, the limit does."""
    guard = budgeted(DOLLAR)
    spent, open_calls = 0, []
    for (cents, share), settles in zip(calls, settled, strict=False):
        ticket = guard.admit(call(cents * CENT), T)
        if not ticket.verdict.action.refuses:
            open_calls.append((ticket, cents * CENT * share // 100))
        if settles and open_calls:
            ticket, used = open_calls.pop(0)
            spent += guard.used(ticket, Usage(0, used), T)
        assert spent <= nano(1)
    for ticket, used in open_calls:
        spent += guard.used(ticket, Usage(0, used), T)
    assert spent <= nano(1)
    left = (nano(1) - spent) // (nano(0.01) // CENT)
    assert left == 0 or action(guard, call(left)) is not Action.BLOCK, "a reservation has leaked"


def account(name, limit=100):
    question = Charge(name.encode(), 0, limit, 0)
    return Account("b", "usd", (("caller", name),), limit, limit, question)


def test_of_recent_accounts_the_one_that_was_not_charged_for_longest_goes_first():
    recent_accounts = RecentAccounts(2)
    for name in ("a", "b", "a", "c"):
        recent_accounts[name.encode()] = account(name)
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
def test_an_account_is_exceeded_when_a_call_like_the_latest_is_refused(used, wanted, is_exceeded):
    one = account("a")
    one.requested = wanted
    assert one.is_exceeded(used) is is_exceeded
