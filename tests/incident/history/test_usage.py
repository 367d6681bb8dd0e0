"""Spending in the history: it adds up over writers and restarts, and old minutes become hours."""

import pytest
from tests.incident.history.keeping import NOON, incident
from tests.incident.history.test_processes import TIME_OUT, child

from looptrap.database import sqlite_schema as schema
from looptrap.database.sqlite import SqliteDatabase
from looptrap.dialect.model import Outcome, Usage
from looptrap.incident.history import HistoryWriter, WriteBatch
from looptrap.incident.history.incident_table import PART_COLUMNS, part_row
from looptrap.usage import table
from looptrap.usage.recorder import UsageAccumulator

HOUR, DAY = 3_600, 86_400
FIRST = NOON - NOON % HOUR
DOLLAR = 1_000_000_000


def spent(*calls):
    """Return what calls came to: (seconds, caller, project, model, cost), and a session."""
    spending = UsageAccumulator()
    for at, caller, project, model, cost, *session in calls:
        outcome = Outcome(200, Usage(10, 5), False, cost)
        spending.add(FIRST + at, caller, project, "openai", model, outcome, *session)
    return spending.take()


SOME = [
    (0, "ann", "research", "gpt", DOLLAR),
    (30, "ann", "research", "gpt", 2 * DOLLAR),
    (90, "bob", "research", "claude", 4 * DOLLAR),
    (HOUR + 5, "bob", "", "gpt", None),
]


@pytest.fixture
def books(history):
    history.put(spending=spent(*SOME))
    return history.usage


def costs(found):
    return {one.name: one.spent.cost // DOLLAR for one in found}


def test_totals_are_what_all_calls_came_to(books):
    total = books.totals(FIRST, FIRST + DAY)
    assert (total.calls, total.input_tokens, total.output_tokens) == (4, 40, 20)
    assert (total.cost, total.unpriced, total.cost_usd) == (7 * DOLLAR, 1, 7.0)


def test_where_there_was_nothing_the_total_is_nothing(books):
    assert books.totals(FIRST - DAY, FIRST - HOUR).calls == 0


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("caller", {"bob": 4, "ann": 3}),
        ("project", {"research": 7, "": 0}),
        ("model", {"claude": 4, "gpt": 3}),
        ("provider", {"openai": 7}),
    ],
)
def test_shares_are_told_by_whatever_is_asked_the_highest_first(books, by, expected):
    found = books.top(by, FIRST, FIRST + DAY)
    assert list(costs(found).items()) == list(expected.items())
    assert costs(books.top(by, FIRST, FIRST + DAY, limit=1)) == dict([*expected.items()][:1])


@pytest.mark.parametrize(
    ("order", "first"), [("cost", "bob"), ("calls", "ann"), ("tokens", "ann"), ("refused", "cy")]
)
def test_the_first_have_most_of_what_is_asked(books, history, order, first):
    batch = spent((0, "cy", "", "m", 1), (0, "ann", "", "m", 0))
    for (_, spender), one in batch.spending.items():
        one.refused += spender.caller == "cy"
    history.put(spending=batch)
    assert books.top("caller", FIRST, FIRST + DAY, order=order)[0].name == first


def test_what_is_no_column_is_refused(books):
    with pytest.raises(ValueError, match="is unknown, must be one of"):
        books.top("calls; DROP TABLE part", FIRST, FIRST + DAY)
    with pytest.raises(ValueError, match="is unknown, must be one of"):
        books.sessions(0, order="x")


@pytest.mark.parametrize(
    ("step", "calls"),
    [
        (60, {0: 2, 60: 1, HOUR: 1}),
        (HOUR, {0: 3, HOUR: 1}),
        (DAY, {-(FIRST % DAY): 4}),
    ],
    ids=["minutes", "hours", "days"],
)
def test_a_series_tells_it_step_by_step(books, step, calls):
    points = books.series(FIRST, FIRST + DAY, step)
    assert {point.time - FIRST: point.spent.calls for point in points} == calls
    assert {point.name for point in points} == {""}


@pytest.mark.parametrize("hours", [-11, 0, 1, 9])
def test_days_of_a_series_begin_at_midnight_of_the_zone(books, hours):
    points = books.series(FIRST, FIRST + DAY, DAY, utc_offset=hours * HOUR)
    assert sum(point.spent.calls for point in points) == books.totals(FIRST, FIRST + DAY).calls
    assert all((point.time + hours * HOUR) % DAY == 0 for point in points)


