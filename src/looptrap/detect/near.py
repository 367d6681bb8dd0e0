"""Near: prompts that are their predecessor once more, with a few words around it.

`"That wasn't valid JSON. Try again: " + prompt` changes every time, so no exact fingerprint sees
the most classic loop of all. A prompt is *contained* in a later one when the later one ends with
all of it. Both share their end, so a store is asked what else had that end: it remembers a mark for
each prompt, its length and its fingerprint, which is enough to tell for certain.

One template over different data is not contained, however much of it is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from looptrap.detect.canonical import SEPARATOR

PROMPT_END_BYTES = 32
"""Prompts whose last bytes, so many, are the same are compared; a shorter one stands in others by
chance."""

MAX_ADDED_BYTES = 400
"""More than this before a prompt is content, not the way of asking once more."""

LENGTH_BYTES = 4

_PROMPTS = (b"user" + SEPARATOR, SEPARATOR + SEPARATOR)
"""What stands before the last text of a content when it is a user's prompt."""

MAX_ENVELOPE_CHARS = 160
"""Characters at either end of a prompt in which an envelope is looked for."""

MAX_LABEL_CHARS = 24
"""An envelope begins at most so many characters before the first name in it."""

MAX_VALUE_CHARS = 16
"""Among so many of its last characters an envelope at the end has a digit."""

SHORT_PROMPT_CHARS = 600
"""A prompt up to this long may be about what its envelope names."""

_DATE = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\ ?[ap]m)?(?:\ ?(?:z|utc|[+-]\d\d:?\d\d))?"
_STAMP = rf"{_DATE}[t\ ]{_CLOCK}"
_ITEM = rf"""
    (?: (?:attempt|retry|try)s?(?:\ (?:count|no\.?|number))?[\ :=\#.]{{1,3}}
        \d{{1,9}}(?:\ ?(?:/|of)\ ?\d{{1,9}})?
      | (?:x-)?(?:request|correlation|trace|message)[\ _-]?id[\ :=\#]{{1,3}}
        (?=[0-9-]{{0,64}}[a-z])(?=[a-z-]{{0,64}}\d)[0-9a-z-]{{8,64}}
      | nonce[\ :=\#]{{1,3}}[0-9a-z-]{{1,64}}
      | (?:the\ )?(?:current|local|present)\ (?:date(?:\ and\ time|time)?|time)(?:\ is)?
        [\ :=]{{1,3}}(?:{_STAMP}|{_DATE}|{_CLOCK})
      | timestamp[\ :=]{{1,3}}(?:{_STAMP}|{_CLOCK}|\d{{10,16}})
    )"""
_ITEMS = rf"{_ITEM}(?:(?:,|;|\ at|\ on|\ -|\ \|)?\ (?:{_ITEM}|{_STAMP})){{0,3}}"
_LEADING = re.compile(
    rf"""\s{{0,4}} (?: [\[(<] \s? (?:{_ITEMS}|{_STAMP}) \s? [\])>] [\s:.,;-]{{0,4}}
                    | {_ITEMS} (?: \s?[:.;|\n] | ,\s | \s[-–—]{{1,2}}\s ) \s{{0,4}}
                    | {_STAMP} [\s:,-]{{1,4}} )""",
    re.IGNORECASE | re.VERBOSE,
)
_TRAILING = re.compile(
    rf"""(?: \s? [\[(<] \s? {_ITEMS} \s? [\])>]
           | (?: (?<=[.!?;:,|]) \s | \n | \s[-–—|]{{1,2}}\s
               | \s (?= (?-i:[A-Z]) [\w\ -]{{2,30}} [:=\#] ) )  # such a label begins a clause
             \s{{0,4}} {_ITEMS} )
        \s? [.!]? \s{{0,4}} \Z""",
    re.IGNORECASE | re.VERBOSE,
)
_find_digit = re.compile(r"\d").search
_NAMES = ("attempt", "retry", "try", "id", "nonce", "time", "date")
_SUBJECTS = [
    (re.compile(name, re.IGNORECASE), re.compile(subject, re.IGNORECASE))
    for name, subject in (
        ("attempt|retry", r"\b(?:attempts?|retries)\b(?!\ to\b)"),
        ("id", r"\b(?:requests?|ids?|traces?|messages?)\b"),
        ("time", r"\b(?:times?|clock|hours?|now|today|when)\b"),
        (r"date(?!.*time)", r"\b(?:dates?|days?|weeks?|today|when)\b"),
    )
]
"""What an envelope names, and how a prompt speaks of it that asks about it."""


