"""Sums of usage: reports read them instead of rows, and always say the same as the rows."""

import threading
from random import Random

import pytest
from tests.incident.history.keeping import Clock, opened_history
from tests.incident.history.test_usage import DAY, FIRST, HOUR, spent, sweep

from looptrap.usage import table
from looptrap.usage.usage_sum import STEPS, Span

NAMES = ("caller", "project", "provider", "model")


def some_calls(chance, number, since, until):
    """Return calls at random times, of a few callers, projects and models."""
    return [
        (
            chance.randrange(since, until),
            chance.choice(["ann", "bob", "cy", ""]),
            chance.choice(["p", "q"]),
            chance.choice(["gpt", "claude"]),
            chance.choice([None, 1, 10**9]),
        )
        for _ in range(number)
    ]


def reports(books, chance):
    """Return what books say of random times, in every way that can be asked."""
    found = []
    for _ in range(12):
        since = FIRST + chance.randrange(-HOUR, 3 * DAY)
        until = since + chance.choice([60, 300, HOUR, 5 * HOUR + 77, DAY, 3 * DAY])
        caller = chance.choice(["ann", "nobody"])
        for only in ({}, {"caller": caller}, {"model": "gpt", "project": "p"}):
            found.append(("totals", books.totals(since, until, only)))
            for by in NAMES:
                order = chance.choice(["cost", "calls", "tokens", "refused"])
                shares = books.top(by, since, until, order=order, only=only)
                found.append((by, order, [(one.name, one.spent) for one in shares]))
            for step in (60, 300, 1_800, 5_400, HOUR, DAY):
                how = {"utc_offset": chance.choice([0, HOUR, 19_800]), "only": only}
                found.append(("series", books.series(since, until, step, **how)))
                by, limit = chance.choice(NAMES), chance.choice([1, 2, 10])
                found.append((by, books.series(since, until, step, by, limit, **how)))
    return found


def from_rows(monkeypatch):
    """Let reports read rows only."""
    monkeypatch.setattr(table, "cover", lambda _, since, until, *__: [Span(0, since, until)])


def number_of_sums(history):
    return history._database.query("SELECT count(*) FROM usage_sum WHERE dimension = ''")[0][0]


@pytest.mark.parametrize("seed", range(2))
def test_they_say_what_the_rows_say(history, clock, monkeypatch, seed):
    chance = Random(seed)
    for _ in range(3):
        clock.now += chance.randrange(DAY)
        since, until = int(clock.now - FIRST) - 3 * DAY, int(clock.now - FIRST)
        history.put(spending=spent(*some_calls(chance, 150, since, until)))
        sweep(history)
        # Late ones: they change what is summed up.
        history.put(spending=spent(*some_calls(chance, chance.choice([0, 3]), since, until)))
        assert number_of_sums(history) > 100
        asked = chance.random()
        summed = reports(history.usage, Random(asked))
        with monkeypatch.context() as patched:
            from_rows(patched)
            assert reports(history.usage, Random(asked)) == summed


def test_shares_say_the_first_and_the_last_minute(history, clock):
    calls = [(0, "ann", "", "m", 1), (3 * HOUR + 65, "ann", "", "m", 1), (HOUR, "bob", "", "m", 1)]
    history.put(spending=spent(*calls))
    clock.now = FIRST + DAY
    sweep(history)
    found = history.usage.top("caller", FIRST, FIRST + DAY)
    assert {one.name: (one.first - FIRST, one.last - FIRST) for one in found} == {
        "ann": (0, 3 * HOUR + 60), "bob": (HOUR, HOUR),
    }  # fmt: skip


def test_a_report_of_what_is_over_reads_few_rows(history, clock):
    history.put(spending=spent(*some_calls(Random(1), 500, 0, DAY)))
    clock.now = FIRST + 2 * DAY
    sweep(history)
    with history._database.read() as connection:
        spans = table.cover(connection, int(FIRST), int(FIRST) + DAY)
    assert {one.step for one in spans} <= set(STEPS)
    assert sum((one.until - one.since) // one.step for one in spans) < 60


@pytest.mark.parametrize("late", [60, 3 * HOUR], ids=["a while", "hours"])
def test_what_comes_late_is_in_the_next_report(history, clock, late):
    history.put(spending=spent((0, "ann", "", "m", 1)))
    clock.now = FIRST + DAY
    sweep(history)
    before = number_of_sums(history)
    history.put(spending=spent((late, "ann", "", "m", 4)))
    assert number_of_sums(history) < before
    assert history.usage.totals(FIRST, FIRST + DAY).cost == 5
    sweep(history)
    assert number_of_sums(history) == before
    assert history.usage.totals(FIRST, FIRST + DAY).cost == 5


def test_what_has_just_ended_is_not_summed_up_yet(history, clock):
    history.put(spending=spent((0, "ann", "", "m", 1)))
    clock.now = FIRST + 300 + 179
    sweep(history)
    assert number_of_sums(history) == 0
    clock.now += 1
    sweep(history)
    assert number_of_sums(history) == 1


def test_sums_of_dropped_usage_go_with_it(keep, clock):
    history = keep(keep=10 * DAY)
    clock.now = FIRST + DAY
    history.put(spending=spent((0, "a", "", "m", 1), (2 * HOUR, "a", "", "m", 2)))
    sweep(history)
    assert history.usage.totals(0, FIRST + DAY).cost == 3
    clock.now = FIRST + 10 * DAY + HOUR
    sweep(history)
    assert history.usage.totals(0, FIRST + DAY).cost == 2
    assert history._database.query("SELECT min(start) FROM usage_sum")[0][0] >= FIRST - DAY
    clock.now = FIRST + 20 * DAY
    sweep(history)
    assert number_of_sums(history) == 0


@pytest.mark.slow
def test_who_sums_up_waits_for_those_that_write(postgres):
    url, clock = postgres.new_schema(), Clock(FIRST + DAY)
    one, two = (opened_history(url, clock=clock) for _ in range(2))
    one.put(spending=spent((0, "ann", "", "m", 1)))
    sweeping = threading.Thread(target=lambda: sweep(two))
    try:
        with one._database.write() as connection:
            late = spent((60, "ann", "", "m", 4))
            table.put_usage(connection, table.spending_rows("x", late), [])
            sweeping.start()
            sweeping.join(0.3)
            assert sweeping.is_alive()
        sweeping.join(60)
        assert number_of_sums(two) > 0
        assert two.usage.totals(FIRST, FIRST + DAY).cost == 5
    finally:
        sweeping.join(60)
        one.close()
        two.close()