def test_a_series_tells_the_costliest_apart_and_the_rest_as_one(books):
    points = books.series(FIRST, FIRST + DAY, HOUR, "caller", limit=1)
    told = [(point.time - FIRST, point.name, point.spent.calls) for point in points]
    assert told == [(0, "bob", 1), (0, "other", 2), (HOUR, "bob", 1)]


def test_who_is_called_like_the_rest_is_told_with_it(history):
    calls = [(0, "other", "", "m", 4), (0, "ann", "", "m", 2), (HOUR, "ann", "", "m", 1)]
    history.put(spending=spent(*calls))
    points = history.usage.series(FIRST, FIRST + DAY, HOUR, "caller", limit=1)
    told = [(point.time - FIRST, point.name, point.spent.cost) for point in points]
    assert told == [(0, "other", 6), (HOUR, "other", 1)]


@pytest.mark.parametrize("name", ["it's", '"', "größer", "\ud800", "a\0b", "'; DROP TABLE part"])
def test_any_name_can_be_kept(history, name):
    batch = spent((0, name, name, name, 1, name))
    history.put(spending=batch)
    assert history.usage.top("model", FIRST, FIRST + DAY)[0].spent.calls == 1
    assert history.usage.series(FIRST, FIRST + DAY, 60, "caller")[0].spent.calls == 1
    assert len(history.usage.sessions(0)) == 1


@pytest.mark.parametrize(
    "pair", [("a\0b", "a\ufffdb"), ("\ud800", "?")], ids=["NUL", "half a pair"]
)
def test_names_that_become_one_when_they_are_kept_add_up(history, pair):
    calls = [(0, name, "", name, 5, name) for name in pair]
    history.put(spending=spent(*calls))
    assert history.usage.totals(FIRST, FIRST + DAY).cost == 10
    assert sum(one.run.cost for one in history.usage.sessions(0)) == 10
    for name in pair:
        found = history.usage.totals(FIRST, FIRST + DAY, {"caller": name.replace("\ud800", "?")})
        assert found.cost in (5, 10)


def test_figures_that_no_provider_can_mean_are_bounded(history):
    batch = spent((0, "ann", "", "m", 1))
    [totals] = batch.spending.values()
    totals.input_tokens, totals.output_tokens = -(1 << 80), 1 << 80
    history.put(spending=batch)
    assert history.usage.totals(FIRST, FIRST + DAY).tokens == 0


class TestBurn:
    """What is used a minute at present: of the minute that is open, or of the one before."""

    @pytest.mark.parametrize(
        ("now", "burning"),
        [
            pytest.param(119, {"bob": 15, "ann": 30}, id="both minutes count"),
            pytest.param(179, {"bob": 15, "ann": 0}, id="two minutes later"),
            pytest.param(240, {"bob": 0, "ann": 0}, id="all is quiet"),
        ],
    )
    def test_it_is_told_by_caller(self, history, clock, now, burning):
        calls = [(0, "ann", "", "m", 1), (30, "ann", "", "m", 1), (90, "bob", "", "m", 4)]
        history.put(spending=spent(*calls))
        clock.now = FIRST + now
        found = history.usage.top("caller", FIRST, FIRST + DAY, order="burn")
        assert {one.name: one.burn for one in found} == burning
        assert [one.burn for one in found] == sorted(burning.values(), reverse=True)
        assert {one.name: (one.first - FIRST, one.last - FIRST) for one in found} == {
            "ann": (0, 0), "bob": (60, 60)
        }  # fmt: skip

    def test_sessions_that_burn_come_first(self, history, clock):
        old = [(0, "ann", "", "m", 1, "long ago")] * 5
        history.put(spending=spent(*old, (3_000, "ann", "", "m", 1, "now")))
        clock.now = FIRST + 3_010
        found = history.usage.sessions(FIRST, order="burn")
        assert [one.session.session for one in found] == ["now", "long ago"]


