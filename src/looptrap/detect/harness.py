"""Harness messages: what comes back word for word, or has the form of a nag, is no person's.

`No tool calls found in the response. …` after each answer comes from the program around the agent.
Such a message begins no turn: what the agent did before it and after it is one run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Raw

from looptrap.detect.canonical import LONG_TEXT, mask
from looptrap.detect.courtesy import MAX_COURTESY_CHARS, is_courtesy
from looptrap.detect.harness_text import is_harness_text, may_be_harness_message
from looptrap.detect.stale_talk import may_be_stale
from looptrap.dialect.model import Call, Message

MIN_HARNESS_CHARS = 20
"""Shorter messages come back from persons too: "yes", "next", "try again"."""

MIN_TIMES = 3
"""How often a request must show a message before it is a harness's."""

MAX_MESSAGES_APART = 8
"""Messages before one in which it must have come before."""

FIRST_INDEX = 2 * (MIN_TIMES - 1)
"""Before this place a message cannot have come that often, with answers between."""

FIRST_ANSWERED = 2
"""Before this place nothing has been answered about which a harness could complain."""

SIZE_SLACK_BYTES = 128
"""Bytes by which equal messages may differ in size: markers for caches, times and counters."""

FINAL_MARK = "Looptrap ended this run"
"""How the last words of a run begin that was ended here in place of the model."""

_FINAL = FINAL_MARK.encode()
MAX_FINAL_BYTES = 4_000
MAX_FINALS_APART = 12
"""Messages before the last words of a run in which it may have been ended before."""

_PLAIN = re.compile(r"[A-Za-z _.:=,-]{8,24}")
"""A piece of a text as JSON writes it too, and without numbers, which may differ."""

_NUMBER = re.compile(r"\d+")
_FIGURE = re.compile(r"\d[\d.,:]*")

ComesAfterPause = Callable[[bool], bool]
"""Returns whether a repeated message comes after a pause, so that a person or a timer may send it;
given whether the request ends with it."""


HasGrown = Callable[[Sequence[str]], bool]
"""Returns whether a request before ended with one of these results but the first: their ids, the
latest first."""


def is_same_message(left: str, right: str) -> bool:
    """Return whether two texts differ at most in times, ids and counters.

    Plain numbers may differ too where most of the text stands in lines that are equal: such a
    message has a state at its end. In a single line a number is what the message is about.
    """
    if left == right:
        return True
    if abs(len(left) - len(right)) > SIZE_SLACK_BYTES or len(left) > LONG_TEXT:
        return False
    if mask(left) == mask(right):
        return True
    pairs = list(zip(left.split("\n"), right.split("\n"), strict=False))
    equal = sum(len(line) + 1 for line, other in pairs if line == other)
    return 2 * equal > len(left) and _NUMBER.sub("#", left) == _NUMBER.sub("#", right)


def has_same_words(left: str, right: str) -> bool:
    """Return whether two texts differ in figures only."""
    return left == right or _FIGURE.sub("#", left) == _FIGURE.sub("#", right)


def comes_back(call: Call, index: int, message: Message) -> bool:
    """Return whether a request shows a user's message at least three times up to this place.

    The assistant must have answered between. Directly after a result, before the agent has said
    anything about it, a person hardly ever speaks, and never in the same words each time: there
    any figures may differ (`Step 12 of 60`).
    """
    if index < FIRST_INDEX:
        return False
    is_inside = follows_result(call, index)
    if len(message.text) < MIN_HARNESS_CHARS and not is_inside:
        return False
    is_same = has_same_words if is_inside else is_same_message
    for _ in range(MIN_TIMES - 1):
        before = _place_before(call, index, message.text, is_same)
        if before < 0 or not _is_answered(call, before, index):
            return False
        if is_inside and not follows_result(call, before):
            return False
        index = before
    return True


def follows_result(call: Call, index: int) -> bool:
    """Return whether the message before a place is the result of a call."""
    if index < 1:
        return False
    raw = call.raws[index - 1]
    if call.peek is not None:
        return call.peek(raw) == "tool"
    assert call.read is not None  # there are messages
    return call.read(raw).role == "tool"


def ends_with_idle_talk(call: Call) -> bool:
    """Return whether the last message, a user's, is a harness's, or may say nothing new."""
    last = len(call.raws) - 1
    if last < FIRST_INDEX:
        return False
    message = call.tail(1)[0]
    if comes_back(call, last, message) or _may_be_idle_courtesy(call, message.text):
        return True
    return may_be_stale(call)


def may_come_back(call: Call, index: int) -> bool:
    """Return, by sizes alone, whether a message may be one that came before."""
    size = len(call.raws[index])
    return index >= FIRST_INDEX and any(
        abs(len(raw) - size) <= SIZE_SLACK_BYTES for raw in _raws_before(call, index)
    )


def _place_before(call: Call, index: int, text: str, is_same: Callable[[str, str], bool]) -> int:
    """Return the place of the same message before; -1 where there is none nearby."""
    assert call.read is not None  # there are messages
    size = len(call.raws[index])
    least, most = size - SIZE_SLACK_BYTES, size + SIZE_SLACK_BYTES
    needle: bytes | None = None
    for distance, raw in enumerate(_raws_before(call, index), 1):
        if not least <= len(raw) <= most:
            continue
        if needle is None:
            found = _PLAIN.search(text, 0, LONG_TEXT)
            needle = found[0].encode() if found is not None else b""
        if needle not in bytes(raw):
            continue
        message = call.read(raw)
        if message.role == "user" and not message.results and is_same(message.text, text):
            return index - distance
    return -1


