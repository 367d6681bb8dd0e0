"""The strip: rounds as a row of cells in which equal (call, result) pairs share an id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice
from typing import Literal

import msgspec

from looptrap.detect.canonical import join
from looptrap.detect.remembered_round import RememberedRound, Trait
from looptrap.detect.round import Round
from looptrap.detect.signals.failing import SAME_ERROR_PERCENT
from looptrap.detect.similarity import MAX_COMPARED_CHARS, differs_only_in_noise, gist_of_result
from looptrap.detect.trajectory import RunTrajectory, Trajectory

MAX_CELLS = 60
"""Latest rounds that are shown."""

MAX_COMPARED_RESULTS = 16
"""Earlier results of the same call, or other errors, with which a result is compared."""


Break = Literal["", "compaction", "trim", "restart"]
"""What happened to a history between two rounds; mostly nothing."""


class StripCell(msgspec.Struct, frozen=True, gc=False):
    """One round without any of its text."""

    id: str
    """Eight hex digits; equal for equal calls with equal results."""
    tools: tuple[str, ...]
    is_error: bool
    repeats: bool
    """Whether another cell of the strip has the same id."""
    after: Break = ""
    """Whether the history was compacted or trimmed just before it, or the run began again."""
    error: str = ""
    """The id of the first cell that failed the same way; empty for a round that did not fail."""


def strip(
    rounds: Trajectory | Sequence[Round], secret: bytes, limit: int = MAX_CELLS
) -> list[StripCell]:
    """Return the latest `limit` rounds, the oldest first; a sequence is given the latest first.

    Of a run, these are all that are remembered, also those before a compaction.
    """
    oldest_first = _latest(rounds, limit)[::-1]
    round_ids = _RoundIds(secret)
    ids = [round_ids.id(round_) for round_ in oldest_first]
    occurrences = Counter(ids)
    errors = _errors(oldest_first, ids)
    breaks = [_break_before(round_) for round_ in oldest_first]
    if breaks and isinstance(rounds, Trajectory) and rounds.restarts:
        breaks[0] = "restart"
    return [
        StripCell(id, tuple(sorted(round_.names)), bool(error), occurrences[id] > 1, after, error)
        for id, round_, after, error in zip(ids, oldest_first, breaks, errors, strict=True)
    ]


def _latest(rounds: Trajectory | Sequence[Round], limit: int) -> Sequence[Round]:
    if isinstance(rounds, RunTrajectory):
        return rounds.all_rounds[:limit]
    return rounds.latest(limit) if isinstance(rounds, Trajectory) else rounds[:limit]


def _errors(rounds: Sequence[Round], ids: Sequence[str]) -> list[str]:
    """Return for each round the id of the first that failed like it; empty for a success."""
    first: dict[str, Round] = {}
    errors: list[str] = []
    for round_, id in zip(rounds, ids, strict=True):
        if round_.failure is None:
            errors.append("")
            continue
        same = (
            error
            for error, other in islice(first.items(), MAX_COMPARED_RESULTS)
            if error == id or round_.fails_like(other, SAME_ERROR_PERCENT)
        )
        error = next(same, id)
        first.setdefault(error, round_)
        errors.append(error)
    return errors


def _break_before(round_: Round) -> Break:
    traits = round_.record.traits if isinstance(round_, RememberedRound) else 0
    if traits & Trait.AFTER_COMPACTION:
        return "compaction"
    return "trim" if traits & Trait.AFTER_TRIM else ""


class _RoundIds:
    """Gives ids to consecutive rounds; equal is what the signals consider equal."""

    def __init__(self, secret: bytes) -> None:
        self._digester = blake2b(digest_size=4, key=secret[:64], person=b"lt-strip")
        self._by_signature: dict[object, list[tuple[Round, str]]] = {}
        self._used: set[str] = set()

    def id(self, round_: Round) -> str:
        known = self._by_signature.setdefault(round_.signature, [])
        for other, id in reversed(known[-MAX_COMPARED_RESULTS:]):
            if _is_same(round_, other):
                if isinstance(round_, RememberedRound):
                    known.append((round_, id))  # more may be known of it than of the other
                return id
        id = self._new_id(round_)
        known.append((round_, id))
        return id

    def _new_id(self, round_: Round) -> str:
        content = _content(round_)
        id = self._digest(content)
        # Results that only begin alike are not equal.
        while id in self._used:
            content += b"+"
            id = self._digest(content)
        self._used.add(id)
        return id

    def _digest(self, content: bytes) -> str:
        keyed = self._digester.copy()
        keyed.update(content)
        return keyed.hexdigest()


def _content(round_: Round) -> bytes:
    """Return what an id is the digest of."""
    if isinstance(round_, RememberedRound):
        record = round_.record
        return record.signature + (record.gist if any(record.gist) else record.result)
    result = round_.result if round_.calls else round_.text
    signature = round_.signature_texts
    gist = gist_of_result(result[:MAX_COMPARED_CHARS], round_.failure is not None)
    return join([*signature, "", str(len(signature))]) + gist


def _is_same(round_: Round, other: Round) -> bool:
    """Return whether two rounds with the same calls are equal; without calls, by their text."""
    if round_.calls or isinstance(round_, RememberedRound):
        return round_.has_same_result(other)
    return differs_only_in_noise(round_.text, other.text)
