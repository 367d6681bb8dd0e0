"""`same_error`, `failing`: rounds that fail the same way, or in ways that are not new."""

from __future__ import annotations

import re

from looptrap.detect.call_kind import changes_something
from looptrap.detect.round import MAX_QUERY_CHARS, Round
from looptrap.detect.signals.enumeration import is_enumeration
from looptrap.detect.signals.signal import Evidence, HistorySignal, tool_list
from looptrap.detect.trajectory import (
    RunTrajectory,
    Trajectory,
    has_new_result,
    since_other_result,
)

_NAME = re.compile(r"[^\W\d]\w{3,}")

SAME_ERROR_PERCENT = 80.0
"""Per cent from which two failures are equal: messages echo parts of the call."""


DEFERRED_PER_FAILURE = 2
"""Other calls that are all put off to later count as one failure: who should wait does not wait."""

MAX_TURNS_COUNT = 6
"""Most that failures count between which a person spoke: it may be the person who asks again."""

OTHER_TURNS_ROUNDS = 24
"""Latest rounds, of all turns, in which such failures are counted."""


VAIN_CHANGES_ROUNDS = 40
"""Latest rounds in which failures are counted that changes left as they were."""

SAME_SUBJECT_WEIGHT, OTHER_SUBJECT_WEIGHT = 0.8, 0.5
"""What such a failure counts if the same was changed before it as earlier, or something else."""


