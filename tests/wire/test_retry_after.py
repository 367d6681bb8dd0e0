"""When a server asks to be left alone, and for how long."""

import pytest

from looptrap.wire.header_fields import parse_retry_after

NOW = 1_794_000_000.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param("0", 0.0, id="at once"),
        pytest.param("120", 120.0, id="seconds"),
        pytest.param("1.5", 1.5, id="with a fraction"),
        pytest.param("-5", 0.0, id="negative"),
        pytest.param("9" * 400, None, id="no number of seconds"),
        pytest.param("Fri, 06 Nov 2026 21:21:00 GMT", 60.0, id="a date"),
        pytest.param("Fri, 06 Nov 2020 21:21:00 GMT", 0.0, id="a date gone by"),
        pytest.param("\u0663", None, id="other digits"),
        pytest.param("soon", None, id="a word"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_reads_numbers_and_dates(value, seconds):
    assert parse_retry_after(value, NOW) == seconds


def test_a_date_is_told_from_that_of_the_answer_where_it_says_one():
    until, sent = "Fri, 06 Nov 2026 21:21:00 GMT", "Fri, 06 Nov 2026 21:20:30 GMT"
    assert parse_retry_after(until, NOW, sent) == 30.0
    assert parse_retry_after(until, None, sent) == 30.0
    assert parse_retry_after(until, None) is None
