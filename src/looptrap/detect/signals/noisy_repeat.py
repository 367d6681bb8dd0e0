"""`noisy_repeat`: calls that were made before, whose results differ in a few figures at most."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from looptrap.detect.canonical import mask_result, without_frame
from looptrap.detect.round import MAX_QUERY_CHARS, MAX_RESULT_CHARS, Round, call_spelling
from looptrap.detect.signals.signal import Evidence, HistorySignal, tool_list
from looptrap.detect.trajectory import RunTrajectory, Trajectory

MAX_CHARS = 2_000
"""Characters of a result in which figures may differ, half of them at each end; what is between
must be equal. Of a call no more is compared."""

MAX_CACHED_CHARS = 8_000
"""Longer results are read anew each time."""

MAX_FIGURES_SHARE = 0.2
"""Share of the words and figures of a result up to which figures may differ as noise."""

MIN_STALE_SHARE = 0.6
"""Share of the latest rounds that bring nothing new where the run is stuck."""

POLL_WEIGHT = 0.5
"""What a poll counts, or a step that is only acknowledged."""

MOVED_WEIGHT = 0.25
"""What a result counts that had come before, but not from the latest such call: a state that
changes, and changes back."""

MIN_RESULT_WORDS = 4
"""Words and figures of a result below which a figure in it is all that it says: such rounds, as the
start of a process that prints its number, count neither way."""

MAX_COUNTER_RESULTS = 6
"""Latest results in which a figure that only rises, or only falls, is progress."""

MAX_NOISE_ROUNDS = 6
"""Latest rounds whose figures may come back as arguments: a process, a lock, a run to look at."""

_TOKEN = re.compile(r"[\w-]*\d[\w-]*(?:\.\d+)*|\w+|[^\w\s]+")
_GOALS = frozenset(("/", "%", "of", "left", "remaining", "remain"))
"""What stands behind a figure that says how far something is."""
_PAGE = re.compile(
    r'"(?:page|page_?(?:no|num|number|index)|offset|start(?:_?at)?|skip)" ?: ?"?\d+"?(?=[\s,}])'
    r'|"(?:cursor|(?:next_?)?page_?token|after)" ?: ?"[\w=+/-]*"'
    r"|(?<=[?&])(?:page|offset|start|skip|cursor|after)=[\w%-]+",
    re.IGNORECASE,
)
"""Which page of a list a call asks for, and a result says that it is."""

MIN_PAGE_WORDS = 12
"""Fewer words are no page of a list, but a note that there is none."""

MAX_NEW_ROWS = 1 / 3
"""Share of the figures and ids of a page up to which it is the same: requests have ids, too."""

_MASKED = re.compile(r"<[a-z]{2,12}>")
_find_digit = re.compile(r"\d").search
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_ELEMENT = re.compile(r'"ref":"[^"]*"|\[ref=\w+\]')
"""An element of a page, by a name that each snapshot gives it."""


class _Outcome:
    """A call and its result, as words and figures."""

    __slots__ = (
        *("arguments", "call_shape", "figures", "is_lone_figure", "is_poll", "is_screen"),
        *(
            "is_known",
            "is_stale",
            "made_change",
            "names",
            "page",
            "result",
            "shape",
            "weight",
            "words",
        ),
    )

    def __init__(self, round_: Round) -> None:
        plain = " ".join(sorted(map(call_spelling, round_.calls)))
        plain = _ELEMENT.sub("", plain[:MAX_CHARS])
        self.page = _PAGE.findall(plain)
        plain = _PAGE.sub("", plain)
        self.names = round_.names
        self.arguments = tuple(_TOKEN.findall(plain))
        self.call_shape = (round_.names, _shape(self.arguments))
        text = round_.result[:MAX_RESULT_CHARS]
        text = _PAGE.sub("", text) if self.page else text
        read = _read_result if len(text) > MAX_CACHED_CHARS else _read_short_result
        self.result, self.shape, self.figures, self.words = read(text)
        self.is_known = False
        self.is_stale = False
        self.is_lone_figure = False
        self.is_screen = round_.is_screen_action
        self.is_poll = round_.is_poll
        self.weight = POLL_WEIGHT if round_.is_poll or round_.is_step else 1.0
        self.made_change = round_.made_change

    def differs_in_few(self, other: _Outcome) -> bool:
        """Return whether a few figures at most differ in results of the same shape."""
        pairs = enumerate(zip(self.result, other.result, strict=True), 1)
        different = [after for after, (one, another) in pairs if one != another]
        if any(self.result[after] in _GOALS for after in different if after < len(self.result)):
            return False  # `3 of 12`, `40%`
        if self.page != other.page:
            is_page = not different and self.words >= MIN_PAGE_WORDS
            # What looks like an id is what names a row.
            return is_page and len(self.figures - other.figures) <= MAX_NEW_ROWS * len(self.figures)
        if self.is_screen:
            return not different  # a figure on a page is what it shows
        return len(different) <= MAX_FIGURES_SHARE * self.words


ResultWords = tuple[tuple[str, ...], tuple[str, ...], frozenset[str], int]


@lru_cache(maxsize=256)  # the next request shows the same results once more
def _read_short_result(text: str) -> ResultWords:
    return _read_result(text)


def _read_result(text: str) -> ResultWords:
    """Return words and figures without noise, their shape, all figures, and how many there are."""
    text, half, middle = without_frame(_ELEMENT.sub("", text)), MAX_CHARS // 2, ""
    if len(text) > MAX_CHARS:
        text, middle = f"{text[:half]}\n{text[-half:]}", text[half:-half]
    # Whether an id is known as such depends on its digits: what is masked is a figure, too.
    tokens = tuple(_TOKEN.findall(_MASKED.sub("0", mask_result(text))))
    figures = frozenset(filter(_find_digit, _TOKEN.findall(text)))
    words = sum(1 for token in tokens if token[0].isalnum())
    return tokens, (*_shape(tokens), middle), figures, words


class NoisyRepeat(HistorySignal):
    """Counts the latest rounds that repeat calls, and bring the same words in the same order.

    Process ids, hosts, sizes and scores differ from run to run of the same job, which fails all
    the same. A figure that only rises or falls is progress, and so is a change that was not made
    before. A call that names what such a result printed, such as the process that was started, is
    the same call.
    """

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None where the latest call or its result is new."""
        newest = trajectory.newest
        if newest is None or not newest.calls:
            return None
        if trajectory.is_new_call and _PAGE.search(newest.arguments[:MAX_QUERY_CHARS]) is None:
            return None
        if isinstance(trajectory, RunTrajectory):
            return None  # of what is remembered, there are digests only
        rounds = trajectory.latest(self._options.rounds)
        if not _may_repeat(rounds):
            return None
        outcomes = [_Outcome(round_) for round_ in reversed(rounds)]
        weight, length = _count_latest(outcomes)
        count = int(weight)
        if count >= self._options.first:
            count = trajectory.asked.excuse(count)
        if count < 2:
            return None
        return Evidence(
            signal="noisy_repeat",
            what=f"{tool_list(newest)}: most of the latest {length} calls were made before, and"
            " their results differ in a few figures at most",
            count=count,
            ago=length - 1,
            confidence=0.8,
        )


