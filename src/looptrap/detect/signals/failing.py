"""`same_error`, `failing`: rounds that fail the same way, or in ways that are not new."""

from __future__ import annotations

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, HistorySignal, tool_list
from looptrap.detect.trajectory import Trajectory

SAME_ERROR_PERCENT = 80.0
"""Per cent from which two failures are equal: messages echo parts of the call."""


class SameError(HistorySignal):
    """Counts the rounds that failed like the latest, or made the same call and failed."""

    ignores_news = True

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often the latest failure occurred; None when the latest round succeeded.

        A call that is asked to try again later is polling, which `repeat` judges. A note is no try.
        """
        latest = trajectory.newest
        if latest is None or latest.failure is None or latest.is_deferred or latest.is_note:
            return None
        # Notes that an agent takes in between are neither a try nor progress.
        rounds = [
            round_
            for round_ in trajectory.since_change(2 * self._options.rounds)
            if not round_.is_note
        ][: self._options.rounds]
        equal = [
            age
            for age, round_ in enumerate(rounds)
            if (round_.fails_like(latest, SAME_ERROR_PERCENT) or _fails_again(round_, latest))
            and not (age and _is_answered(round_, rounds[age - 1]))
        ]
        return Evidence(
            signal="same_error",
            what=f"{tool_list(latest)} failed the same way, or asked the same, {len(equal)} times"
            f" in {len(rounds)} rounds",
            count=len(equal),
            ago=equal[-1],
            confidence=len(equal) / len(rounds),
        )


def _is_answered(failed: Round, later: Round) -> bool:
    """Return whether the next call brought what a failure had asked for, and it asks no more.

    An agent that fills in one missing field after the other makes progress.
    """
    if failed.failure is None or later.failure is None or failed.failure == later.failure:
        return False
    before, after = failed.arguments.lower(), later.arguments.lower()
    return any(
        word in after and word not in before and word not in later.failure
        for word in failed.failure.split()
        if word.isidentifier() and len(word) > 3
    )


def _fails_again(round_: Round, latest: Round) -> bool:
    is_failure = round_.failure is not None and not round_.is_report
    return is_failure and round_.signature == latest.signature


class Failing(HistorySignal):
    """Counts the failures since the last success, among the last `rounds`.

    A new failure of a new call does not count: an agent with ever new errors makes progress.
    """

    ignores_news = True

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many consecutive rounds failed; None when the latest succeeded."""
        if trajectory.newest is None or trajectory.newest.failure is None:
            return None
        failures = trajectory.latest_while(
            lambda round_: round_.failure is not None, self._options.rounds
        )
        length = len(failures)
        if length < self._options.first:
            return None
        calls = [round_.arguments_gist for round_ in failures]
        known = sum(
            (calls[age] in calls[age + 1 :] and not round_.is_report)
            or any(
                round_.fails_like(earlier, SAME_ERROR_PERCENT) for earlier in failures[age + 1 :]
            )
            for age, round_ in enumerate(failures)
        )
        return Evidence(
            signal="failing",
            what=f"{length} failures in a row, {known} of them known,"
            f" {tool_list(failures[0])} the latest",
            count=known + 1,
            ago=length - 1,
            confidence=0.7,  # the agent may still succeed
        )
