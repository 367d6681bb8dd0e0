"""Classifiers: own ones first, then those that ship."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from looptrap.retry.classify.raised import classify
from looptrap.retry.failure import Failure

Classifier = Callable[[BaseException], Failure | None]
"""Says what an exception means; None leaves it to the next."""


class Classifiers(msgspec.Struct, frozen=True):
    """An order of own classifiers; what none of them knows is classified as shipped."""

    own: tuple[Classifier, ...] = ()

    def classify(self, error: BaseException, now: float | None = None) -> Failure:
        """Return what the first classifier that knows the exception says; see `classify`."""
        for classifier in self.own:
            failure = classifier(error)
            if failure is not None:
                return failure
        return classify(error, now)

    def before(self, *classifiers: Classifier) -> Classifiers:
        """Return the same with these asked first."""
        return Classifiers((*classifiers, *self.own))


DEFAULT = Classifiers()
