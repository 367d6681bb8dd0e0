"""`chant`, `monologue`: one answer, or one after another, repeats its own text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category

from looptrap.detect.signals.idle import brings_words_each_time
from looptrap.detect.signals.signal import Evidence, HistorySignal
from looptrap.detect.similarity import SIMILAR_PERCENT
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.stream import FENCE, open_fence, tail_of

MIN_REPEATED_CHARS = 1_600
"""Least characters of repetition, without white space: some 400 tokens. Refrains, and lines that a
person asked to have repeated two dozen times, stay below."""

MIN_CUT_CHARS = 2_400
"""Characters of repetition from which a chant may be cut off; before that it is warned of."""

MAX_WARNED_COUNT = 5
"""Most times that a shorter repetition counts."""

MIN_SHORT_TIMES = 40
"""How often a short unit must be repeated where that makes fewer characters."""

MAX_UNIT_CHARS = 1_000
"""Longest unit that is searched for."""

NEEDLE_CHARS = 24
"""Characters at the end that must have occurred before: in most answers they have not."""

MAX_VALUE_CHARS = 16
"""Lines up to this long are values, such as labels, each the answer to something else."""

_ATTEMPT = re.compile(r"\b(attempt|try|retry|iteration|round|take)(\W{0,2})\d+", re.IGNORECASE)
_NO_DIGITS = dict.fromkeys(map(ord, "0123456789"))

_STRUCTURE = re.compile(
    r"""
      \s*\| | [^|]*\|[^|]*\|           # a row of a table
    | .*\t.*\t | [^,]*,\S[^,]*,\S      # tabs or commas between values
    | (?:\ \ |\t)\s*+(?![-*+•]|\d)     # set in: code, traces
    | \s*(?:[\[{}\]<$]|```|~~~)        # JSON, markup, prompts, fences
    | .*"\s*:                          # a field of JSON
    | .*[;{}]\s*\Z                     # code that is not set in
    | \W{0,2}\d{1,4}[-:/.]\d\d         # a log's time
    | \W?[A-Z][a-z]{2}\ +\d+\ \d\d:    # the same, as syslog has it
    | \W?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|info|warn|error)\b[\]:\ ]
    | [!-~]{17,}\s*\Z                  # one long word: a link, a key, encoded bytes
    """,
    re.VERBOSE,
)


class Chant:
    """Counts how often the end of an answer repeats one unit."""

    __slots__ = ()

    def __call__(self, text: str) -> Evidence | None:
        """Return the repetition; None for tables, logs and code, which repeat by nature."""
        text = tail_of(text)
        found = _repetition(text)
        if found is None or open_fence(text):
            return None
        unit, times = found
        if not _is_worded(unit) or _is_structure(text, 2 * len(unit)):
            return None
        is_long = len(unit) * times >= MIN_CUT_CHARS
        return Evidence(
            signal="chant",
            what=f"the same {len(unit)} characters said {times} times in a row",
            count=times if is_long else min(times, MAX_WARNED_COUNT),
        )


def _repetition(text: str) -> tuple[str, int] | None:
    """Return the unit that a text ends in, and how often in a row; attempts may be numbered."""
    # The end must have occurred shortly before: searching a small part is enough.
    ending = _squeezed(text[-2 * MAX_UNIT_CHARS :])
    if _has_echo(ending):
        found = _repeated(_squeezed(text))
        if found is not None:
            return found
    if _has_echo(ending.translate(_NO_DIGITS)) and _ATTEMPT.search(text):
        return _repeated(_squeezed(_ATTEMPT.sub(r"\1\2#", text)))
    return None


def _squeezed(text: str) -> str:
    return "".join(text.split()).lower()


def _has_echo(text: str) -> bool:
    return text.rfind(text[-NEEDLE_CHARS:], 0, len(text) - 1) >= 0


def _repeated(text: str) -> tuple[str, int] | None:
    """Return the shortest unit that makes up the end of a text, and how often it occurs."""
    if len(text) < MIN_SHORT_TIMES * (MAX_VALUE_CHARS + 1):
        return None
    latest = text[-MIN_REPEATED_CHARS:]
    for period in _periods(latest):
        least = min(MIN_REPEATED_CHARS, MIN_SHORT_TIMES * max(period, MAX_VALUE_CHARS + 1))
        end = latest[-least:]
        if len(end) == least and end[period:] == end[:-period]:
            return text[-period:], _run(text, period, least) // period
    return None


def _periods(text: str) -> Iterator[int]:
    """Yield the distances at which the end of a text occurs again, the nearest first."""
    last = len(text) - NEEDLE_CHARS
    at, needle = last, text[last:]
    first = max(0, last - MAX_UNIT_CHARS)
    while (at := text.rfind(needle, first, at + NEEDLE_CHARS - 1)) >= 0:
        yield last - at


def _run(text: str, period: int, least: int) -> int:
    """Return how many characters at the end repeat one unit: `least` or more."""
    known, size = least, len(text)
    while known < size:
        middle = (known + size + 1) // 2
        if text[-middle + period :] == text[-middle:-period]:
            known = middle
        else:
            size = middle - 1
    return known


def _is_worded(unit: str) -> bool:
    """Return whether a unit is made of words, not of dots, rules, numbers or one letter."""
    letters = [char for char in unit if category(char)[0] in "LM"]
    return 2 * len(letters) >= len(unit) and len(set(letters)) > 1


def _set_in(text: str) -> str:
    """Return a text with the content of code blocks indented, like other code."""
    if "```" not in text and "~~~" not in text:
        return text
    opened, lines = "", []
    # Line by line: a pattern for a whole block would restart at every unclosed fence.
    for line in text.split("\n"):
        lines.append(f"\t{line}" if opened else line)
        fence = FENCE.match(line)
        if fence is not None and not opened:
            opened = fence[1]
        elif fence is not None and fence[1].startswith(opened) and not fence[2].strip():
            opened = ""
    return "\n".join(lines)


def _is_structure(text: str, size: int) -> bool:
    """Return whether the last `size` characters are mostly rows, logs, code or values."""
    total = structure = 0
    for line in reversed(_set_in(text).splitlines()):
        length = len("".join(line.split()))
        total += length
        if length <= MAX_VALUE_CHARS or _STRUCTURE.match(line):
            structure += length
        if total >= size:
            break
    return 2 * structure >= total


class Monologue(HistorySignal):
    """Counts turns without a tool call whose text is almost that of the latest."""

    ignores_news = True

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often in a row; None after a tool call, or for the first time."""
        newest = trajectory.newest
        if newest is None or newest.calls or trajectory.starts.has_courtesies:
            return None  # `idle` judges courtesies
        rounds = trajectory.latest_while(newest.says_like, self._options.rounds)
        count = len(rounds)
        if count < 2 or brings_words_each_time(rounds):
            return None
        return Evidence(
            signal="monologue",
            what=f"almost the same said {count} times in a row",
            count=count,
            ago=count - 1,
            confidence=1.0 if newest.text == rounds[1].text else SIMILAR_PERCENT / 100,
        )
