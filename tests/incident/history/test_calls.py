"""Logged calls in the history: found by every filter, page by page, and dropped in time."""

import sqlite3

import pytest
from tests.incident.history.keeping import NOON, incident
from tests.incident.history.test_retention import DAY, sweep_all

from looptrap.database import sqlite_schema as schema
from looptrap.usage import call_log
from looptrap.usage.call_log import CallFilter, CallLogSettings, CallRow


def logged(offset=0.0, **fields):
    values = {
        "time": NOON + offset, "weight": 1, "caller": "ann", "project": "", "session": "run",
        "agent": "Codex", "model": "gpt", "provider": "openai", "dialect": "chat", "status": 200,
        "verdict": "allow", "shadow": "", "reason": "", "policy": "", "rule": "",
        "input_tokens": 10, "output_tokens": 5, "cached_tokens": 0, "is_estimated": False,
        "cost": 2_000, "latency": 0.5, "first_byte": 0.1, "is_stream": False, "is_cut_off": False,
        "request_id": "",
    }  # fmt: skip
    return CallRow(**values | fields)


REFUSED = {"verdict": "block", "provider": "", "status": 429, "rule": "no-progress", "cost": 0}


def numbers(page):
    return [one.number for one in page.items]


def test_a_call_is_read_as_it_was_written(history):
    row = logged(is_stream=True, cost=None, first_byte=None, is_cut_off=True)
    history.put(calls=[row])
    assert history.calls.call(1).row == row
    assert history.calls.call(2) is None
    assert history.calls.last() == 1


CALLS = [
    logged(0),
    logged(1, caller="bob", session="", agent="", model="opus", provider="anthropic", cost=None),
    logged(2, **REFUSED, request_id="lt-9"),
    logged(3, shadow="block", rule="same-error", project="research"),
    logged(4, status=502, latency=30.0, cost=9_000_000),
    logged(5, verdict="block", is_cut_off=True, rule="chant"),
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [6, 5, 4, 3, 2, 1]),
        ({"caller": "bob"}, [2]),
        ({"project": "research"}, [4]),
        ({"session": "run"}, [6, 5, 4, 3, 1]),
        ({"session": ""}, []),
        ({"agent": "Codex", "until": NOON + 1}, [1]),
        ({"model": "opus"}, [2]),
        ({"provider": "anthropic"}, [2]),
        ({"verdict": "allow"}, [5, 4, 2, 1]),
        ({"verdict": "block"}, [6, 3]),
        ({"verdict": "refused"}, [3]),
        ({"verdict": "shadow"}, [4]),
        ({"verdict": "nudge"}, []),
        ({"rule": "same-error"}, [4]),
        ({"min_status": 400, "max_status": 499}, [3]),
        ({"min_status": 400}, [5, 3]),
        ({"since": NOON + 4}, [6, 5]),
        ({"min_cost": 9_000_000}, [5]),
        ({"min_latency": 10.0}, [5]),
        ({"request_id": "lt-9"}, [3]),
        ({"after": 4}, [6, 5]),
        ({"caller": "ann", "verdict": "refused", "rule": "no-progress"}, [3]),
    ],
    ids=str,
)
def test_calls_are_found_by(history, wanted, found):
    history.put(calls=CALLS)
    assert numbers(history.calls.page(CallFilter(**wanted))) == found