def without_envelope(text: str) -> str:
    """Return a prompt without what a retry puts around it by itself.

    That is a bracket or a clause of its own at either end which holds nothing but counters of
    attempts, ids of requests or the time of asking. A number inside the question is what the
    question is about, and so is one that the rest of a short prompt speaks of.
    """
    found = _LEADING.match(text, 0, MAX_ENVELOPE_CHARS)
    if found is not None and not _is_subject(found[0], rest := text[found.end() :]):
        text = rest or text
    return without_trailer(text)


def without_trailer(text: str) -> str:
    """Return a prompt without such an envelope at its end."""
    if _find_digit(text[-MAX_VALUE_CHARS:]) is None:
        return text
    tail = text[-MAX_ENVELOPE_CHARS:]
    lowered = tail.lower()
    named = [at for name in _NAMES if (at := lowered.find(name)) >= 0]
    found = _TRAILING.search(tail, max(min(named) - MAX_LABEL_CHARS, 0)) if named else None
    if found is None:
        return text
    rest = text[: len(text) - len(tail) + found.start()]
    return text if not rest or _is_subject(found[0], rest) else rest


def _is_subject(envelope: str, prompt: str) -> bool:
    """Return whether a short prompt speaks of what its envelope names."""
    return len(prompt) <= SHORT_PROMPT_CHARS and any(
        name.search(envelope) and subject.search(prompt) for name, subject in _SUBJECTS
    )


_LAST, _FAR = 16, 2_048
"""What repeats itself at an end is found by its last bytes, so far back …"""

_PHRASE = 10
"""… and has at least so many: shorter things that repeat themselves may be what is asked about."""


def said_once(content: bytes) -> bytes:
    """Return a normalised content whose prompt, where its end repeats itself, says that once.

    Prompts that grow at their end in other ways are transcripts, and documents being written.
    """
    if not content.endswith(_PROMPTS, 0, content.rfind(SEPARATOR) + 1):
        return content
    length = len(content)
    while length >= 2 * _LAST:
        at = content.rfind(content[length - _LAST : length], max(length - _FAR, 0), length - 1)
        unit = length - _LAST - at
        if at < 0 or unit < _PHRASE or 2 * unit > length:
            break
        if content[length - 2 * unit : length - unit] != content[length - unit : length]:
            break
        length -= unit
    return content[:length]


def end(content: bytes) -> bytes | None:
    """Return what stands for all prompts with the same end as this one.

    The prompt is the last text of a content. None where there is none, or it is too short to be
    told from others.
    """
    start = content.rfind(SEPARATOR) + 1
    if len(content) - start < PROMPT_END_BYTES or not content.endswith(_PROMPTS, 0, start):
        return None
    return b"%b\xfe%b" % (content[:start], content[-PROMPT_END_BYTES:])


def mark(content: bytes, key: bytes) -> bytes:
    """Return what a store is to remember of a prompt: its length and its fingerprint."""
    return (len(content) - content.rfind(SEPARATOR) - 1).to_bytes(LENGTH_BYTES) + key


def contained(
    content: bytes, marks: Iterable[bytes], key_of: Callable[[bytes], bytes]
) -> bytes | None:
    """Return the mark of the shortest prompt that this one merely asks once more."""
    start = content.rfind(SEPARATOR) + 1
    before, prompt = content[:start], content[start:]
    for one in sorted(marks):
        around = len(prompt) - int.from_bytes(one[:LENGTH_BYTES])
        if around <= 0:
            break
        if len(_unit(prompt[:around])) <= MAX_ADDED_BYTES and key_of(
            before + prompt[around:]
        ) == key_in(one):
            return one
    return None


def key_in(one: bytes) -> bytes:
    """Return the fingerprint in a mark."""
    return one[LENGTH_BYTES:]


def _unit(text: bytes) -> bytes:
    """Return the shortest text of which this one is a repetition."""
    spaced = text.strip() + b" "
    period = (spaced + spaced).find(spaced, 1)
    return spaced[:period]