def _may_repeat(rounds: Sequence[Round]) -> bool:
    """Return whether the latest call was made before with such a result: a cheap test."""
    newest, *before = rounds
    if _PAGE.search(newest.arguments[:MAX_QUERY_CHARS]) is None:
        earlier = next((one for one in before if one.signature == newest.signature), None)
    else:
        earlier = next((one for one in before if one.names == newest.names), None)
    if earlier is None:
        return False
    latest, other = _Outcome(newest), _Outcome(earlier)
    return (latest.arguments, latest.shape) == (other.arguments, other.shape) and (
        latest.differs_in_few(other)
    )


def _count_latest(outcomes: Sequence[_Outcome]) -> tuple[float, int]:
    """Return the weight and number of the latest rounds, most of which bring nothing new."""
    _compare(outcomes)
    weight = best = 0.0
    length = compared = stale = 0
    for rounds, outcome in enumerate(reversed(outcomes), 1):
        if outcome.is_lone_figure:
            continue
        compared += 1
        if outcome.is_stale:
            weight += outcome.weight
            stale += 1
            if stale >= MIN_STALE_SHARE * compared:
                best, length = weight, rounds
        elif rounds == 1 or outcome.made_change or (outcome.is_poll and outcome.is_known):
            break  # something was changed, or has changed by itself
    return best, length


def _compare(outcomes: Sequence[_Outcome]) -> None:
    """Note for each round, the oldest first, whether call and result had come before."""
    by_shape: dict[object, list[_Outcome]] = {}
    known: set[object] = set()
    noise: list[frozenset[str]] = []
    for outcome in outcomes:
        earlier = by_shape.setdefault(outcome.call_shape, [])
        call = outcome.names, outcome.arguments
        is_known = outcome.is_known = call in known or _names_noise(
            outcome, earlier, noise[-MAX_NOISE_ROUNDS:]
        )
        if is_known and _brings_same(outcome, earlier):
            outcome.is_stale = True
            if earlier[-1].shape != outcome.shape:
                outcome.weight *= MOVED_WEIGHT
        elif is_known and outcome.words < MIN_RESULT_WORDS:
            outcome.is_lone_figure = any(one.shape == outcome.shape for one in earlier)
        is_noise = outcome.is_stale or outcome.is_lone_figure
        noise.append(outcome.figures if is_noise else frozenset())
        earlier.append(outcome)
        known.add(call)


def _names_noise(
    outcome: _Outcome, earlier: Sequence[_Outcome], noise: Sequence[frozenset[str]]
) -> bool:
    """Return whether a call differs from an earlier one only in figures that results printed."""
    printed: set[str] = set().union(*noise)
    return any(
        all(
            one == before or one in printed
            for one, before in zip(outcome.arguments, other.arguments, strict=True)
        )
        for other in earlier
    )


def _brings_same(outcome: _Outcome, earlier: Sequence[_Outcome]) -> bool:
    """Return whether a result is one of the earlier ones, apart from figures that are noise."""
    alike = [one for one in earlier if one.shape == outcome.shape]
    if not any(map(outcome.differs_in_few, alike)):
        return False
    return not _counts(alike[1 - MAX_COUNTER_RESULTS :], outcome)


def _counts(earlier: Sequence[_Outcome], latest: _Outcome) -> bool:
    """Return whether a figure rises and never falls from result to result, or the reverse."""
    if len(earlier) < 2:
        return False
    for place, (first, last) in enumerate(zip(earlier[0].result, latest.result, strict=True)):
        if first == last:
            continue
        found = [_NUMBER.search(one.result[place]) for one in (*earlier, latest)]
        values = [float(one[0][:15]) for one in found if one is not None]
        if len(set(values)) > 1 and values in (sorted(values), sorted(values, reverse=True)):
            return True
    return False


def _shape(tokens: Sequence[str]) -> tuple[str, ...]:
    return tuple("#" if _find_digit(token) else token for token in tokens)
