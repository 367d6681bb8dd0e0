"""What calls come to: every one is counted, once, however many there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.dialect.model import MAX_NAME_CHARS, Outcome, Usage
from looptrap.usage.model import OTHER_NAME, OTHER_USAGE_KEY, SessionKey, UsageBatch, UsageKey
from looptrap.usage.recorder import MAX_KEYS_PER_MINUTE, MAX_TRACKED_SESSIONS, UsageAccumulator

NOON = 1_800_000_000.0
MINUTE = 60


def answered(cost=500, tokens=(10, 5), **usage):
    return Outcome(200, Usage(*tokens, **usage), False, cost)


def add(spending, now=NOON, caller="ann", model="gpt", outcome=None, session=""):
    outcome = answered() if outcome is None else outcome
    return spending.add(now, caller, "p", "openai", model, outcome, session)[0]


def test_calls_of_one_spender_in_one_minute_are_one_row():
    spending = UsageAccumulator()
    for n in range(3):
        add(spending, NOON + n)
    batch = spending.take()
    ((minute, spender),) = batch.spending
    assert (minute, spender) == (int(NOON), UsageKey("ann", "p", "openai", "gpt"))
    spent = batch.spending[minute, spender]
    assert (spent.calls, spent.input_tokens, spent.output_tokens, spent.cost) == (3, 30, 15, 1500)
    assert spent.cost_usd == 1500 / 1e9


@pytest.mark.parametrize(
    ("outcome", "unpriced", "estimated", "cost_usd"),
    [
        pytest.param(answered(0), 0, 0, 0.0, id="free"),
        pytest.param(answered(None), 1, 0, None, id="without a price, which is not 0"),
        pytest.param(answered(7, is_estimated=True), 0, 1, 7 / 1e9, id="told by its size"),
        pytest.param(Outcome(500), 0, 0, 0.0, id="a failure that used nothing"),
    ],
)
def test_what_is_not_known_is_counted_as_such(outcome, unpriced, estimated, cost_usd):
    spending = UsageAccumulator()
    add(spending, outcome=outcome)
    (spent,) = spending.take().spending.values()
    assert (spent.unpriced, spent.estimated, spent.cost_usd) == (unpriced, estimated, cost_usd)


def test_a_call_belongs_to_the_minute_in_which_it_was_settled():
    spending = UsageAccumulator()
    for second in (0, 59.9, 60, 125):
        add(spending, NOON + second)
    counted = {minute: spent.calls for (minute, _), spent in spending.take().spending.items()}
    assert counted == {NOON: 2, NOON + 60: 1, NOON + 120: 1}


def test_a_clock_that_is_put_back_makes_no_rows_of_the_future():
    spending = UsageAccumulator()
    add(spending, NOON + 3600)
    add(spending, NOON)
    assert {minute for minute, _ in spending.take().spending} == {NOON, NOON + 3600}


def test_what_was_taken_is_not_there_again():
    spending = UsageAccumulator()
    assert not spending
    add(spending, session="run-1")
    assert spending
    assert len(spending.take()) == 2
    assert not spending
    assert len(spending.take()) == 0


@given(st.lists(st.tuples(st.integers(0, 200), st.sampled_from("abc"), st.booleans()), max_size=80))
def test_nothing_is_lost_or_counted_twice_however_often_it_is_taken(calls):
    spending, whole, last = UsageAccumulator(), UsageBatch(), 0
    for second, caller, is_taken in calls:
        last += second
        add(spending, NOON + last, caller)
        if is_taken:
            whole.add(spending.take())
    whole.add(spending.take())
    assert sum(spent.calls for spent in whole.spending.values()) == len(calls)
    for caller in "abc":
        counted = [
            spent.calls for (_, who), spent in whole.spending.items() if who.caller == caller
        ]
        assert sum(counted) == sum(who == caller for _, who, _ in calls)


def test_models_that_clients_make_up_do_not_fill_the_history():
    spending = UsageAccumulator()
    kept = UsageBatch()
    for n in range(3 * MAX_KEYS_PER_MINUTE):
        add(spending, model=f"model-{n}")
        if not n % 500:
            kept.add(spending.take())
    kept.add(spending.take())
    assert len(kept.spending) == MAX_KEYS_PER_MINUTE + 1, "also over several times of taking"
    assert kept.spending[int(NOON), OTHER_USAGE_KEY].calls == 2 * MAX_KEYS_PER_MINUTE
    add(spending, NOON + MINUTE, model="model-2999")
    assert spending.take().spending.keys() == {
        (NOON + MINUTE, UsageKey("ann", "p", "openai", "model-2999"))
    }


def test_names_of_any_length_are_cut():
    spending = UsageAccumulator()
    add(spending, model="m" * 10_000, session="s" * 10_000)
    batch = spending.take()
    ((_, spender),), (session,) = batch.spending, batch.sessions
    assert (len(spender.model), len(session.session)) == (MAX_NAME_CHARS, MAX_NAME_CHARS)


class TestSessions:
    def test_a_session_is_one_row_with_the_tokens_of_its_latest_minute(self):
        spending = UsageAccumulator()
        for second in (0, 30, 70, 80):
            add(spending, NOON + second, session="run-1", model=f"m{second}")
        (run,) = spending.take().sessions.values()
        assert (run.first, run.last, run.calls, run.tokens) == (NOON, NOON + 80, 4, 60)
        assert (run.minute, run.used, run.model, run.cost) == (NOON + 60, 30, "m80", 2000)

    @pytest.mark.parametrize(
        ("seconds", "a_minute"), [(0, 15), (119, 15), (120, 0)],
        ids=["in that minute", "in the next", "when it is quiet"],
    )  # fmt: skip
    def test_its_burn_rate_is_that_of_a_minute_that_is_hardly_over(self, seconds, a_minute):
        spending = UsageAccumulator()
        add(spending, session="run-1")
        (run,) = spending.take().sessions.values()
        assert run.tokens_a_minute(NOON + seconds) == a_minute

    def test_sessions_of_different_callers_are_different(self):
        spending = UsageAccumulator()
        for caller in ("ann", "bob"):
            add(spending, caller=caller, session="run-1")
        assert len(spending.take().sessions) == 2

    def test_very_many_are_not_told_apart(self):
        spending = UsageAccumulator()
        for n in range(MAX_TRACKED_SESSIONS + 10):
            add(spending, session=f"run-{n}")
        sessions = spending.take().sessions
        assert len(sessions) == MAX_TRACKED_SESSIONS + 1
        assert sessions[SessionKey(OTHER_NAME, OTHER_NAME, OTHER_NAME)].calls == 10

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "late"])
    def test_what_several_took_adds_up_in_any_order(self, order):
        batches = []
        for start in (NOON, NOON + 60):
            spending = UsageAccumulator()
            add(spending, start, session="run-1", model=f"at-{start}")
            batches.append(spending.take())
        whole = UsageBatch()
        for number in order:
            whole.add(batches[number])
        (run,) = whole.sessions.values()
        assert (run.first, run.last, run.calls, run.tokens) == (NOON, NOON + 60, 2, 30)
        assert (run.minute, run.used, run.model) == (NOON + 60, 15, f"at-{NOON + 60}")


def test_while_nothing_can_be_written_rows_stay_few_and_sums_right(monkeypatch):
    monkeypatch.setattr("looptrap.usage.model.MAX_PENDING_ROWS", 5)
    whole = UsageBatch()
    for n in range(20):
        spending = UsageAccumulator()
        add(spending, caller=f"c{n}", session=f"run-{n}")
        whole.add(spending.take())
    assert (len(whole.spending), len(whole.sessions)) == (6, 6)
    assert sum(spent.calls for spent in whole.spending.values()) == 20
    assert sum(run.calls for run in whole.sessions.values()) == 20
