"""What every call came to, from the loop to the history: counted, saved, shown."""

import asyncio
import time

import msgspec
import pytest
from tests.gateway.serving import JSON, chat, serving, until
from tests.incident.test_sighting import BLOCK, WARN, call, rounds, seen

from looptrap.dialect.model import Outcome, Usage
from looptrap.engine import Ticket
from looptrap.testing import Reply, Tokens
from looptrap.usage.model import UsageKey
from looptrap.usage.recorder import UsageRecorder

PRICES = '[prices."gpt-5.3"]\ninput = 1000\noutput = 2000\n'
"""Dollars a million tokens: a tenth of a cent a token, and two tenths."""


def settled(ticket, outcome=None, session="", provider="openai"):
    """Return the sums of one call, and those of its session."""
    ledger = UsageRecorder()
    ledger.record(ticket, outcome, 120.0, provider, session)
    ledger.flush()
    batch = ledger.take()
    (spent,) = batch.spending.values()
    return spent, next(iter(batch.sessions.values()), None)


@pytest.mark.parametrize(
    ("ticket", "outcome", "counted"),
    [
        pytest.param(Ticket(call()), Outcome(200), (0, 0, 0), id="simply allowed"),
        pytest.param(Ticket(call(), BLOCK), None, (1, 0, 0), id="refused"),
        pytest.param(Ticket(call(), WARN), Outcome(200), (0, 1, 0), id="passed with a warning"),
        pytest.param(Ticket(call(), heard=BLOCK), Outcome(200), (0, 1, 0), id="its answer was cut"),
        pytest.param(Ticket(call(), shadow=BLOCK), Outcome(200), (0, 0, 1), id="in shadow mode"),
        pytest.param(Ticket(call()), None, (0, 0, 0), id="no provider to be found"),
    ],
)
def test_a_call_is_counted_by_what_was_done_to_it(ticket, outcome, counted):
    spent, run = settled(ticket, outcome, "run-1")
    assert (spent.refused, spent.warned, spent.shadowed) == counted
    assert (spent.calls, run.calls, run.refused) == (1, 1, counted[0])


def test_without_a_session_there_is_no_row_for_one():
    assert settled(Ticket(call()), Outcome(200))[1] is None


def test_what_a_loop_saved_and_cost_is_found_where_the_refused_call_is():
    ledger = UsageRecorder()
    ledger.record(Ticket(call(), BLOCK), None, 120.0, "", "")
    ledger.flush()
    (sighting,) = seen(Ticket(call(), BLOCK))
    one = sighting
    spender = UsageKey(one.caller, one.project, one.provider, one.model)
    ledger.add_loop(one.time, spender, saved=70, spent=30)
    sums = ledger.take().spending.values()
    assert sum(spent.saved for spent in sums) == 70
    assert sum(spent.looped for spent in sums) == 30


@pytest.fixture
async def here(tmp_path):
    async with serving(tmp_path, PRICES) as here:
        yield here


def books(here):
    return here.app.recorder.history.usage


async def totals(here, is_so):
    """Wait until what all came to is as wanted; return it."""
    found = []

    async def is_there():
        found[:] = [
            await asyncio.to_thread(books(here).totals, time.time() - 600, time.time() + 60)
        ]
        return is_so(found[0])

    await until(is_there)
    return found[0]


async def test_calls_and_their_cost_are_in_the_history_within_moments(here):
    here.provider._script = [Reply.text(tokens=Tokens(7, 3))] * 5
    for n in range(5):
        await here.ask(headers=JSON, body=chat(f"What is {n} + {n}?"))
    total = await totals(here, lambda one: one.calls == 5)
    assert (total.input_tokens, total.output_tokens) == (35, 15)
    assert total.cost_usd == pytest.approx(35 * 0.001 + 15 * 0.002)
    (share,) = books(here).top("model", 0, 1e12)
    assert (share.name, share.spent.calls) == ("gpt-5.3", 5)


