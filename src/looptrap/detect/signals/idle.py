"""`idle`: an agent that has tools and only talks or takes notes, in the same words; or two sides
that only exchange courtesies, or nothing but what was said before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from looptrap.detect.courtesy import is_courtesy
from looptrap.detect.remembered_round import RememberedRound
from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, HistorySignal
from looptrap.detect.similarity import brings_new_lines
from looptrap.detect.trajectory import Trajectory

MIN_SHARED = 3 / 4
"""Share of what a row of turns says that several of them say. Ten short paragraphs about one
subject share about half of their words."""

MAX_REMINDER_CHARS = 200
"""What is answered to a note may remind the agent to act; more than this is content."""

COURTESY_WEIGHT = 5 / 3
"""What a turn counts that is a courtesy, and was answered with one: nobody waits for more."""

MIN_KNOWN = 1 / 2
"""Share of the latest turn's words that another turn of the row says too."""


class Idle(HistorySignal):
    """Counts the latest turns in a row that only talk, and whose words mostly come again."""

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None after a tool call, for new words, or where there are no tools."""
        newest = trajectory.newest
        if newest is None:
            return self._stale_talk(trajectory)
        if newest.calls and not _is_mere_note(newest):
            return None
        if trajectory.starts.has_courtesies:
            return self._courtesies(trajectory)
        if trajectory.stale_turns:
            return self._stale_talk(trajectory)
        # A harness that urges an agent on waits for it to act, perhaps in plain text.
        if not (trajectory.tools or trajectory.starts.is_urged):
            return None
        rounds = trajectory.latest_while(_is_talk, self._options.rounds)
        if len(rounds) > 1 and brings_new_lines(newest.text, rounds[1].text):
            return None  # verses with a refrain, a list that goes on
        for count in range(len(rounds), max(self._options.first, 2) - 1, -1):
            shared = _shared(rounds[:count])
            if shared >= MIN_SHARED and not brings_words_each_time(rounds[:count]):
                return Evidence(
                    signal="idle",
                    what=f"{count} turns in a row that only talk, mostly in the same words",
                    count=count,
                    ago=count - 1,
                    confidence=shared,
                )
        return None

    def _stale_talk(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many of the latest turns said nothing new."""
        turns = trajectory.stale_turns
        if not turns:
            return None
        return Evidence(
            signal="idle",
            what=f"{turns} turns of a conversation in which nothing new was said",
            count=turns,
            ago=turns - 1,
            confidence=0.8,
        )

    def _courtesies(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many of the latest turns in a row were nothing but courtesies."""
        rounds = trajectory.latest_while(_is_courteous, self._options.rounds)
        turns = len(rounds)
        if turns < 2:
            return None
        return Evidence(
            signal="idle",
            what=f"{turns} turns in a row of nothing but courtesies, on both sides",
            count=int(COURTESY_WEIGHT * turns),
            ago=turns - 1,
        )


def _is_courteous(round_: Round) -> bool:
    return not round_.calls and is_courtesy(round_.text)


def _is_mere_note(round_: Round) -> bool:
    """Return whether an agent only writes to itself, and gets only an acknowledgement."""
    return len(round_.result) <= MAX_REMINDER_CHARS and round_.is_note


def _is_talk(round_: Round) -> bool:
    return (not round_.calls or _is_mere_note(round_)) and bool(round_.words_said)


def _shared(rounds: Sequence[Round]) -> float:
    """Return the share of all that is said that several say; 0 where the latest says new things."""
    said = Counter(word for round_ in rounds for word in round_.words_said)
    again = {word for word, times in said.items() if times > 1}
    latest = rounds[0].words_said
    if len(latest & again) < MIN_KNOWN * len(latest):
        return 0.0
    return sum(said[word] for word in again) / said.total()


def brings_words_each_time(rounds: Sequence[Round]) -> bool:
    """Return whether each turn has a word of its own, as the questions of a quiz have.

    Numbers are no such words: counters change too.
    """
    if isinstance(rounds[0], RememberedRound):
        return False  # its words cannot be told from numbers
    said = [{word for word in round_.words_said if word.isalpha()} for round_ in rounds]
    times = Counter(word for words in said for word in words)
    return all(any(times[word] == 1 for word in words) for words in said)
