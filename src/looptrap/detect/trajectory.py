"""The trajectory: what an agent did since a person last spoke, round by round."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from sys import maxsize

from msgspec import Raw

from looptrap.detect.canonical import join
from looptrap.detect.round import NUDGE_MARK, Reader, Round, cached_field
from looptrap.detect.text_tools import (
    is_observation,
    may_be_observation,
    text_as_call,
    text_as_result,
)
from looptrap.dialect.model import Call, Message

MAX_INJECTED_CHARS = 40
_INJECTED = re.compile(
    r"\W*(?:please\s+)?(?:continue|go on|go ahead|proceed|keep going|carry on|next(?: step)?"
    r"|resume)(?:\s+please)?\W*",
    re.IGNORECASE,
)
"""What loops around a model say to keep it going."""

MAX_SEARCHED_MESSAGES = 40
"""In so many of the latest messages a call is looked for before they are read."""

MIN_NEEDLE_CHARS, MAX_NEEDLE_CHARS = 4, 24
"""How much of a call is looked for: less proves nothing, more makes the search no faster."""

_PLAIN = re.compile(r"[A-Za-z0-9 _.:=,-]+")
"""What JSON writes as it is, however often it is wrapped."""

_NUDGE = NUDGE_MARK.encode()
MAX_NUDGE_BYTES = 4_000
"""No nudge takes more bytes."""


class Trajectory:
    """The rounds since the last user message, read from the latest back, as far as needed."""

    def __init__(
        self, call: Call, limit: int = maxsize, exempt: frozenset[str] = frozenset()
    ) -> None:
        """Read at most the latest `most` rounds, and none that call only `exempt` tools.

        When the latest round is such a one, there is nothing to read now.
        """
        self._call = call
        self._unread: Iterator[Round] = islice(_backwards(call), limit)
        self._rounds: list[Round] = []
        if exempt:
            self._unread = _without(exempt, self._unread)

    @cached_field
    def newest(self) -> Round | None:
        """The latest round; None where there is none. Most signals look no further."""
        latest = self.latest(1)
        return latest[0] if latest else None

    @cached_field
    def is_new_call(self) -> bool:
        """Whether what was asked last was surely not asked in the rounds before.

        The longest plain piece of its arguments would stand in what was sent then: to look for it
        costs far less than reading all that.
        """
        if self.newest is None:
            return True
        needle = max(_PLAIN.findall(self.newest.arguments), key=len, default="")[
            :MAX_NEEDLE_CHARS
        ].encode()
        if len(needle) < MIN_NEEDLE_CHARS:
            return False
        return b"".join(self._call.raws[-MAX_SEARCHED_MESSAGES:]).count(needle) < 2

    @property
    def length(self) -> int:
        """How many messages the whole history has."""
        return len(self._call.raws)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the request offers."""
        return self._call.tools

    def latest(self, limit: int) -> list[Round]:
        """Return up to `most` rounds, the latest first."""
        while len(self._rounds) < limit:
            found = next(self._unread, None)
            if found is None:
                break
            self._rounds.append(found)
        return self._rounds[:limit]

    def since_change(self, limit: int) -> list[Round]:
        """Return up to `most` rounds, the latest first, as far back as nothing new has changed.

        What changed something that had not been done before is progress, and so is another answer
        to what had been asked before: what came earlier does not count. The latest round itself is
        always there.
        """
        rounds = self.latest(limit)
        for age, round_ in enumerate(rounds[1:], 1):
            if round_.signature == rounds[0].signature:
                continue
            same_calls = [
                earlier
                for earlier in rounds
                if earlier is not round_ and earlier.signature == round_.signature
            ]
            if round_.made_change if not same_calls else _has_new_result(round_, rounds[age + 1 :]):
                return rounds[:age]
        return rounds

    def fingerprint_content(self, with_texts: list[str]) -> bytes:
        """Return what tells this history from others: what was asked last, and these texts."""
        asked = sorted(self.newest.signature) if self.newest is not None else []
        return join([*with_texts, *(text for pair in asked for text in pair)])


def _has_new_result(round_: Round, before: list[Round]) -> bool:
    """Say whether something had been asked before, and its answer had never come."""
    same_calls = [earlier for earlier in before if earlier.signature == round_.signature]
    return bool(same_calls) and not any(round_.has_same_result(earlier) for earlier in same_calls)


def is_fresh(call: Call) -> bool:
    """Say whether a person has just spoken: then there is nothing to read yet."""
    last = call.tail(1)
    return bool(last) and begins_turn(last[0])


def _is_long(raw: Raw) -> bool:
    """Say whether a message is longer than what a harness or a nudge of ours says."""
    size = memoryview(raw).nbytes
    return size > MAX_NUDGE_BYTES or (size > 4 * MAX_INJECTED_CHARS and _NUDGE not in bytes(raw))


def _backwards(call: Call) -> Iterator[Round]:
    """Yield the rounds from the latest back; answers of tools stay unread where that is cheaper."""
    if call.peek is not None and call.read is not None:
        yield from _peeking(call, call.peek, call.read)
        return
    answers: list[Message] = []
    for message in call.backwards():
        if message.results:
            answers.append(message)
        if begins_turn(message):
            return
        if message.role == "user" and is_observation(message.text):
            answers.append(text_as_result(message))
        if message.role == "assistant":
            yield Round(_assistant_message(message, answers), answers)
            answers = []


def _without(exempt: frozenset[str], rounds: Iterator[Round]) -> Iterator[Round]:
    """Yield the rounds that call other tools too; nothing while the latest one does not."""
    for age, round_ in enumerate(rounds):
        if not round_.calls or not round_.names <= exempt:
            yield round_
        elif not age:
            return


def _peeking(call: Call, peek: Callable[[Raw], str], read: Reader) -> Iterator[Round]:
    answers: list[Raw | Message] = []
    # What was read to count the prompt stands at the end, where this begins: it is not read again.
    already_read = call.known
    index = len(already_read)
    for raw in reversed(call.raws):
        index -= 1
        message = already_read[index] if index >= 0 else None
        role = peek(raw) if message is None else message.role
        if role == "tool":
            answers.append(raw)
        elif role == "assistant":
            is_read = bool(answers) and isinstance(answers[0], Message)
            message_or_raw = (
                _assistant_message(message or read(raw), answers) if is_read else message or raw
            )
            yield Round(message_or_raw, answers, read)
            answers = []
        elif role == "user":
            if _is_long(raw) and not may_be_observation(memoryview(raw)):
                return
            message = message or read(raw)
            if begins_turn(message):
                return
            if is_observation(message.text):
                answers.append(text_as_result(message))


def _assistant_message(message: Message, answers: Sequence[Message | Raw]) -> Message:
    """Return what the assistant said; where it was answered in text, that was a call."""
    return text_as_call(message) if answers and not message.calls else message


def begins_turn(message: Message) -> bool:
    """Say whether a person speaks; a harness that says "continue", or what came out, is none."""
    if message.role != "user" or message.results or message.text.startswith(NUDGE_MARK):
        return False
    if len(message.text) <= MAX_INJECTED_CHARS and _INJECTED.fullmatch(message.text) is not None:
        return False
    return not is_observation(message.text)