async def test_a_loop_is_saved_at_what_its_input_costs_or_more(here):
    for _ in range(9):
        await here.ask(headers=JSON, body=chat("Again?"))
    await until(
        lambda: any(one.refused == 4 for one in here.app.recorder.history.incidents().items)
    )
    (one,) = here.app.recorder.history.incidents().items
    assert one.saved_usd > 0.001 * 4
    saved = here.app.recorder.tracker.saved
    total = await totals(here, lambda now: now.refused == 4 and now.saved == saved)
    assert total.calls == 9
    assert total.saved_usd == pytest.approx(one.saved_usd)


async def test_a_loop_that_passed_with_warnings_first_is_saved_at_its_own_cost(here):
    here.provider._script = [Reply.text(tokens=Tokens(1_000, 500))] * 20
    for n in range(10):
        stuck = [one for _ in range(n) for one in rounds(1, failed=[0])[1:]]
        await here.ask(headers=JSON, body=messages([*rounds(0), *stuck]))
    await until(lambda: any(one.refused for one in here.app.recorder.history.incidents().items))
    (one,) = here.app.recorder.history.incidents().items
    assert one.priced > 0
    assert one.spent_usd == pytest.approx(2.0 * one.paid)
    looped = await totals(here, lambda total: total.looped and total.cost)
    assert looped.looped_usd == pytest.approx(one.spent_usd)
    assert looped.looped_usd <= looped.cost_usd, "it is a part of what was spent"
    assert one.saved_usd == pytest.approx(2.0 * one.refused)
    assert one.projected_usd_an_hour == pytest.approx(2.0 * one.calls * 60, rel=0.2)


def messages(given):
    return msgspec.json.encode({"model": "gpt-5.3", "messages": given})


async def test_a_model_without_a_price_is_told_as_unpriced(here):
    await here.ask(headers=JSON, body=chat("Hi", model="nobody-knows-it"))
    total = await totals(here, lambda one: one.calls == 1)
    assert (total.unpriced, total.cost_usd) == (1, None)


async def test_agents_have_sessions_and_single_questions_have_none(here):
    await here.ask(headers=JSON, body=chat("What is a loop?"))
    await here.ask(headers=JSON, body=messages(rounds(2)))
    await here.ask(headers=JSON | {"X-Looptrap-Session": "run-42"}, body=chat("Go on."))
    await totals(here, lambda one: one.calls == 3)
    found = await asyncio.to_thread(books(here).sessions, 0.0)
    names = sorted(one.session.session for one in found)
    assert names[0] == "run-42"
    assert names[1].startswith("~")
    assert len(names) == 2
    assert all(one.run.tokens_a_minute(time.time()) > 0 for one in found)


async def test_nothing_is_lost_when_the_gateway_stops(tmp_path):
    async with serving(tmp_path, PRICES) as here:
        for n in range(20):
            await here.ask(headers=JSON, body=chat(f"What is {n} + {n}?"))
    async with serving(tmp_path, PRICES) as here:
        assert books(here).totals(0, 1e12).calls == 20


def test_no_sample_is_taken_of_what_is_paid():
    ledger = UsageRecorder()
    for _ in range(5_000):
        ledger.record(Ticket(call()), Outcome(200, Usage(2, 1), cost=1), 120.0, "openai", "")
    ledger.flush()
    (spent,) = ledger.take().spending.values()
    assert (spent.calls, spent.cost) == (5_000, 5_000)


async def test_the_access_log_has_the_cost_where_it_is_known(tmp_path, capsys):
    async with serving(tmp_path, PRICES, access_log="json") as here:
        here.provider._script = [Reply.text(tokens=Tokens(7, 3))] * 2
        await here.ask(headers=JSON, body=chat("Hi"))
        await here.ask(headers=JSON, body=chat("Hi", model="nobody-knows-it"))
    priced, unpriced = map(msgspec.json.decode, capsys.readouterr().out.splitlines())
    assert priced["cost_usd"] == pytest.approx(0.013)
    assert "cost_usd" not in unpriced
