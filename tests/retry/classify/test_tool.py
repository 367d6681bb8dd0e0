"""Tools that fail."""

import pytest

from looptrap.retry.classify import classify_tool


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"exit_code": 1}, "exit_1"),
        ({"exit_code": 127}, "exit_127"),
        ({"exit_code": -9}, "signal_9"),
        ({"status": 503}, "http_503"),
        ({"status": 404}, "http_404"),
    ],
)
def test_the_model_replans_after_a_failed_tool(told, reason):
    failure = classify_tool(**told)
    assert (failure.bucket, failure.reason, failure.trips) == ("tool", reason, "")
    assert not failure.is_retryable


@pytest.mark.parametrize("told", [{"exit_code": 0}, {"status": 200}, {}])
def test_a_tool_that_worked_has_not_failed(told):
    assert classify_tool(**told) is None
