"""Own classifiers."""

from looptrap.retry.classify import DEFAULT_CLASSIFIERS, Classifiers
from looptrap.retry.failure import Failure
from looptrap.retry.policy import RetryPolicy

FLAKY = Failure("server", "flaky")
CURSED = Failure("permanent", "cursed")


class FlakyError(Exception):
    pass


def knows_flaky(error):
    return FLAKY if isinstance(error, FlakyError) else None


def test_an_own_classifier_is_asked_first():
    own = Classifiers((knows_flaky,))
    assert own.classify(FlakyError()) is FLAKY
    assert own.classify(ConnectionResetError()).reason == "connection"


def test_the_first_that_knows_decides():
    own = Classifiers((knows_flaky,)).before(lambda error: CURSED)
    assert own.classify(FlakyError()) is CURSED


def test_nothing_is_registered_for_others():
    DEFAULT_CLASSIFIERS.before(knows_flaky)
    assert DEFAULT_CLASSIFIERS.classify(FlakyError()).reason == "unknown"
    assert RetryPolicy().classifiers.classify(FlakyError()).reason == "unknown"
