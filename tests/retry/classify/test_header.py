"""Retry-After in all its forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.retry.failure import retry_after_of

NOW = 1_794_787_200.0  # Mon, 16 Nov 2026 00:00:00 GMT
IN_A_MINUTE = "Mon, 16 Nov 2026 00:01:00 GMT"
A_MINUTE_AGO = "Sun, 15 Nov 2026 23:59:00 GMT"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({"Retry-After": "7"}, 7.0, id="seconds"),
        pytest.param({"retry-after": "0.5"}, 0.5, id="a fraction"),
        pytest.param([(b"RETRY-AFTER", b" 7 ")], 7.0, id="bytes, upper case, blanks"),
        pytest.param({"retry-after-ms": "250", "retry-after": "1"}, 0.25, id="milliseconds win"),
        pytest.param({"retry-after-ms": "soon", "retry-after": "1"}, 1.0, id="unless nonsense"),
        pytest.param({"Retry-After": "-3"}, 0.0, id="negative"),
        pytest.param({"Retry-After": IN_A_MINUTE}, 60.0, id="a date"),
        pytest.param({"Retry-After": A_MINUTE_AGO}, 0.0, id="a date gone by"),
        pytest.param(
            {"Retry-After": IN_A_MINUTE, "Date": A_MINUTE_AGO}, 120.0, id="by the answer's own date"
        ),
        pytest.param(
            {"Retry-After": IN_A_MINUTE, "Date": "yesterday"}, 60.0, id="unless that is nonsense"
        ),
        pytest.param([("Retry-After", "5"), ("Retry-After", "9")], 5.0, id="the first of several"),
        pytest.param({"Retry-After": ""}, None, id="empty"),
        pytest.param({"Retry-After": "soon"}, None, id="a word"),
        pytest.param({"Retry-After": "nan"}, None, id="not a number"),
        pytest.param({"Retry-After": "inf"}, None, id="for ever"),
        pytest.param({"Retry-After": "1e9"}, None, id="an exponent"),
        pytest.param({"Retry-After": "1_000"}, None, id="a Python number"),
        pytest.param({"Retry-After": "9" * 400}, None, id="too long a number"),
        pytest.param({"Retry-After": "Mon, 99 Nov 2026 00:00:00 GMT"}, None, id="no such day"),
        pytest.param({}, None, id="nothing"),
        pytest.param(None, None, id="no headers"),
    ],
)
def test_retry_after(headers, expected):
    assert retry_after_of(headers, NOW) == expected


def test_a_date_is_nothing_without_any_clock():
    assert retry_after_of({"Retry-After": IN_A_MINUTE}) is None
    assert retry_after_of({"Retry-After": IN_A_MINUTE, "Date": A_MINUTE_AGO}) == 120.0


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_it_is_never_negative_and_never_raises(value, date):
    asked = retry_after_of([(b"Retry-After", value), (b"Date", date)], NOW)
    assert asked is None or asked >= 0