class TestSessions:
    def test_they_add_up_and_are_told_with_the_tokens_of_their_latest_minute(self, history):
        history.put(
            spending=spent((0, "ann", "", "gpt", 1, "run"), (70, "ann", "", "gpt", 1, "run"))
        )
        history.put(spending=spent((80, "ann", "", "new", 1, "run")))
        history.put(spending=spent((10, "ann", "", "old", 1, "run")))
        ((session, run),) = history.usage.sessions(FIRST)
        assert session == ("ann", "", "run")
        assert (run.first, run.last, run.calls, run.tokens) == (FIRST, FIRST + 80, 4, 60)
        assert (run.model, run.cost, run.minute, run.used) == ("new", 4, FIRST + 60, 30)

    def test_only_those_with_a_call_since_then_are_told(self, history):
        calls = [(n * 100, "ann", "", "gpt", 1, f"run-{n}") for n in range(5)]
        history.put(spending=spent(*calls))
        found = [one.session.session for one in history.usage.sessions(FIRST + 300)]
        assert found == ["run-4", "run-3"]

    def test_quiet_ones_go_after_a_week(self, history, clock):
        history.put(spending=spent((0, "a", "", "m", 1, "old"), (6 * DAY, "a", "", "m", 1, "new")))
        clock.now = FIRST + 7 * DAY + 1
        while history.sweep():
            pass
        assert [one.session.session for one in history.usage.sessions(0)] == ["new"]

    def test_of_very_many_the_longest_quiet_go(self, history, clock, monkeypatch):
        monkeypatch.setattr(table, "MAX_SESSION_ROWS", 3)
        history.put(spending=spent(*[(n, "a", "", "m", 1, f"run-{n}") for n in range(8)]))
        while history.sweep():
            pass
        kept = [one.session.session for one in history.usage.sessions(0)]
        assert sorted(kept) == ["run-5", "run-6", "run-7"]


def sweep(history):
    while history.sweep():
        pass


class TestRetention:
    def rows(self, history):
        with history._database.read() as connection:
            return connection.execute(
                "SELECT start, calls FROM spending ORDER BY start, caller"
            ).fetchall()

    def test_minutes_become_hours_after_two_days_and_sums_stay(self, history, clock):
        minutes = [(60 * n, caller, "", "m", n) for n in range(150) for caller in ("a", "b")]
        history.put(spending=spent(*minutes))
        before = costs(history.usage.top("caller", FIRST, FIRST + DAY))
        clock.now = FIRST + 2 * DAY + HOUR - 1
        sweep(history)
        assert len(self.rows(history)) == 300, "not before the hour is two days over"
        clock.now = FIRST + 2 * DAY + 2 * HOUR
        sweep(history)
        hours = [(FIRST, 60)] * 2 + [(FIRST + HOUR, 60)] * 2
        assert self.rows(history)[:4] == hours
        assert len(self.rows(history)) == 4 + 2 * 30, "the third hour is still in minutes"
        assert costs(history.usage.top("caller", FIRST, FIRST + DAY)) == before

    def test_what_comes_late_is_added_to_its_hour(self, history, clock):
        history.put(spending=spent((60, "a", "", "m", 1)))
        clock.now = FIRST + 3 * DAY
        sweep(history)
        history.put(spending=spent((120, "a", "", "m", 1), (0, "a", "", "m", 1)))
        sweep(history)
        assert self.rows(history) == [(FIRST, 3)]

    def test_all_of_it_goes_when_it_is_old(self, keep, clock):
        history = keep(keep=10 * DAY)
        history.put(spending=spent((0, "a", "", "m", 1), (5 * DAY, "a", "", "m", 1)))
        clock.now = FIRST + 11 * DAY
        sweep(history)
        assert self.rows(history) == [(FIRST + 5 * DAY, 1)]

    def test_for_want_of_room_the_oldest_goes_be_it_spending_or_an_incident(self, keep, clock):
        history = keep(max_size=1 << 20)
        clock.now = FIRST + 1000 * HOUR
        models = [(HOUR * n, "a", "", f"{'m' * 100}{k}", 1) for n in range(60) for k in range(200)]
        history.put(spending=spent(*models))
        recent = FIRST + 100 * HOUR
        closed = [incident(n, opened=recent, last=recent, closed=recent) for n in range(20)]
        history.put(closed)
        sweep(history)
        starts = [start for start, _ in self.rows(history)]
        assert FIRST < starts[0] < starts[-1] == FIRST + 59 * HOUR
        assert len(history.incidents(limit=100).items) == 20


