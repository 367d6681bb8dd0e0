"""Failures, and the exceptions that carry them."""

import pytest

from looptrap.errors import AllProvidersFailed
from looptrap.retry.failure import Failure


@pytest.mark.parametrize(
    ("bucket", "is_retryable"),
    [("rate_limit", True), ("server", True), ("tool", False), ("permanent", False)],
)
def test_which_buckets_are_worth_another_attempt(bucket, is_retryable):
    assert Failure(bucket, "x").is_retryable is is_retryable


def test_all_providers_failed_says_why_link_by_link():
    error = AllProvidersFailed(
        [
            ("anthropic/claude", Failure("rate_limit", "overloaded", "Overloaded")),
            ("openai", Failure("server", "http_503")),
        ],
        retry_after=7.0,
    )
    assert str(error) == (
        "all providers failed: anthropic/claude: overloaded (Overloaded); openai: http_503"
    )
    assert error.retry_after == 7.0
