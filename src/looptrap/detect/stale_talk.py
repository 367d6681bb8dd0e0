"""Stale talk: a conversation in which neither side says anything that was not said before.

Two machines that answer each other, a critic and a writer that no longer get further, a question
that is asked again and again. People bring words of their own with nearly every message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from looptrap.detect.canonical import mask_result
from looptrap.dialect.model import Call, Message

MIN_MESSAGES = 16
"""Messages of a conversation below which people also repeat themselves."""

MAX_MESSAGES = 72
"""Latest messages that are read."""

MAX_CHARS = 3_000
"""First characters of a message that are read."""

MAX_MESSAGE_BYTES = 2_000
"""Longer ones, on average or the latest one, are content and no talk."""

MAX_PROBES = 2
"""Phrases of the latest message that are searched for first: one of them must be known …"""
PROBED_MESSAGES = 10
"""… from one of the latest messages."""

MIN_WORDS = 40
"""Distinct words of all messages together, counted for each, below which too little is said."""

MIN_USER_SHARE = 1 / 4
"""Share of the messages that are the user's."""

MIN_USER_MESSAGES = 3
"""Different ones among them: a person or a timer may ask the same for ever."""

MAX_NEW_WORDS = 0.05
"""Share of new words up to which nothing new is said. A new figure or name is always news, and so
is a new word in a call."""

MAX_NEW_PHRASES = 0.3
"""The same of three words in a row: known words may be put together anew."""

_WORD = re.compile(r"[^\W\d_]{2,}|[^\W_]*\d[^\W_]*(?:[.,]\d+)*")
_LOWER_WORD = re.compile(r"\b[a-z]{4,}\b")
_PHRASE = re.compile(r"\b[a-z]+(?: [a-z]+){3}\b")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][^\W\d_]+")
"""A name, or the like, inside a sentence."""
_KIND = re.compile(r"<\w+>")
_NUMBERED = re.compile(
    r"#\d[\w-]{0,40}|(?<![\w-])(?:\d{1,12}(?:-\d{1,12}){1,4}(?![\w-])"
    r"|(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[^\W\d_])[\w-]{6,40})"
)
"""Numbers of letters and cases. Receipts bring another one each time, which nobody takes up: it is
content only where the assistant names it."""


class _Said(NamedTuple):
    """What a message says, beside those before it."""

    is_user: bool
    is_assistant: bool
    words: int
    new_words: int
    news: int
    """New figures, names and words in calls: these are what somebody asks for."""
    phrases: int
    new_phrases: int
    message: tuple[str, ...]
    """A user's words in their order; none of others."""


def may_be_stale(call: Call) -> bool:
    """Return whether all that the last message says was said before: a cheap test."""
    raws = call.raws
    if len(raws) < MIN_MESSAGES:
        return False
    if len(raws[-1]) > MAX_MESSAGE_BYTES:
        return False
    newest = call.tail(1)[0]
    if newest.role != "user" or newest.results:
        return False
    if sum(map(len, raws[-MIN_MESSAGES:])) > MIN_MESSAGES * MAX_MESSAGE_BYTES:
        return False
    # Python searches for few bytes three times as fast from the end as from the beginning.
    latest = b"".join(raws[-PROBED_MESSAGES:-1])
    phrases = [found[0] for found in islice(_PHRASE.finditer(newest.text), MAX_PROBES)]
    if phrases and all(latest.rfind(phrase.encode()) < 0 for phrase in phrases):
        return False
    before = b"".join(raws[-MAX_MESSAGES:-1])
    return all(before.rfind(word.encode()) >= 0 for word in _LOWER_WORD.findall(newest.text))


def count_stale_turns(call: Call) -> int:
    """Return how many of the latest turns of the assistant are talk that says nothing new."""
    found = (message for message in call.backwards() if message.role != "system")
    latest = list(islice(found, MAX_MESSAGES))
    said = list(_compare(latest[::-1]))[::-1]
    best = words = new_words = phrases = new_phrases = users = turns = 0
    different: set[tuple[str, ...]] = set()
    for count, one in enumerate(said, 1):
        if one.news:
            break
        words, new_words = words + one.words, new_words + one.new_words
        phrases, new_phrases = phrases + one.phrases, new_phrases + one.new_phrases
        users, turns = users + one.is_user, turns + one.is_assistant
        if one.is_user:
            different.add(one.message)
        if (
            count >= MIN_MESSAGES
            and words >= MIN_WORDS
            and users >= MIN_USER_SHARE * count
            and len(different) >= MIN_USER_MESSAGES
            and new_words <= MAX_NEW_WORDS * words
            and new_phrases <= MAX_NEW_PHRASES * phrases
        ):
            best = turns
    return best


def _compare(messages: Sequence[Message]) -> Iterator[_Said]:
    known: set[str] = set()
    named: set[str] = set()
    known_phrases: set[tuple[str, ...]] = set()
    for message in messages:
        is_assistant, text = message.role == "assistant", mask_result(_text(message))
        numbers = set(_NUMBERED.findall(text)) if is_assistant else set()
        asked = set(_words(" ".join(call.arguments[:MAX_CHARS] for call in message.calls)))
        asked |= {name.lower() for name in _NAME.findall(text)}
        sequence = _words(text)
        words = set(sequence)
        phrases = set(zip(sequence, sequence[1:], sequence[2:], strict=False))
        new = words - known
        figures = sum(any(map(str.isdigit, word)) for word in new)
        is_user = message.role == "user" and not message.results
        yield _Said(
            is_user,
            is_assistant,
            len(words),
            len(new) - figures,
            figures + len(numbers - named) + len(asked - known),
            len(phrases),
            len(phrases - known_phrases),
            tuple(sequence) if is_user else (),
        )
        known |= words
        named |= numbers
        known_phrases |= phrases


def _text(message: Message) -> str:
    if message.results:
        return " ".join(result.text[:MAX_CHARS] for result in message.results)
    calls = (f"{call.name} {call.arguments[:MAX_CHARS]}" for call in message.calls)
    return " ".join([message.text[:MAX_CHARS], *calls])


def _words(masked: str) -> list[str]:
    return _WORD.findall(_NUMBERED.sub(" ", _KIND.sub(" ", masked)).lower())
