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

END = 32
"""Prompts whose last bytes, so many, are the same are compared; a shorter one stands in others by
chance."""

AROUND = 400
"""More than this before a prompt is content, not the way of asking once more."""

LENGTH = 4

_PROMPTS = (b"user" + SEPARATOR, SEPARATOR + SEPARATOR)
"""What stands before the last text of a content when a user wrote it, or nobody says who did."""

_STAMP = rb"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:z|utc|[+-]\d\d:?\d\d))?"
_CLOCK = rb"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[ap]m)?"
_COUNTER = re.compile(
    rb"[ :=#(\[\"'._]{0,4}"
    rb"((?=[0-9a-f-]{0,36}\d)[0-9a-f-]{1,36}\b(?: ?(?:/|of) ?\d+)?)"
)
_TIME = re.compile(rb"[ :=#(\[\"'._]{0,4}(%b|%b)" % (_STAMP, _CLOCK))
_DATED = re.compile(rb"[\[(]?%b[\])]?[ :-]*" % _STAMP)
"""A prompt that begins with when it was asked."""

_LABELS = {
    b"attempt": _COUNTER,
    b"attempts": _COUNTER,
    b"attempt no": _COUNTER,
    b"attempt number": _COUNTER,
    b"retry": _COUNTER,
    b"retry count": _COUNTER,
    b"nonce": _COUNTER,
    b"request id": _COUNTER,
    b"request_id": _COUNTER,
    b"timestamp": _TIME,
    b"time": _TIME,
    b"time is": _TIME,
}
"""What names a thing that a retry changes by itself, and what must follow there."""

_NAMES = tuple(_LABELS)
_BETWEEN = b" :=#([\"'._"
_HEX = b"0123456789abcdef-"
_OPENINGS = frozenset(bytes([byte]) for byte in b"0123456789[(")
_DIGITS = bytes(0x30 if byte in b"0123456789" else 0x2E for byte in range(256))

_NOISY = 160
"""In so many bytes at either end of a prompt, and before it, what a retry changes is looked for."""

_LAST, _FAR = 16, 2_048
"""What repeats itself at an end is found by its last bytes, so far back …"""

_PHRASE = 10
"""… and has at least so many: shorter things that repeat themselves may be what is asked about."""


def without_noise(content: bytes) -> bytes:
    """Return a normalised content without what a retry changes by itself.

    Counters of attempts, ids of requests and the time of asking go. Whatever else is a number, a
    date or an id may be what the prompt is about, and stays. What repeats itself at the very end
    is said once: prompts that grow there otherwise are transcripts, and documents being written.
    """
    start = content.rfind(SEPARATOR) + 1
    if not content.endswith(_PROMPTS, 0, start):
        return content
    content = _once(content)
    # To find digits in such a copy is ten times cheaper than any pattern.
    digits = content.translate(_DIGITS)
    if digits.find(b"0") < 0:
        return content
    after = start + _NOISY
    noise = _noise(content, digits, start - _NOISY if start > _NOISY else 0, after)
    if (length := len(content)) > after:
        noise += _noise(content, digits, max(length - _NOISY, after), length)
    if content[start : start + 1] in _OPENINGS and (found := _DATED.match(content, start)):
        noise.append(found.span())
    return _cut(content, noise) if noise else content


def _noise(content: bytes, digits: bytes, at: int, end: int) -> list[tuple[int, int]]:
    """Return where, between two places, numbers stand whose names say that they are noise."""
    noise = []
    at = digits.find(b"0", at, end)
    while at >= 0:
        near = max(at - 64, 0)
        before = content[near:at].rstrip(_HEX).rstrip(_BETWEEN)
        at = digits.find(b".", at, end)
        if before.endswith(_NAMES):
            name = next(one for one in reversed(_NAMES) if before.endswith(one))
            if found := _LABELS[name].match(content, near + len(before)):
                noise.append(found.span(1))
                at = found.end()
        at = digits.find(b"0", at, end) if at >= 0 else -1
    return noise


def _once(content: bytes) -> bytes:
    """Return a content whose end, where it repeats itself, stands there once."""
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


def _cut(content: bytes, spans: list[tuple[int, int]]) -> bytes:
    kept, end = [], 0
    for start, stop in sorted(spans):
        if start >= end:
            kept.append(content[end:start])
            end = stop
    return b"".join([*kept, content[end:]])


def end(content: bytes) -> bytes | None:
    """Return what stands for all prompts with the same end as this one.

    The prompt is the last text of a content. None where there is none, or it is too short to be
    told from others.
    """
    start = content.rfind(SEPARATOR) + 1
    if len(content) - start < END or not content.endswith(_PROMPTS, 0, start):
        return None
    return b"%b\xfe%b" % (content[:start], content[-END:])


def mark(content: bytes, key: bytes) -> bytes:
    """Return what a store is to remember of a prompt: its length and its fingerprint."""
    return (len(content) - content.rfind(SEPARATOR) - 1).to_bytes(LENGTH) + key


def contained(
    content: bytes, marks: Iterable[bytes], key_of: Callable[[bytes], bytes]
) -> bytes | None:
    """Return the mark of the shortest prompt that this one merely asks once more."""
    start = content.rfind(SEPARATOR) + 1
    before, prompt = content[:start], content[start:]
    for one in sorted(marks):
        around = len(prompt) - int.from_bytes(one[:LENGTH])
        if around <= 0:
            break
        if len(_unit(prompt[:around])) <= AROUND and key_of(before + prompt[around:]) == key_in(
            one
        ):
            return one
    return None


def key_in(one: bytes) -> bytes:
    """Return the fingerprint in a mark."""
    return one[LENGTH:]


def _unit(text: bytes) -> bytes:
    """Return the shortest text of which this one is a repetition."""
    spaced = text.strip() + b" "
    period = (spaced + spaced).find(spaced, 1)
    return spaced[:period]
