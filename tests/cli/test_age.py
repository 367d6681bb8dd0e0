"""Times as people say them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.cli import output
from looptrap.errors import ConfigError

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (7_500, "2 h 5 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 day"),
        (400_000, "4 days"),
        (-5, "0 s"),
    ],
)
def test_spans_are_said_in_the_unit_that_suits_them(seconds, said):
    assert output.format_duration(seconds) == said


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("2026-11-16T11:59:59.500Z", "just now"),
        ("2026-11-16T11:57:00Z", "3 min ago"),
        ("2026-11-16T12:57:00+01:00", "3 min ago"),
        ("2026-11-16T12:00:05Z", "just now"),
    ],
    ids=["a moment", "minutes", "another offset", "a clock that is ahead"],
)
def test_ages_are_said_from_now(then, said):
    assert output.format_age(then, NOW) == said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1_800), ("30 min", 1_800), ("1.5h", 5_400), ("7d", 604_800)],
)
def test_a_span_counts_back_from_now(text, seconds):
    assert datetime.fromisoformat(output.parse_since(text, "--since", NOW)) == NOW - timedelta(
        seconds=seconds
    )


@given(st.datetimes(min_value=datetime(1971, 1, 1), timezones=st.just(UTC)))
def test_a_time_is_itself(then):
    assert datetime.fromisoformat(output.parse_since(then.isoformat(), "--since", NOW)) == then


@pytest.mark.parametrize("text", ["", "h", "24", "24 hours", "-1h", "soon", "999999999d"])
def test_anything_else_is_refused_with_what_is_allowed(text):
    with pytest.raises(ConfigError, match=r"--since: (must be a span such as|is too long)"):
        output.parse_since(text, "--since", NOW)
