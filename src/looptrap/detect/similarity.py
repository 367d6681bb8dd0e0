"""Likeness: are two texts the same but for noise, or almost the same?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, starmap

from rapidfuzz import fuzz
from rapidfuzz.distance import Postfix, Prefix

from looptrap.detect.canonical import normalise
from looptrap.detect.mask import is_all_volatile, mask, mask_result

Masking = Callable[[str], str]

MAX_COMPARED_CHARS = 4096
"""Texts are likened by so many of their first characters: it takes long."""

SIMILAR_PERCENT = 85.0
"""Per cent from which on two texts are almost the same."""

SHARED_WORDS_PERCENT = 60.0
"""Per cent of their words that two short texts must share to say almost the same."""

MAX_COMPARED_LINES = 40
"""Of two texts no more lines that differ are compared."""

CONTEXT_CHARS = 64
"""So much around a difference is looked at with it: what is volatile shows by its surroundings."""


def is_similar(left: str, right: str, percent: float = SIMILAR_PERCENT) -> bool:
    """Say whether two texts are almost the same."""
    return left == right or fuzz.ratio(left, right, score_cutoff=percent) > 0


def shares_most_words(left: str, right: str) -> bool:
    """Say whether most words are the same: `KeyError: 'a'` is not `KeyError: 'b'`."""
    return fuzz.ratio(left.split(), right.split(), score_cutoff=SHARED_WORDS_PERCENT) > 0


def differs_only_in_noise(left: str, right: str, are_failures: bool = False) -> bool:
    """Return whether two results are the same but for case, white space and volatile tokens."""
    masking = _masking(left, are_failures)
    left_lines, right_lines = left.splitlines(), right.splitlines()
    if len(left_lines) != len(right_lines):
        return len(left) <= MAX_COMPARED_CHARS and _gist(left, masking) == _gist(right, masking)
    pairs = (pair for pair in zip(left_lines, right_lines, strict=True) if pair[0] != pair[1])
    # To look at all of a long log with a time in each line would take too long.
    return all(
        _gist(a, masking) == _gist(b, masking)
        for a, b in starmap(_difference, islice(pairs, MAX_COMPARED_LINES))
    )


def gist_of_result(text: str, is_failure: bool) -> bytes:
    """Return what two results have in common that differ in noise only."""
    return _gist(text, _masking(text, is_failure))


def _masking(text: str, is_failure: bool) -> Masking:
    """Return how a result is masked: not at all where nothing would be left of it."""
    if len(text) <= CONTEXT_CHARS and is_all_volatile(mask_result(text)):
        return str  # a lone date, duration or hash is the news
    return mask if is_failure else mask_result


def _difference(left: str, right: str) -> tuple[str, str]:
    """Return where two lines differ, with a little of what they share around it."""
    start = max(0, Prefix.similarity(left, right) - CONTEXT_CHARS)
    end = max(0, Postfix.similarity(left[start:], right[start:]) - CONTEXT_CHARS)
    return _ends(left[start : len(left) - end]), _ends(right[start : len(right) - end])


def _ends(text: str) -> str:
    """Return a text; of a long one its beginning and its end."""
    return (
        text
        if len(text) <= MAX_COMPARED_CHARS
        else f"{text[: MAX_COMPARED_CHARS // 2]} {text[-MAX_COMPARED_CHARS // 2 :]}"
    )


def _gist(text: str, masking: Masking) -> bytes:
    return normalise([masking(text)])
