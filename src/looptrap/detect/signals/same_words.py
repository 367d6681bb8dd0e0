"""`same_words`: an agent that says the same sentences beside its calls, whatever it calls."""

from __future__ import annotations

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, HistorySignal
from looptrap.detect.trajectory import Trajectory

MIN_SAID_CHARS, MAX_SAID_CHARS = 80, 400
"""Characters in which an agent says what it does: shorter texts are phrases that come again by
themselves, and what differs later does not matter."""


def is_due(messages: int) -> bool:
    """Return whether to search a history of this length: two of five, however long rounds are.

    The search takes time, and a replay goes on for long.
    """
    return (messages * 40_503 >> 8) % 5 < 2  # mixed, since each round may add as many messages


def words_beside(round_: Round) -> str:
    """Return what an agent says beside its calls; empty where that is a mere phrase."""
    if not round_.calls or len(round_.text) < MIN_SAID_CHARS:
        return ""
    return " ".join(round_.text[: 2 * MAX_SAID_CHARS].split())[:MAX_SAID_CHARS]


class SameWords(HistorySignal):
    """Counts the rounds that say what was said before, after the same words as before.

    Edits may differ: an agent that announces the same again does the same again. Only rounds with
    a change count, or right after one: "Let me look at the next page." fits every page.
    """

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None where the latest words are new."""
        if not is_due(trajectory.length):
            return None
        newest = trajectory.newest
        if newest is None or not newest.calls or len(newest.text) < MIN_SAID_CHARS:
            return None
        if not trajectory.may_have_said(newest.text):
            return None
        latest = words_beside(newest)
        rounds = trajectory.latest(self._options.rounds)
        said = [words_beside(round_) for round_ in rounds]
        if latest not in said[1:]:
            return None
        replayed = [age for age in range(len(rounds)) if _is_replay(rounds, said, age)]
        if len(replayed) < 2:
            return None
        return Evidence(
            signal="same_words",
            what=f"{len(replayed)} of the latest {len(rounds)} rounds announced in the same words"
            " what had been done before",
            count=len(replayed),
            ago=replayed[-1],
            confidence=0.8,
        )


def _is_replay(rounds: list[Round], said: list[str], age: int) -> bool:
    """Return whether a round, and the one before it, say the same as two rounds before them."""
    pair = said[age : age + 2]
    if len(pair) < 2 or not all(pair):
        return False
    is_known = any(said[at : at + 2] == pair for at in range(age + 1, len(said) - 1))
    return is_known and (rounds[age].made_change or rounds[age + 1].made_change)