def test_a_restart_goes_on_where_it_was(keep):
    first = keep()
    first.put(spending=spent(*SOME))
    first.close()
    again = keep()
    again.put(spending=spent(SOME[0]))
    assert costs(again.usage.top("caller", FIRST, FIRST + DAY)) == {"ann": 4, "bob": 4}


def test_a_history_from_before_gets_the_tables(keep, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        old = SqliteDatabase(str(tmp_path / "looptrap.db"), "old")
        old.open()
        row = dict(zip(PART_COLUMNS, part_row(incident(1)), strict=True))
        del row["model"]
        names, places = ", ".join(row), ", ".join("?" * len(row))
        with old.write() as connection:
            connection.execute(f"INSERT INTO part ({names}) VALUES ({places})", [*row.values()])
        old.close()
    new = keep()
    new.put(spending=spent(*SOME))
    assert len(new.incidents().items) == 1
    assert new.usage.totals(FIRST, FIRST + DAY).calls == 4


SPENDS = """
    import sys
    from tests.incident.history.keeping import opened_history
    from tests.incident.history.test_usage import spent
    history = opened_history(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(100):
        history.put(spending=spent((n, "ann", "", "gpt", 5, "run"), (n, sys.argv[2], "", "gpt", 1)))
"""


def test_workers_that_share_a_file_add_up(keep, tmp_path):
    path = tmp_path / "looptrap.db"
    with child(SPENDS, path, "a") as a, child(SPENDS, path, "b") as b:
        for process in (a, b):
            assert process.stdout.readline() == "ready\n"
        for process in (a, b):
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in (a, b):
            process.communicate(timeout=TIME_OUT)
        assert [process.returncode for process in (a, b)] == [0, 0]
    history = keep()
    found = {name: (one.calls, one.cost) for name, one, *_ in history.usage.top("caller", 0, 1e12)}
    assert found == {"ann": (200, 1000), "a": (100, 100), "b": (100, 100)}
    ((_, run),) = history.usage.sessions(0)
    assert (run.calls, run.tokens) == (200, 3000)


@pytest.mark.parametrize("times", [1, 3], ids=["once", "over and over"])
def test_what_cannot_be_written_now_is_written_later_and_once(keep, times):
    history, now = keep(), 0.0
    work = [WriteBatch(spending=spent(*SOME)) for _ in range(times)]
    writer = HistoryWriter(
        history, lambda _now: work.pop() if work else WriteBatch(), monotonic=lambda: now
    )
    history._database._writer.execute("PRAGMA query_only = ON")
    for _ in range(times):
        writer.run_once()
        now += 2
    assert (writer.failed, writer.lost) == (times, 0)
    assert writer.waiting == 3, "what is of one minute and spender waits as one"
    history._database._writer.execute("PRAGMA query_only = OFF")
    for _ in range(2):
        writer.run_once()
        now += 2
    assert history.usage.totals(FIRST, FIRST + DAY).calls == 4 * times
    assert writer.waiting == 0


def test_what_cannot_be_written_in_the_end_is_counted(keep, caplog):
    history = keep()
    history._database._writer.execute("PRAGMA query_only = ON")
    work = [WriteBatch(spending=spent(*SOME))]
    running = HistoryWriter(history, lambda _now: work.pop() if work else WriteBatch())
    running.start()
    running.stop()
    assert running.lost == 3
    assert (
        "stopped with 3 incidents, events, annotations, usage rows and calls not written"
        in caplog.text
    )


def test_what_providers_make_up_can_be_written_and_added_up(history):
    """Each call costs as much as one can; the sum of the rows would not fit into one."""
    for number in range(1_100):
        history.put(spending=spent((60 * number, "ann", "", "gpt", 1 << 53, "run")))
    history.put(spending=spent(*[(0, "ann", "", "gpt", 1 << 53, "run")] * 1_100))
    total = history.usage.totals(FIRST, FIRST + 2 * DAY)
    assert total.cost > 1 << 62
    assert history.usage.top("caller", FIRST, FIRST + 2 * DAY)[0].name == "ann"
    assert history.usage.sessions(FIRST)[0].run.cost == table.MAX_FIGURE
