"""Enumerations: calls that try one thing after the other, such as files, hours or versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from looptrap.detect.failure import denies_item, failure_of, is_taken
from looptrap.detect.remembered_round import RememberedRound, Trait
from looptrap.detect.round import Round

MAX_VALUE_WORDS = 4
"""Words in which such a thing is named; where more differs, it is another attempt."""

MAX_REPORT_CHARS = 400
"""First characters of a result in which it says what was tried."""

_STATUS = re.compile(r"^.{0,20}\bexit(?:ed)?\b.{0,20}$", re.IGNORECASE | re.MULTILINE)
"""A line with an exit status."""

_WORD = re.compile(r"\w+")
_ARGUMENT_NAME = re.compile(r'"\w+":')


def is_enumeration(rounds: Sequence[Round]) -> bool:
    """Return whether calls differ in one short value only, which is another one each time.

    Variants of one attempt differ in places that change and change back, or in spaces.
    """
    if len(rounds) < 2:
        return False
    denies = all(_denies_item(round_) for round_ in rounds)
    if not denies and any(isinstance(round_, RememberedRound) for round_ in rounds):
        return False  # what its result said is not known
    # Either each failure names its own thing, or says that it is taken; or the things are counted.
    is_named = len({round_.failure for round_ in rounds}) == len(rounds) or _is_taken(rounds[0])
    words = [_words(round_) for round_ in rounds]
    first = words[0]
    start = min(map(_common_length, words[1:], [first] * (len(words) - 1)))
    ends = [one[start:] for one in words]
    turned = [one[::-1] for one in ends]
    end = min(map(_common_length, turned[1:], [turned[0]] * (len(turned) - 1)))
    values = [tuple(one[: len(one) - end]) for one in ends]
    if not all(0 < len(value) <= MAX_VALUE_WORDS for value in values):
        return False
    if not denies:
        return len(set(values)) == len(values) and all(map(_reports, rounds, values))
    if _is_counted(values):
        return True
    if not is_named or start + end <= _count_names(rounds[0]):
        return False
    # Of a word, memory keeps a byte: two of different words may be equal.
    alike = any(isinstance(round_, RememberedRound) for round_ in rounds)
    return len(set(values)) >= len(values) - alike


def _reports(round_: Round, value: tuple[object, ...]) -> bool:
    """Return whether a result says what was tried, and of no error: `lines 200-300: no match`."""
    report = _STATUS.sub("", round_.result[:MAX_REPORT_CHARS])
    if failure_of(report, False) is not None:
        return False
    said = set(_WORD.findall(report))
    return all(word in said for word in value)


def _is_counted(values: Sequence[tuple[object, ...]]) -> bool:
    """Return whether each value is the number after that of the call before, or before it."""
    if not all(len(value) == 1 and str(value[0]).isdecimal() for value in values):
        return False
    numbers = [int(str(value[0])[:9]) for value in values]
    steps = {later - earlier for later, earlier in pairwise(numbers)}
    return len(steps) == 1 and 0 not in steps


def _denies_item(round_: Round) -> bool:
    """Return whether a failure is about the thing that was tried, and not about all of them."""
    if isinstance(round_, RememberedRound):
        return bool(round_.record.traits & Trait.DENIED)
    return round_.failure is not None and denies_item(round_.failure)


def _is_taken(round_: Round) -> bool:
    is_known = not isinstance(round_, RememberedRound) and round_.failure is not None
    return is_known and is_taken(round_.failure or "")


def _words(round_: Round) -> Sequence[object]:
    if isinstance(round_, RememberedRound):
        return list(round_.record.argument_words.rstrip(b"\0"))
    return _WORD.findall(round_.arguments)


def _count_names(round_: Round) -> int:
    """Return how many words are the names of arguments: these are always equal."""
    if isinstance(round_, RememberedRound):
        return 1
    return len(_ARGUMENT_NAME.findall(round_.arguments))


def _common_length(left: Sequence[object], right: Sequence[object]) -> int:
    """Return how many first items are equal."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