class SameError(HistorySignal):
    """Counts the rounds that failed like the latest, or made the same call and failed."""

    ignores_news = True

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often the latest failure occurred; None when the latest round succeeded.

        A call that is asked to try again later is polling, which `repeat` judges, unless it is
        another call each time. A note is no try.
        """
        latest = trajectory.newest
        if latest is None or latest.failure is None or latest.is_note:
            return None
        limit = self._options.rounds
        if latest.is_deferred:
            limit *= DEFERRED_PER_FAILURE + 1
        # Notes that an agent takes in between are neither a try nor progress.
        rounds = [one for one in trajectory.since_change(2 * limit) if not one.is_note][:limit]
        rounds = since_other_result(rounds)
        equal = [
            age
            for age, round_ in enumerate(rounds)
            if (round_.fails_like(latest, SAME_ERROR_PERCENT) or _fails_again(round_, latest))
            and not (age and is_answered(round_, rounds[age - 1]))
        ]
        count = len(equal)
        if is_enumeration([rounds[age] for age in equal]):
            count -= count // 2
        if latest.is_deferred:
            count = len({rounds[age].signature for age in equal}) // DEFERRED_PER_FAILURE
        where = f"in {len(rounds)} rounds"
        if not latest.is_deferred and count < self._options.first <= MAX_TURNS_COUNT:
            again = _count_in_other_turns(latest, trajectory)
            if again > count:
                count, where = min(again, MAX_TURNS_COUNT), "although the user had spoken since"
        vain = _count_vain_changes(latest, trajectory)
        if vain > count:
            count, where = vain, "whatever was changed in between"
        return Evidence(
            signal="same_error",
            what=f"{tool_list(latest)} failed the same way, or asked the same,"
            f" {count} times {where}",
            count=count,
            ago=equal[-1],
            confidence=len(equal) / len(rounds),
        )


def _count_in_other_turns(latest: Round, trajectory: Trajectory) -> int:
    """Return how often the same tool failed with the same words, in whatever turn.

    What a person says begins a turn; the agent may do the same again all the same.
    """
    if latest.is_report or not trajectory.may_have_said(latest.result, 3 * OTHER_TURNS_ROUNDS):
        return 0
    rounds = trajectory.latest_of_all_turns(OTHER_TURNS_ROUNDS)
    count = 0
    for round_ in rounds:
        if round_.calls and round_.names == latest.names:
            if round_.failure != latest.failure:
                break
            count += 1
    # Within the turn the change in between was progress.
    return count if len(trajectory.latest(OTHER_TURNS_ROUNDS)) < len(rounds) else 0


def _count_vain_changes(latest: Round, trajectory: Trajectory) -> int:
    """Return how often a check or a build failed the same way, with a change before each time.

    An equal call with a result that was new then ends it: a change had an effect. To change
    something else is another approach, and counts less.
    """
    if latest.is_deferred or latest.is_poll:
        return 0
    if trajectory.is_new_call and not isinstance(trajectory, RunTrajectory):
        return 0
    changed: list[set[str]] = [set()]  # what was changed before each failure, the latest first
    rounds = trajectory.latest_across_compactions(VAIN_CHANGES_ROUNDS)
    # Edits that fail say the same of whatever was to be edited.
    is_attempt = not any(changes_something(name, "") for name in latest.names)
    for age, round_ in enumerate(rounds[1:], 1):
        if round_.signature == latest.signature or (
            is_attempt and round_.names == latest.names and round_.failure == latest.failure
        ):
            if not round_.fails_the_same(latest):
                if has_new_result(round_, rounds[age + 1 :]) or round_.failure is None:
                    break
                continue  # one of several failures in turn
            if changed[-1]:
                changed.append(set())
        elif round_.switches_subject:
            break
        elif round_.made_change:
            changed[-1] |= round_.subjects
    count, earlier = 1.0, set[str]()
    for subjects in changed[-2::-1]:
        count += SAME_SUBJECT_WEIGHT if earlier & subjects else OTHER_SUBJECT_WEIGHT
        earlier |= subjects
    return int(count)


def is_answered(failed: Round, later: Round) -> bool:
    """Return whether the next call brought what a failure had asked for, and it asks no more.

    An agent that fills in one missing field after the other makes progress.
    """
    if failed.failure is None or failed.failure == later.failure:
        return False
    before, after = failed.arguments.lower(), later.arguments.lower()
    return any(
        word in after and word not in before and word not in (later.failure or "")
        for word in _NAME.findall(failed.failure)
    )


def _fails_again(round_: Round, latest: Round) -> bool:
    is_failure = round_.failure is not None and not round_.is_report
    return is_failure and round_.signature == latest.signature


class Failing(HistorySignal):
    """Counts the rounds without success since the last one with it, among the last `rounds`.

    A search that finds nothing is no success either. A new failure of a long call, such as a
    script, or a new test report does not count: ever new errors of what is written are progress.
    """

    ignores_news = True

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many consecutive rounds failed; None when the latest succeeded."""
        if trajectory.newest is None or trajectory.newest.failure is None:
            return None
        fruitless = trajectory.latest_while(_is_fruitless, self._options.rounds)
        failures = [round_ for round_ in fruitless if round_.failure is not None]
        length = len(fruitless)
        if length < self._options.first or 2 * len(failures) <= length:
            return None
        calls = [round_.arguments_gist for round_ in failures]
        count = length - len(failures)
        for age, round_ in enumerate(failures):
            if age and is_answered(round_, failures[age - 1]):
                continue
            count += (
                (calls[age] in calls[age + 1 :] and not round_.is_report)
                or _is_short_attempt(round_)
                or any(round_.fails_like(one, SAME_ERROR_PERCENT) for one in failures[age + 1 :])
            )
        if is_enumeration(failures):
            count //= 2
        count = min(count + 1, length)  # the first one is no repeat
        return Evidence(
            signal="failing",
            what=f"{length} calls in a row without success, {tool_list(failures[0])} the latest",
            count=count,
            ago=length - 1,
            confidence=0.7,  # the agent may still succeed
        )


def _is_fruitless(round_: Round) -> bool:
    if round_.failure is not None:
        return True
    is_success = round_.made_change or (round_.reports_success and not round_.only_looks)
    return round_.is_empty and not is_success


def _is_short_attempt(round_: Round) -> bool:
    """Return whether a call is no script, its failure no test report, and no text that was read."""
    is_attempt = not (round_.is_report or round_.only_looks)
    return is_attempt and len(round_.arguments) <= MAX_QUERY_CHARS
