"""Rollups: reports read them instead of rows, and always say the same as the rows."""

import threading
from random import Random

import pytest
from tests.incident.history.keeping import NOON, Clock, opened_history
from tests.incident.history.test_calls import logged
from tests.incident.history.test_usage import DAY, FIRST, HOUR, spent, sweep
from tests.store.serving import until

from looptrap.incident.history.batch import StorableBatch
from looptrap.usage import call_log, rollup, table
from looptrap.usage.call_log import CallFilter, CallLogSettings
from looptrap.usage.rollup import STEPS, Span

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
        since = FIRST + chance.randrange(-16 * DAY, 3 * DAY)
        until = since + chance.choice([60, 300, HOUR, 5 * HOUR + 77, DAY, 3 * DAY, 20 * DAY])
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


def random_calls(chance, number, since, until):
    """Return calls at random times of the last day, some refused, some for several calls."""
    kinds = [{}, {}, {"verdict": "warn"}, {"verdict": "block", "provider": ""}]
    return [
        logged(
            chance.uniform(since, until),
            weight=chance.choice([1, 1, 7]),
            caller=chance.choice(["ann", "bob"]),
            cost=chance.choice([None, 1, 10**9]),
            shadow=chance.choice(["", "block"]),
            **chance.choice(kinds),
        )
        for _ in range(number)
    ]


def charts(history, chance):
    """Return the charts of random times and steps."""
    found = []
    for _ in range(40):
        since = chance.choice([None, NOON - DAY + chance.uniform(0, DAY)])
        length = chance.choice([60, 300, 3_600, 5 * 3_600 + 77, DAY])
        until = None if since is None else since + length
        only = chance.choice([{}, {}, {"caller": "ann"}, {"verdict": "refused"}])
        wanted = CallFilter(since=since, until=until, **only)
        found.append(history.calls.series(wanted, chance.choice([60, 300, 1_800, 3_600, DAY])))
    return found


def from_rows(monkeypatch):
    """Let reports read rows only."""
    for module in (table, call_log):
        monkeypatch.setattr(
            module, "cover", lambda _, __, since, until, *___: [Span(0, since, until)]
        )


def number_of_rollups(history, of="usage"):
    return history._database.query("SELECT count(*) FROM rollup WHERE dimension = ?", (of,))[0][0]