def _raws_before(call: Call, index: int) -> Sequence[Raw]:
    """Return the few messages before a place, the latest first."""
    return call.raws[max(0, index - MAX_MESSAGES_APART) : index][::-1]


def _is_answered(call: Call, place: int, later: int) -> bool:
    """Return whether the assistant said or called something between two messages."""
    assert call.read is not None
    return any(call.read(raw).role == "assistant" for raw in call.raws[place + 1 : later])


MIN_COURTESIES = 6
"""Courtesies of each side that a request must show before they are taken for idle talk."""


def _may_be_idle_courtesy(call: Call, text: str) -> bool:
    """Return, by the last message, a user's, whether two sides may only exchange courtesies."""
    is_long = len(call.raws) >= 2 * MIN_COURTESIES
    return is_long and len(text) <= MAX_COURTESY_CHARS and is_courtesy(text)


def is_final(raw: Raw) -> bool:
    """Return, without decoding an assistant's message, whether Looptrap wrote it."""
    return len(raw) <= MAX_FINAL_BYTES and _FINAL in bytes(raw)


class TurnStarts:
    """Finds, from the latest message back, where the turn of an agent begins."""

    # Most calls change few of these: what is set in the class costs nothing.
    has_grown: HasGrown | None = None
    are_ignored = False
    """Whether rounds are read beyond where a turn begins."""
    has_repeats = False
    """Whether a user's message comes back in what was read so far."""
    has_other_form = False
    """Whether rounds were read that a framework merged, or wrote as text: they are shown whole."""
    has_pages = False
    """Whether a browser agent shows its latest round only, by which its run is known."""
    is_urged = False
    """Whether a harness urged the agent on in what was read so far."""
    has_courtesies = False
    """Whether a user answered a courtesy with one in what was read so far."""
    newest_place = -1
    """Where the latest message of the assistant stands; -1 before it was read."""
    has_ended = False
    """Whether that message is Looptrap's, which ended the run."""

    def __init__(
        self,
        call: Call,
        may_begin: Callable[[Message], bool],
        comes_after_pause: ComesAfterPause | None,
    ) -> None:
        self._call = call
        self._may_begin = may_begin
        self._comes_after_pause = comes_after_pause
        self._texts: list[str] = []

    @property
    def may_be_merged(self) -> bool:
        """Whether a framework may have merged rounds; guarded tools tell which calls were made at
        the same time."""
        return self._call.generates

    def is_start(self, index: int, message: Message) -> bool:
        """Return whether a message, at this place of the request, begins a turn."""
        if self.are_ignored or not self._may_begin(message):
            return False
        if not self._is_harness(index, message):
            return True
        self.is_urged = True
        return False

    def read_answer(self, index: int, is_ours: bool) -> bool:
        """Note an answer at this place; return whether it is a round.

        What Looptrap said in the model's place is none. But the first time the model gets a turn
        after it, to change its approach.
        """
        is_newest = self.newest_place < 0
        if is_newest and not is_ours:
            self.newest_place = index
        if not is_ours:
            return True
        before = self._call.raws[max(0, index - MAX_FINALS_APART) : index]
        if not is_newest or any(map(is_final, before)):
            return False
        self.newest_place, self.has_ended = index, True
        return True

    def may_continue(self, index: int) -> bool:
        """Return, without decoding it, whether a long message may be a harness's."""
        if self.are_ignored or self._texts or may_come_back(self._call, index):
            return True
        return index >= FIRST_ANSWERED and may_be_harness_message(self._call.raws[index])

    def _answers_courtesy(self, index: int, text: str) -> bool:
        """Return whether a user, perhaps another agent, answers one courtesy with another."""
        call = self._call
        if not index > 0 or len(call.raws) < 2 * MIN_COURTESIES or not is_courtesy(text):
            return False
        assert call.read is not None
        before = call.read(call.raws[index - 1])
        is_answer = before.role == "assistant" and not before.calls and is_courtesy(before.text)
        self.has_courtesies = self.has_courtesies or is_answer
        return is_answer

    def _is_harness(self, index: int, message: Message) -> bool:
        text = message.text
        if len(text) <= MAX_COURTESY_CHARS and self._answers_courtesy(index, text):
            return True
        is_known_form = is_harness_text(text)
        if any(is_same_message(text, known) for known in self._texts):
            return True
        is_inside = follows_result(self._call, index)
        if is_inside and any(has_same_words(text, known) for known in self._texts):
            return True
        # A timer may send reminders in tags; nothing else of a known form comes from one.
        if (is_known_form and text[:1] != "<") or not comes_back(self._call, index, message):
            return is_known_form
        if is_inside:  # whenever it comes: the turn had not ended
            self._texts.append(text)
            return True
        self.has_repeats = True
        is_last = index == len(self._call.raws) - 1
        if self._comes_after_pause is not None and self._comes_after_pause(is_last):
            return False
        self._texts.append(text)
        return True
