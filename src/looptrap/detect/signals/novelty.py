"""Novelty: do requests in words, to a search or to another agent, say or bring anything new?"""

from __future__ import annotations

from looptrap.detect.call_kind import asks_in_words, hands_over, searches
from looptrap.detect.canonical import mask_result
from looptrap.detect.remembered_round import RememberedRound
from looptrap.detect.round import MIN_CONTENT_WORDS, Round
from looptrap.detect.signals.same_words import is_due
from looptrap.detect.similarity import distinct_words
from looptrap.detect.trajectory import Trajectory

MAX_ROUNDS = 18
"""Latest rounds of the kind that are read."""

MAX_OTHER_ROUNDS = 12
"""Rounds of other kinds that may stand between them."""

MIN_STALE_SHARE = 0.7
"""Share of these rounds that bring nothing new where the run is stuck."""

MAX_NEW_SHARE = 0.1
"""Share of a result's words up to which it is the earlier ones in other words."""

MAX_READ_CHARS = 1_500

PROBED_ROUNDS, PROBED_CHARS = 7, 60
"""Latest rounds, and first characters of their calls, that are compared first."""


def count_without_news(trajectory: Trajectory) -> int:
    """Return how many of the latest requests in words said and brought nothing new.

    Each uses words of earlier ones only, and so does what comes back, any number included. What
    changes something in between is progress; so is another call that was not made before.
    """
    newest = trajectory.newest
    if newest is None or not is_due(trajectory.length):
        return 0
    if not _asks(newest):
        return 0
    # Most say or bring something that the few before did not.
    before = [round_ for round_ in trajectory.latest(PROBED_ROUNDS)[1:] if _asks(round_)]
    if 2 * len(before) < PROBED_ROUNDS - 1 or not _says_nothing_new(newest, before):
        return 0
    asked: list[Round] = []
    others: list[Round] = []
    for round_ in trajectory.latest(MAX_ROUNDS + MAX_OTHER_ROUNDS):
        if len(asked) == MAX_ROUNDS:
            break
        if _asks(round_):
            asked.append(round_)
        elif not (round_.is_note or (isinstance(round_, RememberedRound) and round_.is_brief)):
            others.append(round_)
    kinds = {round_.signature for round_ in others}
    if len(others) > MAX_OTHER_ROUNDS or 2 * len(kinds) > len(others):
        return 0
    stale = _stale(asked[::-1])
    if not stale or not stale[-1]:
        return 0
    count = best = 0
    for length, is_stale in enumerate(reversed(stale), 1):
        count += is_stale
        if is_stale and count >= MIN_STALE_SHARE * length:
            best = count
    return best


def _asks(round_: Round) -> bool:
    if isinstance(round_, RememberedRound):
        return round_.has_hits and not round_.is_screen_action
    if not round_.calls or round_.is_poll:
        return False
    return all(
        asks_in_words(call.name, call.arguments) or searches(call.name, call.arguments)
        for call in round_.calls
    )


def _says_nothing_new(newest: Round, before: list[Round]) -> bool:
    """Return whether a request begins with words of those before, or brings the same: a cheap
    test."""
    if any(map(newest.brings_same, before)):
        return True
    said = " ".join(round_.arguments for round_ in before).lower()
    words = newest.arguments[:PROBED_CHARS].lower().split()
    return all(word.strip('",.:{}') in said for word in words)


def _stale(rounds: list[Round]) -> list[bool]:
    """Return of each round, the oldest first, whether it said and brought nothing new."""
    said: set[str] = set()
    brought: set[str] = set()
    stale: list[bool] = []
    for round_ in rounds:
        is_same = any(map(round_.brings_same, rounds[: len(stale)]))
        if is_same or isinstance(round_, RememberedRound):
            stale.append(is_same)  # nothing else is known of a round that is remembered
            continue
        text = round_.arguments
        if any(hands_over(call.name) for call in round_.calls):
            text = f"{text} {round_.text}"
        asked = distinct_words(text)
        found = distinct_words(mask_result(round_.result[:MAX_READ_CHARS]))
        new = found - brought
        has_number = any(map(str.isdigit, "".join(new)))
        is_known = len(new) <= MAX_NEW_SHARE * len(found) and not has_number
        # Where nothing is found at all, only the same words again say that the search is stuck.
        stale.append(is_known and (asked <= said or len(found) >= MIN_CONTENT_WORDS))
        said |= asked
        brought |= found
    return stale