@pytest.mark.parametrize("seed", range(2))
def test_they_say_what_the_rows_say(history, clock, monkeypatch, seed):
    chance = Random(seed)
    for _ in range(3):
        clock.now += chance.randrange(DAY)
        since, until = int(clock.now - FIRST) - 16 * DAY, int(clock.now - FIRST)
        history.put(spending=spent(*some_calls(chance, 300, since, until)))
        sweep(history)
        # Late ones: they change what is rolled up.
        history.put(spending=spent(*some_calls(chance, chance.choice([0, 3]), since, until)))
        assert number_of_rollups(history) > 100
        asked = chance.random()
        rolled_up = reports(history.usage, Random(asked))
        with monkeypatch.context() as patched:
            from_rows(patched)
            assert reports(history.usage, Random(asked)) == rolled_up


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
    history.put(spending=spent(*some_calls(Random(1), 500, -HOUR, DAY)))
    clock.now = FIRST + 2 * DAY
    sweep(history)
    with history._database.read() as connection:
        spans = table.cover(connection, table.ROLLED_UP, int(FIRST), int(FIRST) + DAY)
    assert {one.step for one in spans} <= set(STEPS)
    assert sum((one.until - one.since) // one.step for one in spans) < 60


@pytest.mark.parametrize("late", [60, 3 * HOUR], ids=["a while", "hours"])
def test_what_comes_late_is_in_the_next_report(history, clock, late):
    history.put(spending=spent((0, "ann", "", "m", 1)))
    clock.now = FIRST + DAY
    sweep(history)
    before = number_of_rollups(history)
    history.put(spending=spent((late, "ann", "", "m", 4)))
    assert number_of_rollups(history) < before
    assert history.usage.totals(FIRST, FIRST + DAY).cost == 5
    sweep(history)
    assert number_of_rollups(history) == before
    assert history.usage.totals(FIRST, FIRST + DAY).cost == 5


def test_what_has_just_ended_is_not_rolled_up_yet(history, clock):
    history.put(spending=spent((0, "ann", "", "m", 1)))
    clock.now = FIRST + 300 + 179
    sweep(history)
    assert number_of_rollups(history) == 0
    clock.now += 1
    sweep(history)
    assert number_of_rollups(history) == 1


def test_rollups_of_dropped_usage_go_with_it(keep, clock):
    history = keep(keep=10 * DAY)
    clock.now = FIRST + DAY
    history.put(spending=spent((0, "a", "", "m", 1), (2 * HOUR, "a", "", "m", 2)))
    sweep(history)
    assert history.usage.totals(0, FIRST + DAY).cost == 3
    clock.now = FIRST + 10 * DAY + HOUR
    sweep(history)
    assert history.usage.totals(0, FIRST + DAY).cost == 2
    assert history._database.query("SELECT min(start) FROM rollup")[0][0] > FIRST
    clock.now = FIRST + 20 * DAY
    sweep(history)
    assert number_of_rollups(history) == 0


def test_what_will_be_dropped_next_is_not_rolled_up(keep, clock):
    history = keep()
    history.put(spending=spent((HOUR // 2, "ann", "", "m", 1), (3 * HOUR, "ann", "", "m", 1)))
    clock.now = FIRST + DAY
    sweep(history)
    [(first,)] = history._database.query("SELECT min(start) FROM rollup WHERE step = 3600")
    assert first == FIRST + HOUR


@pytest.mark.parametrize("seed", range(3))
def test_charts_say_what_the_rows_say(keep, place, monkeypatch, seed):
    history, chance = keep(place, call_log=CallLogSettings(keep=DAY)), Random(seed)
    history.put(calls=random_calls(chance, 300, -1.5 * DAY, 0))
    sweep(history)
    # Late ones: they change what is rolled up.
    history.put(calls=random_calls(chance, chance.choice([0, 3]), -DAY, 0))
    asked = chance.random()
    rolled_up = charts(history, Random(asked))
    assert number_of_rollups(history, "calls") > 100
    from_rows(monkeypatch)
    assert charts(history, Random(asked)) == rolled_up


def test_a_chart_of_what_is_over_reads_few_rows(history, clock):
    history.put(calls=random_calls(Random(1), 500, -HOUR, DAY))
    clock.now = NOON + 1.5 * DAY
    sweep(history)
    with history._database.read() as connection:
        spans = call_log.cover(connection, call_log.ROLLED_UP, NOON, NOON + DAY)
    assert 0 not in {one.step for one in spans}
    assert sum((one.until - one.since) // one.step for one in spans) < 60


@pytest.mark.parametrize(
    "kept", [{"keep": DAY}, {"max_rows": 1_000}], ids=["in time", "by their number"]
)
def test_rollups_of_dropped_calls_go_with_them(keep, place, clock, kept):
    history = keep(place, call_log=CallLogSettings(**kept))
    history.put(calls=[logged(n * 60) for n in range(1_200)])
    clock.now = NOON + 0.9 * DAY
    sweep(history)
    clock.now = NOON + DAY + 200 * 60
    history.put(calls=[logged(clock.now - NOON - 1)] * 2)
    sweep(history)
    [(_, figures)] = history.calls.series(CallFilter(), 1 << 40)
    assert figures.calls == len(history.calls.page(CallFilter(), 5_000).items) <= 1_002


def test_what_another_instance_has_just_rolled_up_is_left_alone(history, clock, monkeypatch):
    history.put(spending=spent((0, "ann", "", "m", 1)))
    clock.now = FIRST + DAY
    sweep(history)
    monkeypatch.setattr(rollup, "ReportRows", None)
    with history._database.write() as connection:
        rollup._make(connection, table.ROLLED_UP, HOUR, int(FIRST))
    assert history.usage.totals(FIRST, FIRST + HOUR).cost == 1


@pytest.mark.slow
def test_who_rolls_up_waits_for_those_that_write_late(postgres):
    url, clock = postgres.new_schema(), Clock(FIRST + DAY)
    one, two = (opened_history(url, clock=clock) for _ in range(2))
    one.put(spending=spent((0, "ann", "", "m", 1)))

    def make():
        with two._database.write() as connection:
            rollup._make(connection, table.ROLLED_UP, 300, int(FIRST))

    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    making = threading.Thread(target=make)
    try:
        with one._database.write() as connection:
            late = table.spending_rows("x", spent((60, "ann", "", "m", 4)))
            StorableBatch(spending=late).put(connection)
            making.start()
            until(lambda: not making.is_alive() or postgres.execute(waiting))
            assert making.is_alive()
        making.join(60)
        assert number_of_rollups(two) == 1
        assert two.usage.totals(FIRST, FIRST + DAY).cost == 5
    finally:
        making.join(60)
        one.close()
        two.close()


@pytest.mark.slow
def test_who_writes_what_has_just_happened_does_not_wait_for_who_rolls_up(postgres, monkeypatch):
    url, clock = postgres.new_schema(), Clock(FIRST + DAY)
    one, two = (opened_history(url, clock=clock) for _ in range(2))
    one.put(spending=spent((0, "ann", "", "m", 1)))
    made = []

    def make(connection, *what):
        rollup_made(connection, *what)
        if not made:
            one.put(spending=spent((DAY, "ann", "", "m", 4)))
        made.append(what)

    rollup_made = rollup._make
    monkeypatch.setattr(rollup, "_make", make)
    try:
        sweep(two)
        assert two.usage.totals(FIRST, FIRST + 2 * DAY).cost == 5
    finally:
        one.close()
        two.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_no_rollup_lacks_what_is_written_meanwhile(postgres, monkeypatch, seed):
    url, clock = postgres.new_schema(), Clock(FIRST + DAY)
    fleet = [opened_history(url, clock=clock) for _ in range(5)]
    done = threading.Event()

    def write(history, chance):
        for _ in range(40):
            calls = some_calls(chance, 5, 0, DAY)
            log = [logged(at + FIRST - NOON, cost=cost) for at, *_, cost in calls]
            history.put(spending=spent(*calls), calls=log)

    def keep_sweeping(history):
        while not done.is_set():
            history.sweep()

    writers = [threading.Thread(target=write, args=(one, Random(f"{seed}{n}")))
               for n, one in enumerate(fleet[:3])]  # fmt: skip
    sweepers = [threading.Thread(target=keep_sweeping, args=(one,)) for one in fleet[3:]]
    try:
        for one in [*writers, *sweepers]:
            one.start()
        for one in writers:
            one.join()
        done.set()
        for one in sweepers:
            one.join()
        sweep(fleet[0])
        rolled_up = reports(fleet[1].usage, Random(seed)), charts(fleet[1], Random(seed))
        assert min(number_of_rollups(fleet[1], of) for of in ("usage", "calls")) > 300
        from_rows(monkeypatch)
        assert (reports(fleet[1].usage, Random(seed)), charts(fleet[1], Random(seed))) == rolled_up
        [(_, log)] = fleet[1].calls.series(CallFilter(), 1 << 40)
        assert (log.calls, fleet[1].usage.totals(0, FIRST + 2 * DAY).calls) == (600, 600)
    finally:
        done.set()
        for one in fleet:
            one.close()
