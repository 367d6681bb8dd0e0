"""Retry policies."""

import pytest

from looptrap.errors import ConfigError
from looptrap.retry.policy import RetryPolicy


@pytest.mark.parametrize(
    "settings",
    [{"attempts": 0}, {"server_attempts": 0}, {"timeout_attempts": -1}, {"deadline": 0.0}],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        RetryPolicy(**settings)
