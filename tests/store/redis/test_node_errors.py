"""Errors are all counted, and few are told."""

from looptrap.store.redis.node import StoreErrorLog


def test_tells_one_error_a_second_and_counts_the_others(caplog):
    now = 0.0
    trouble = StoreErrorLog(lambda: now)
    for now in (0.0, 0.1, 0.9, 1.0, 1.5, 3.0):
        trouble.report("redis://cache:6379", f"fault at {now}")
    assert trouble.errors == 6
    told = [record.getMessage() for record in caplog.records]
    more = "more errors since the last line"
    assert told == [
        "store redis://cache:6379: fault at 0.0; counting locally",
        f"store redis://cache:6379: fault at 1.0; counting locally (2 {more})",
        f"store redis://cache:6379: fault at 3.0; counting locally (1 {more})",
    ]
