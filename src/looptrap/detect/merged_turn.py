"""Merged turns: several rounds that a framework wrote into one message of the assistant.

Mastra appends the calls of every step to one message while the model says nothing new. Read as
one round, equal calls would be parallel twins, and count once.
"""

from __future__ import annotations

from collections.abc import Sequence

from looptrap.detect.round import Round
from looptrap.dialect.model import Message

MIN_REPEATS = 5
"""Calls of one message that repeat an earlier one, and its result: no model makes six equal calls
at a time. Fewer may be a slip."""


def rounds_of(turn: Round, *, is_certain: bool = False) -> Sequence[Round]:
    """Return the rounds of a merged turn, the latest first; of any other only the turn itself.

    A turn is certainly merged if it grew from request to request. Otherwise its calls tell: a
    sampler makes equal calls too, but their results differ.
    """
    if not is_certain and not _is_merged(turn):
        return (turn,)
    answered = zip(turn.calls, turn.results, strict=True)
    rounds = [
        Round(Message("assistant", "", (call,)), [Message("tool", "", (), (result,))])
        for call, result in answered
        if result is not None
    ]
    return rounds[::-1] or (turn,)


def _is_merged(turn: Round) -> bool:
    """Return whether so many calls repeat an earlier one, with its result."""
    calls = turn.calls
    if len(calls) - len({(call.name, call.arguments) for call in calls}) < MIN_REPEATS:
        return False
    texts: dict[tuple[str, str], list[str]] = {}
    for call, result in zip(calls, turn.results, strict=True):
        if result is not None:
            texts.setdefault((call.name, call.arguments), []).append(result.text)
    repeats = sum(len(found) - 1 for found in texts.values() if len(set(found)) == 1)
    return repeats >= MIN_REPEATS
