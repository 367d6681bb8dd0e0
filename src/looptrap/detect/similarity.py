"""Similarity: are two texts equal except for noise, or almost equal?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice, pairwise, starmap

from rapidfuzz import fuzz
from rapidfuzz.distance import Postfix, Prefix

from looptrap.detect.canonical import is_all_volatile, mask, mask_result, normalise

_WORD = re.compile(
    r"""(?P<unspaced> [\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af]+ )
      | \w*\d\w* | [^\W\d_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af]{4,}
    """,
    re.VERBOSE,
)
"""Numbers, and words long enough to mean something; in scripts without spaces, a whole clause."""

Masking = Callable[[str], str]

MAX_COMPARED_CHARS = 4096
"""First characters of a text that are compared: the comparison is slow."""

SIMILAR_PERCENT = 85.0
"""Per cent from which two texts are almost equal."""

SHARED_WORDS_PERCENT = 60.0
"""Per cent of their words that two similar short texts must share."""

MIN_LISTED_LINES, MIN_NEW_LINES_SHARE = 6, 0.25
"""Lines that a text has at least that goes on with a list or a poem, and the share of new ones."""

MAX_COMPARED_LINES = 40
"""Most differing lines of two texts that are compared."""

CONTEXT_CHARS = 64
"""Characters around a difference that are compared with it: masking needs the context."""

MAX_CACHED_CHARS = 256
"""Longer texts are masked anew each time."""

MAX_LONE_CHARS = 128
"""A result up to this long may be a lone date or hash, in a frame or with a label."""


def is_similar(left: str, right: str, percent: float = SIMILAR_PERCENT) -> bool:
    """Return whether two texts are almost equal."""
    return left == right or fuzz.ratio(left, right, score_cutoff=percent) > 0


def shares_most_words(left: str, right: str) -> bool:
    """Return whether most words are equal: `KeyError: 'a'` is not `KeyError: 'b'`."""
    return fuzz.ratio(left.split(), right.split(), score_cutoff=SHARED_WORDS_PERCENT) > 0


def brings_new_lines(text: str, before: str) -> bool:
    """Return whether a text of several lines brings new ones, as a list that goes on does.

    Alike as its rows may be, they are what was asked for.
    """
    lines = [line for line in text[:MAX_COMPARED_CHARS].splitlines() if line.strip()]
    if len(lines) < MIN_LISTED_LINES:
        return False
    known = set(before[:MAX_COMPARED_CHARS].splitlines())
    return sum(line not in known for line in lines) >= MIN_NEW_LINES_SHARE * len(lines)


def distinct_words(text: str) -> frozenset[str]:
    """Return the words that mean something; pairs of characters where there are no such words."""
    text = text.lower()
    words: set[str] = set()
    for found in _WORD.finditer(text):
        words.update(_pairs(found[0]) if found["unspaced"] else (found[0],))
    return frozenset(words or _pairs("".join(text.split())))


def _pairs(text: str) -> Iterator[str]:
    return map("".join, pairwise(text))


def differs_only_in_noise(left: str, right: str, are_failures: bool = False) -> bool:
    """Return whether two results differ only in case, white space and volatile tokens."""
    masking = _masking(left, are_failures)
    left_lines, right_lines = left.splitlines(), right.splitlines()
    if len(left_lines) != len(right_lines):
        return len(left) <= MAX_COMPARED_CHARS and _gist(left, masking) == _gist(right, masking)
    pairs = (pair for pair in zip(left_lines, right_lines, strict=True) if pair[0] != pair[1])
    # Comparing all of a long log with a time in each line would take too long.
    return all(
        _gist(a, masking) == _gist(b, masking)
        for a, b in starmap(_difference, islice(pairs, MAX_COMPARED_LINES))
    )


_CONSOLE = re.compile(r"\bconsole\b|\[(?:log|info|warn(?:ing)?|error|debug)\]", re.IGNORECASE)
"""A line that tells what a page logged, not what it shows."""

MAX_COUNTER_LINES = 2
"""Lines of a page in which a counter may move while it stays the same."""

_DIGITS = re.compile(r"\d+")


def is_same_screen(left: str, right: str, counters: int = MAX_COUNTER_LINES) -> bool:
    """Return whether two pages differ at most in what they log, and in a counter or two."""
    left_lines, right_lines = (
        [line for line in text.splitlines() if _CONSOLE.search(line[:200]) is None]
        for text in (left, right)
    )
    if len(left_lines) != len(right_lines):
        return False
    pairs = zip(left_lines, right_lines, strict=True)
    different = list(islice((pair for pair in pairs if pair[0] != pair[1]), counters + 1))
    return len(different) <= counters and all(
        _DIGITS.sub("#", a) == _DIGITS.sub("#", b) for a, b in different
    )


_SCORE = re.compile(
    r'"(?:score|relevance|similarity|distance|_score)": ?-?\d+(?:\.\d+)?'
    r'|"(?:response_time|took)": ?\d+(?:\.\d+)?'
)


def without_scores(text: str) -> str:
    """Return the hits of a search without how well each fits."""
    return mask_result(_SCORE.sub("#", text))


def gist_of_result(text: str, is_failure: bool) -> bytes:
    """Return what two results that differ only in noise have in common."""
    return _gist(text, _masking(text, is_failure))


def _masking(text: str, is_failure: bool) -> Masking:
    """Return how to mask a result: not at all where nothing would be left of it."""
    if len(text) <= MAX_LONE_CHARS and is_all_volatile(text):
        return str  # a lone date, duration or hash is the content
    return _mask_failure if is_failure else mask_result


def _mask_failure(text: str) -> str:
    return mask(mask_result(text))


def _difference(left: str, right: str) -> tuple[str, str]:
    """Return where two lines differ, with some context."""
    start = max(0, Prefix.similarity(left, right) - CONTEXT_CHARS)
    end = max(0, Postfix.similarity(left[start:], right[start:]) - CONTEXT_CHARS)
    return _ends(left[start : len(left) - end]), _ends(right[start : len(right) - end])


def _ends(text: str) -> str:
    """Return a text; of a long one its beginning and its end."""
    half = MAX_COMPARED_CHARS // 2
    return text if len(text) <= MAX_COMPARED_CHARS else f"{text[:half]} {text[-half:]}"


def _gist(text: str, masking: Masking) -> bytes:
    if len(text) > MAX_CACHED_CHARS:
        return normalise([masking(text)])
    return _gist_of_line(text, masking)


@lru_cache(maxsize=4096)  # the next request shows the same lines once more
def _gist_of_line(text: str, masking: Masking) -> bytes:
    return normalise([masking(text)])