def test_pages_follow_each_other_without_gaps_while_calls_come(history):
    history.put(calls=[logged(n // 3) for n in range(10)])  # three at each time
    found, cursor = [], None
    while True:
        page = history.calls.page(CallFilter(), 4, cursor)
        found += numbers(page)
        history.put(calls=[logged(100)])
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == list(range(10, 0, -1))


@pytest.mark.parametrize("cursor", ["", "1", "x~1", "1~x"])
def test_a_wrong_cursor_is_a_mistake(history, cursor):
    with pytest.raises(ValueError):
        history.calls.page(CallFilter(), 5, cursor)


def test_sums_count_a_row_as_many_times_as_it_weighs(history):
    history.put(calls=[*CALLS, logged(65, weight=50, shadow="warn"), logged(66, verdict="warn")])
    (first, early), (second, late) = history.calls.series(CallFilter(since=NOON), 60)
    assert (first, second) == (NOON, NOON + 60)
    assert (early.calls, early.refused, early.warned, early.shadowed) == (6, 1, 1, 1)
    assert (early.cost, early.unpriced) == (2_000 * 3 + 9_000_000, 1)
    assert (late.calls, late.shadowed, late.warned) == (51, 50, 1)
    assert (late.input_tokens, late.output_tokens, late.cost) == (510, 255, 102_000)


def test_half_a_surrogate_pair_and_figures_beyond_all_bounds_are_written(history):
    history.put(calls=[logged(model="\ud800", input_tokens=1 << 70, cost=1 << 70)])
    row = history.calls.call(1).row
    assert (row.model, row.cost) == ("?", 1 << 53)
    assert history.calls.series(CallFilter(), 60)[0][1].calls == 1


# Retention


def test_calls_go_when_they_are_old_whatever_else_is_kept(keep, clock):
    history = keep(keep=90 * DAY, call_log=CallLogSettings(keep=DAY))
    history.put([incident(1, closed=NOON + 9)], calls=[logged(n * 3_600) for n in range(30)])
    clock.now = NOON + DAY + 3_600 * 10
    sweep_all(history)
    assert numbers(history.calls.page(CallFilter())) == list(range(30, 10, -1))
    assert len(history.incidents().items) == 1


def test_of_more_rows_than_the_limit_the_oldest_go(keep, monkeypatch):
    monkeypatch.setattr(call_log, "SLICE_ROWS", 300)
    history = keep(call_log=CallLogSettings(max_rows=1_000))
    history.put(calls=[logged(n / 1_000) for n in range(2_500)])
    sweep_all(history)
    assert len(history.calls.page(CallFilter(), 5_000).items) == 1_000
    assert history.calls.last() == 2_500


def test_without_a_file_the_limit_is_lower(keep, monkeypatch):
    monkeypatch.setattr("looptrap.incident.history.history.MAX_ROWS_IN_MEMORY", 10)
    history = keep("", call_log=CallLogSettings())
    history.put(calls=[logged() for _ in range(30)])
    sweep_all(history)
    assert len(history.calls.page(CallFilter(), 100).items) == 10


def test_where_the_file_is_too_large_calls_go_before_incidents(keep, clock):
    history = keep(max_size=1 << 20)
    texts = {"message": "m" * 2_000}
    history.put([incident(n, closed=NOON + 9, **texts) for n in range(100)])
    history.put(calls=[logged(n / 10, request_id="r" * 100) for n in range(4_000)])
    sweep_all(history)
    assert len(history.incidents(limit=500).items) == 100
    assert history.calls.page(CallFilter()).items == []


def test_numbers_are_never_used_again(keep, clock):
    history = keep()
    history.put(calls=[logged()])
    clock.now = NOON + 30 * DAY
    sweep_all(history)
    assert history.calls.last() == 0
    history.put(calls=[logged(30 * DAY)])
    assert history.calls.last() == 2


def test_a_history_from_before_gets_the_table(keep, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        before = schema.MIGRATIONS[: schema.MIGRATIONS.index(schema._CALLS)]
        patched.setattr(schema, "MIGRATIONS", before)
        old = keep()
        old.put([incident(1)])
        old.close()
    new = keep()
    new.put(calls=[logged()])
    assert (len(new.incidents().items), new.calls.last()) == (1, 1)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({}, "call_log_time"),
        ({"caller": "ann"}, "call_log_caller"),
        ({"session": "run"}, "call_log_session"),
        ({"verdict": "refused"}, "call_log_acted"),
        ({"verdict": "warn"}, "call_log_acted"),
    ],
    ids=str,
)
def test_a_page_is_read_from_an_index(keep, tmp_path, wanted, index):
    keep().put(calls=CALLS)
    where, values = CallFilter(**wanted).where()
    with sqlite3.connect(tmp_path / "looptrap.db") as connection:
        plan = connection.execute(
            f"EXPLAIN QUERY PLAN SELECT * FROM call_log WHERE {where}"
            " ORDER BY time DESC, number DESC LIMIT 50",
            values,
        ).fetchall()
    connection.close()
    assert [index in step[-1] for step in plan] == [True], plan
