"""The opening: what the messages before the first round of a request say of an earlier part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from looptrap.detect.canonical import join
from looptrap.detect.summary import is_summary
from looptrap.detect.trajectory import may_begin_turn
from looptrap.dialect.model import Call, Message

MAX_OPENING_MESSAGES = 6
"""Messages before the first round that are searched for a summary."""


def _users_backwards(call: Call) -> Iterator[Message]:
    """Yield the messages from the last to the first; decode no rounds before a user's message."""
    peek, read = call.peek, call.read
    if peek is None or read is None:
        yield from call.backwards()
        return
    skipped = True
    for raw in reversed(call.raws):
        if skipped and peek(raw) in ("assistant", "tool"):
            continue
        message = read(raw)
        skipped = skipped and not may_begin_turn(message)
        yield message


class Opening(NamedTuple):
    """What the messages before the first round that a request shows say."""

    tells: bool
    """Whether they tell of an earlier part of the run: they contain a summary of it."""
    is_sealed: bool
    """Whether that part is an item that only the provider can read."""
    is_first: bool
    """Whether nothing was done in the conversation before."""
    content: bytes


NO_OPENING = Opening(False, False, False, b"")


def opening_of(call: Call) -> Opening:
    """Return what the messages before the first round say."""
    before: list[Message] = []
    is_before = False
    for message in _users_backwards(call):
        is_before = is_before or may_begin_turn(message)
        if is_before or not message.role:
            before.append(message)
        if len(before) >= MAX_OPENING_MESSAGES:
            break
    if before and before[-1].role == "system":
        before.pop()
    is_sealed = any(not one.role and is_summary(one.text, 100) for one in before)
    tells = is_sealed or any(is_summary(one.text) for one in before)
    is_first = not any(message.calls or message.results for message in before)
    # Where rounds of an earlier turn are shown, nothing stands for them, whatever a person asks.
    tells = tells and (is_first or is_sealed)
    return Opening(tells, is_sealed, is_first, join([message.text for message in before]))
