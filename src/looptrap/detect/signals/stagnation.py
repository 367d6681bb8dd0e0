"""`stagnation`, `turn_budget`: many calls without new results, or too many calls in one turn."""

from __future__ import annotations

from looptrap.detect.round import Round
from looptrap.detect.signals.failing import is_answered
from looptrap.detect.signals.novelty import count_without_news
from looptrap.detect.signals.same_words import words_beside
from looptrap.detect.signals.signal import Evidence, HistorySignal, tool_list
from looptrap.detect.trajectory import RunTrajectory, Trajectory, since_other_result

RECENT_ROUNDS = 6
"""The latest result must equal one of this many before it: otherwise there is progress."""

SAME_CALL_ROUNDS = 40
"""Rounds in which a call that fails the same way is counted: each attempt takes several."""

MIN_ROUNDS = 20
"""Fewer rounds are no evidence."""

WORDS_WEIGHT = 0.8
"""What a search or a delegated task counts that says nothing new, and brings nothing new."""

REPORT_WEIGHT = 0.75
"""What a test report that had come before counts if there was a new change in between."""


class Stagnation(HistorySignal):
    """Counts the results among the last `rounds` that had come before in these rounds."""

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many results were not new; None for few rounds, or new results."""
        newest = trajectory.newest
        if newest is None:
            return None
        turns = count_without_news(trajectory)
        if turns * WORDS_WEIGHT >= max(self._options.first, 2):
            return Evidence(
                signal="stagnation",
                what=f"{turns} times {tool_list(newest)} in words that had come before,"
                " and nothing new came back",
                count=int(turns * WORDS_WEIGHT),
                ago=turns - 1,
                confidence=0.7,
            )
        if _is_plain_success(newest, trajectory):
            return None
        recent = trajectory.latest(RECENT_ROUNDS + 1)
        if len(recent) <= RECENT_ROUNDS or not any(
            recent[0].may_have_same_result(earlier) and recent[0].has_same_result(earlier)
            for earlier in recent[1:]
        ):
            return None
        rounds = trajectory.latest(self._options.rounds)
        if newest.failure is None and not newest.made_change:
            rounds = since_other_result(rounds)
        if len(rounds) < min(MIN_ROUNDS, self._options.rounds):
            return None
        count = _count_stale(rounds, self._options.polls_per_repeat)
        tries = _count_same_failures(trajectory)
        what = f"{count} of the latest {len(rounds)} results had come before"
        weighed = int((tries - 1) * (REPORT_WEIGHT if newest.is_report else 1))
        if weighed > count:
            count = min(weighed, len(rounds))
            what = f"{tool_list(newest)} failed the same way {tries} times, whatever came between"
        if count >= self._options.first:
            count = trajectory.asked.excuse(count)
        if not count:
            return None
        return Evidence(
            signal="stagnation",
            what=what,
            count=count,
            ago=len(rounds) - 1,
            confidence=count / len(rounds),
        )


def _is_plain_success(latest: Round, trajectory: Trajectory) -> bool:
    """Return whether a new call succeeded, as most do: then nothing stagnates.

    A search in other words may bring the same hits.
    """
    if not trajectory.has_news:
        return False
    if not (trajectory.may_have_come_before(2 * RECENT_ROUNDS) and latest.has_hits):
        return True
    return not any(map(latest.has_same_hits, trajectory.latest(RECENT_ROUNDS + 1)[1:]))


def _count_stale(rounds: list[Round], polls_per_repeat: int) -> int:
    """Return how many rounds had a result that came before, and were no batch work.

    Equal results for new arguments are a batch, unless they are failures. Equal empty results, and
    equal hits, may be a search that is stuck or a legitimate one: they count half. Polls count
    little. After a new change, every check may report success once more, and everything may be
    looked at once more; a test report that stays counts less. An agent that announces its changes
    in the same words each time makes the same change, whatever it writes.
    """
    weight = 0.0
    changes = switches = 0
    answered: set[str | None] = set()
    by_signature: dict[object, list[Round]] = {}
    at_check: dict[object, tuple[int, int]] = {}
    by_failure: dict[object, list[Round]] = {}
    earlier_rounds: list[Round] = []
    words_said: set[str] = set()
    for age in range(len(rounds) - 1, -1, -1):
        round_ = rounds[age]
        words = words_beside(round_)
        is_replay = bool(words) and words in words_said
        words_said.add(words)
        same_calls = by_signature.setdefault(round_.signature, [])
        is_fruitless = round_.failure or round_.is_empty
        same_failures = by_failure.setdefault(round_.failure, []) if is_fruitless else []
        comparable = same_calls if round_.failure is None else same_failures
        if any(map(round_.has_same_result, comparable)):
            changes_before, switches_before = at_check.get(round_.signature, (changes, switches))
            is_first_since_change = changes_before < changes
            is_quiet = round_.failure is None and (
                round_.reports_success or round_.only_looks or round_.made_change
            )
            if switches_before < switches:
                pass  # the same outcome for another revision is batch work
            elif not same_calls and (
                round_.failure in answered if not age else is_answered(round_, rounds[age - 1])
            ):
                pass  # so is the same question about another item, if it is answered
            elif round_.is_poll or round_.is_step or round_.is_measurement:
                weight += 1 / polls_per_repeat
            elif round_.failure is None and _has_moved(
                round_, same_calls, changes_before == changes
            ):
                weight += 1 / polls_per_repeat  # a state that changes by itself, and back
            elif not is_first_since_change or is_replay:
                weight += 1
            elif not is_quiet:
                weight += REPORT_WEIGHT if round_.is_report else 1
        elif (round_.is_search and any(map(round_.has_same_result, same_failures))) or (
            any(map(round_.has_same_hits, earlier_rounds))
        ):
            weight += 0.5
        elif is_replay and round_.made_change:
            weight += 1
        is_new_result = not any(
            round_.has_same_result(one) or round_.fails_the_same(one) for one in same_calls
        )
        if is_new_result and (round_.made_change or same_calls):
            changes += 1  # what was done, or what goes on by itself, has moved on
            switches += round_.switches_subject
        if age and round_.failure is not None and is_answered(round_, rounds[age - 1]):
            answered.add(round_.failure)
        at_check[round_.signature] = changes, switches
        same_calls.append(round_)
        earlier_rounds.append(round_)
        same_failures.append(round_)
    return int(weight)


def _has_moved(round_: Round, same_calls: list[Round], is_unchanged: bool) -> bool:
    """Return whether the call before had another result, and the agent changed nothing since."""
    return is_unchanged and not round_.repeats(same_calls[-1])


def _count_same_failures(trajectory: Trajectory) -> int:
    """Return how often the latest call failed the same way, whatever was changed in between."""
    latest, *before = trajectory.latest(SAME_CALL_ROUNDS)
    if latest.failure is None or latest.is_poll or trajectory.is_new_call:
        return 0
    if any(round_.switches_subject for round_ in before):
        return 0
    return 1 + sum(map(latest.repeats, before))


MAX_ROUNDS_READ = 40
"""Latest rounds whose calls are counted; each earlier round counts as one call."""


class TurnBudget(HistorySignal):
    """Counts the tool calls since the last user message."""

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None before the first, and while there are certainly fewer."""
        # Calls and their results are messages: where there are few, none needs decoding.
        if self._options.first > MAX_ROUNDS_READ and trajectory.length < self._options.first:
            return None
        count, rounds = trajectory.count_calls(MAX_ROUNDS_READ)
        if not count:
            return None
        # Of a long run, not all rounds are remembered.
        span = "" if isinstance(trajectory, RunTrajectory) else f" in {rounds} rounds"
        return Evidence(
            signal="turn_budget",
            what=f"{count} tool calls{span} since the last user message",
            count=count,
            ago=rounds - 1,
            confidence=0.5,
        )
